"""How much Onward costs: each figure against the least that could do the same work, side by side on this machine.

    uv run experiments/bench.py                    a table in the terminal; about seven minutes
    uv run experiments/bench.py --quick            few rounds, two minutes: does it run, roughly how much
    uv run experiments/bench.py --only driver      one measurement: driver, actions, steps, volume, startup
    uv run experiments/bench.py --json             the same as JSON on stdout
    uv run experiments/bench.py --out results/     keep every sample (samples.jsonl) and results.json
    uv run experiments/bench.py --profile          where the time of a run and of an action goes, instead of figures
    uv run experiments/bench.py --write-docs       measure everything and write the table of docs/benchmarks.md

What it does. Postgres and the ledger are started in a temporary folder as the product starts them; nothing of yours is
touched. What is compared is measured in the same rounds, in an order that changes from round to round, after rounds
that do not count; a ratio is one of medians, with a 95 % interval and with the noise of the floor against itself.

    exit 0    measured, whether targets are met or not
    exit 2    the command line makes no sense
    exit 9    a service could not be started, or a run of the benchmark did not end as it should
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

if TYPE_CHECKING:
    from experiments.benchmarks.rounds import Teller

NAMES = ("driver", "actions", "steps", "volume", "startup")


def main() -> int:
    """Measure what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: (_profile if arguments.profile else _measure)(arguments, teller))


def _measure(arguments: argparse.Namespace, teller: Teller) -> int:
    from experiments.benchmarks import command
    from experiments.benchmarks.document import RUNS
    from experiments.benchmarks.suite import MEASUREMENTS

    return command.measure(arguments, MEASUREMENTS, RUNS, teller)


def _profile(arguments: argparse.Namespace, teller: Teller) -> int:
    from experiments.benchmarks.profile import print_profiles, profiles

    found = profiles(arguments.rounds, teller)
    if arguments.json:
        print(json.dumps([profile.to_json() for profile in found], indent=2))
    else:
        print_profiles(found, sys.stdout)
    return 0


def _parsed() -> argparse.Namespace:
    from experiments.benchmarks import command

    parser = _parser()
    arguments = command.parsed(parser)
    if arguments.write_docs and arguments.profile:
        parser.error("--profile measures no figures; leave --write-docs away")
    return arguments


def _parser() -> argparse.ArgumentParser:
    from experiments.benchmarks import command

    parser = argparse.ArgumentParser(
        prog="bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_options(parser, NAMES)
    parser.add_argument("--profile", action="store_true", help="where the time goes, instead of figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
