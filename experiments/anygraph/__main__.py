"""`python -m experiments.anygraph --graph …`: the same as `verify.py --graph …`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.anygraph import command


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anygraph")
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    command.add_arguments(parser)
    return parser.parse_args(words)


def main() -> int:
    """The exit code."""
    return command.run(arguments_of(), lambda line: print(f"verify: {line}", file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
