"""`python -m experiments.anygraph --graph …`: the same as `verify.py --graph …`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.anygraph import command


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="anygraph")
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    command.add_arguments(parser)
    return command.run(parser.parse_args(), lambda line: print(f"verify: {line}", file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
