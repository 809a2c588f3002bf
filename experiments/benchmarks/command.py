"""What the commands of all benchmarks have in common: options, services that do not start, and where results go.

Imported before the command line is read, so what measures is imported only when it is needed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.benchmarks.document import Section
    from experiments.benchmarks.rounds import Teller
    from experiments.benchmarks.suite import Measurement

ROUNDS, QUICK_ROUNDS = 30, 4


def add_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """The options of every benchmark; `names` are what `--only` takes."""
    parser.add_argument("--rounds", type=_rounds, metavar="N", help=f"rounds that count; {ROUNDS} unless told")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--only", action="append", choices=names, default=[], help="this measurement; may be repeated")
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep samples and results there")
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/benchmarks.md")


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with the number of rounds that it means."""
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    if arguments.write_docs and arguments.only:
        parser.error("--write-docs writes the whole table; leave --only away")
    return arguments


def guarded(work: Callable[[Teller], int], name: str = "bench") -> int:
    """Do the work; the exit code, also when a service does not start or somebody stops it. `name` begins each line."""
    signal.signal(signal.SIGTERM, _stop)  # so that SIGTERM cleans up, as Ctrl-C does

    from experiments.benchmarks.rounds import Teller
    from experiments.benchmarks.services import leave_environment
    from experiments.errors import NotRun
    from onward_ledger.database import DatabaseError
    from onward_ledger.errors import LedgerError
    from runs.errors import Exit, RunError
    from runs.local_postgres import LocalPostgresError

    leave_environment()
    teller = Teller(sys.stderr, name)
    try:
        return work(teller)
    except (NotRun, RunError, LedgerError, DatabaseError, LocalPostgresError) as error:
        teller.say(str(error))
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        teller.say("stopped; everything that was started is gone")
        return 130


def measure(
    arguments: argparse.Namespace,
    measurements: Sequence[Measurement],
    section: Section,
    teller: Teller,
    compared: Sequence[str] = (),
) -> int:
    """Measure, and put the results where the command line wants them."""
    from experiments.benchmarks.document import write_document
    from experiments.benchmarks.report import keep, print_results, to_json
    from experiments.benchmarks.suite import measure_all

    results = measure_all(arguments.only, arguments.rounds, teller, measurements, compared)
    if arguments.out is not None:
        keep(results, arguments.out)
    if arguments.write_docs:
        write_document(results, section=section)
    if arguments.json:
        print(json.dumps(to_json(results), indent=2))
    else:
        print_results(results, sys.stdout)
    return 0


def give(told: object, print_results: Callable[[], None], *, as_json: bool, keep: Path | None = None) -> None:
    """Results where the command line wants them: in a file too, and on stdout as JSON or for people."""
    text = json.dumps(told, indent=2)
    if keep is not None:
        keep.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
    else:
        print_results()


def _rounds(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError("must be a number from 2 to 10000")
    return int(text)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
