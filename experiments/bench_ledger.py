"""What the ledger costs: a fresh action and a replay against their floors and against its peers, load, size.

    uv run --group peers experiments/bench_ledger.py       a table in the terminal; about two minutes
    uv run experiments/bench_ledger.py                     without the peers that are not installed
    uv run experiments/bench_ledger.py --quick             few rounds: does it run, roughly how much
    uv run experiments/bench_ledger.py --only fresh        one measurement: fresh, replay, load, one_id, size
    uv run experiments/bench_ledger.py --json              the same as JSON on stdout
    uv run experiments/bench_ledger.py --out results/      keep every sample (samples.jsonl) and results.json
    uv run experiments/bench_ledger.py --write-docs        measure everything and write the table of docs/benchmarks.md

What it does. Postgres is started in a temporary folder; nothing of yours is touched. The service is the product's own
process, with a kind whose effect costs nothing, and is asked over HTTP by a client that costs as little as one can.
The peers are libraries in this process, with their Postgres stores on the same server and an effect that costs nothing.
What is compared is measured in the same rounds, in an order that changes from round to round.

    exit 0    measured, whether targets are met or not
    exit 2    the command line makes no sense
    exit 9    a service could not be started, or did not do what it was asked for
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

if TYPE_CHECKING:
    from experiments.benchmarks.rounds import Teller

NAMES = ("fresh", "replay", "load", "one_id", "size")


def main() -> int:
    """Measure what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = command.parsed(_parser())
    return command.guarded(lambda teller: _measure(arguments, teller))


def _measure(arguments: argparse.Namespace, teller: Teller) -> int:
    from experiments.benchmarks import command
    from experiments.benchmarks.document import LEDGER
    from experiments.ledger_benchmarks import fresh, load, one_id, replay, size
    from experiments.ledger_benchmarks.peers import DISTRIBUTIONS

    return command.measure(arguments, (fresh, replay, load, one_id, size), LEDGER, teller, DISTRIBUTIONS)


def _parser() -> argparse.ArgumentParser:
    from experiments.benchmarks import command

    parser = argparse.ArgumentParser(
        prog="bench_ledger.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_options(parser, NAMES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
