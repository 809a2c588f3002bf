"""Cancels at every boundary of a run: one winner between cancel and success, and the effects that belong to it.

    uv run experiments/cancels.py                        every moment, on Postgres (its own)
    uv run experiments/cancels.py --store sqlite         the same on SQLite
    uv run experiments/cancels.py --way "goes on"        one way to cancel only; may be repeated
    uv run experiments/cancels.py --world compensating   one of the two runs only
    uv run experiments/cancels.py --only commit          places with this in their name
    uv run experiments/cancels.py --every 10             every tenth place
    uv run experiments/cancels.py --json                 everything that was seen, as JSON

What it does. First it records a drive of a small workbook, the ledger that serves it, and the stop of a run: every
exchange with a database, every request, file and child process. Then, for each of these moments, a real process is held
there, the run is cancelled as `onward cancel` does it, and the process goes on or is killed:

    goes on         the driver is held; the row and the ledger's fence; then it goes on
    killed          the same, and the driver dies there
    cut off         the row alone, as if whoever cancels died before the fence; the driver hears of it by itself
    in the ledger   the ledger is held inside a request; the row and the fence; then it goes on
    stopping        the run is being stopped; the driver that stops it dies

That is done with two runs: a plain one, and one whose draft is taken back at an API outside when it is cancelled.
Drivers then bring the run to its end, and another one resumes the ended run. Effects are counted by the oracle, the
API's own log, and SQL of our own.

What you will see. One table: how many ended as cancelled and as succeeded, how often the cancel had to wait for a lock,
how much was taken back, and what is wrong, which must be 0. Two planted defects are the controls: a driver that writes
`cancelled` without closing the fence, and one to which no cancel comes too late. A judgement that lets one of them pass
is "invalid".

    exit 0    pass
    exit 10   disproved: a run ended twice, or with effects that do not belong to its end; or invalid
    exit 9    a service could not be started
    exit 2    the command line is wrong
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

WAYS = ("goes on", "killed", "cut off", "in the ledger", "stopping")
WORLDS = ("plain", "compensating")


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "cancels")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.cancelled import report
    from experiments.cancelled.campaign import Options, run_campaign
    from runs.errors import Exit

    options = Options(
        store=arguments.store,
        ways=tuple(way for way in WAYS if way in (arguments.way or WAYS)),
        worlds=tuple(world for world in WORLDS if world in (arguments.world or WORLDS)),
        every=arguments.every,
        only=arguments.only,
        controls=not arguments.without_controls,
        keep=arguments.out,
    )
    results = run_campaign(options, tell)
    if results.asked == 0:
        tell("there is no such place; --only takes part of the name of a boundary, such as commit or PUT")
        return Exit.USAGE
    command.give(
        report.figures(results),
        lambda: report.print_results(results, sys.stdout),
        as_json=arguments.json,
        keep=arguments.out / "results.json" if arguments.out is not None else None,
    )
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="cancels.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres", help="where runs live")
    parser.add_argument("--way", action="append", choices=WAYS, help="how it is cancelled; may be repeated (all)")
    parser.add_argument("--world", action="append", choices=WORLDS, help="which run; may be repeated (both)")
    parser.add_argument("--only", metavar="PLACE", help="places with this in their name")
    parser.add_argument("--every", type=_count, default=1, metavar="K", help="every Kth of these places (1)")
    parser.add_argument("--without-controls", action="store_true", help="leave the controls away: faster, proves less")
    parser.add_argument("--json", action="store_true", help="everything that was seen, on stdout")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep results and the stories of all processes there")
    return parser.parse_args()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("a number, at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
