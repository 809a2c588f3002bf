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
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

if TYPE_CHECKING:
    from experiments.benchmarks.rounds import Teller

NAMES = ("driver", "actions", "steps", "volume", "startup")
ROUNDS, QUICK_ROUNDS = 30, 4


def main() -> int:
    """Measure what the command line asks for; the exit code."""
    arguments = _parsed()
    signal.signal(signal.SIGTERM, _stop)  # so that SIGTERM cleans up, as Ctrl-C does

    from experiments.benchmarks.rounds import Teller
    from experiments.benchmarks.services import leave_environment
    from experiments.errors import NotRun
    from onward_ledger.database import DatabaseError
    from onward_ledger.errors import LedgerError
    from runs.errors import Exit, RunError
    from runs.local_postgres import LocalPostgresError

    leave_environment()
    teller = Teller(sys.stderr)
    try:
        return _profile(arguments, teller) if arguments.profile else _measure(arguments, teller)
    except (NotRun, RunError, LedgerError, DatabaseError, LocalPostgresError) as error:
        teller.say(str(error))
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        teller.say("stopped; everything that was started is gone")
        return 130


def _measure(arguments: argparse.Namespace, teller: Teller) -> int:
    from experiments.benchmarks.document import write_document
    from experiments.benchmarks.report import keep, print_results, to_json
    from experiments.benchmarks.suite import measure_all

    results = measure_all(arguments.only, arguments.rounds, teller)
    if arguments.out is not None:
        keep(results, arguments.out)
    if arguments.write_docs:
        write_document(results)
    if arguments.json:
        print(json.dumps(to_json(results), indent=2))
    else:
        print_results(results, sys.stdout)
    return 0


def _profile(arguments: argparse.Namespace, teller: Teller) -> int:
    from experiments.benchmarks.profile import print_profiles, profiles

    found = profiles(arguments.rounds, teller)
    if arguments.json:
        print(json.dumps([profile.to_json() for profile in found], indent=2))
    else:
        print_profiles(found, sys.stdout)
    return 0


def _parsed() -> argparse.Namespace:
    parser = _parser()
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    if arguments.write_docs and arguments.only:
        parser.error("--write-docs writes the whole table; leave --only away")
    if arguments.write_docs and arguments.profile:
        parser.error("--profile measures no figures; leave --write-docs away")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=_rounds, metavar="N", help=f"rounds that count; {ROUNDS} unless told")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--only", action="append", choices=NAMES, default=[], help="this measurement; may be repeated")
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep samples and results there")
    parser.add_argument("--profile", action="store_true", help="where the time goes, instead of figures")
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/benchmarks.md")
    return parser


def _rounds(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError("must be a number from 2 to 10000")
    return int(text)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
