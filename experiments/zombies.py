"""Zombies: drivers that fall silent past their lease, are replaced, and wake up again, at every moment of a drive.

    uv run experiments/zombies.py                        every moment, on Postgres (its own)
    uv run experiments/zombies.py --store sqlite         the same on SQLite
    uv run experiments/zombies.py --only open            inside open pipelines and transactions only
    uv run experiments/zombies.py --only write_draft     places with this in their name
    uv run experiments/zombies.py --every 5              every fifth place
    uv run experiments/zombies.py --json                 everything that was seen, as JSON

What it does. First it records a drive: every exchange with the database, every request, file and child process. Then,
for each of these moments, a real driver process stops itself there (SIGSTOP), with whatever it holds in the database.
When its lease is over another driver takes the run. The first one is woken (SIGCONT): once when the run is over, and
once while the other is at work. Before and after, every row of every table is read; a witness in the database writes
down which session made each change. A step that takes longer than the lease is tried too, with heartbeats and without.

What you will see. One table: where drivers were stopped, whether they held something open, whether they were taken
over and ended by themselves, forks of the chain of checkpoints and late writes: both must be 0. The controls are plain
LangGraph, and Onward with its fence taken out: they must do damage, or nothing was tested and the verdict is "invalid".

    exit 0    pass
    exit 10   disproved: a zombie did something it must not; or invalid: nothing was tested
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


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "zombies")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.zombified import report
    from experiments.zombified.campaign import Options, run_campaign
    from experiments.zombified.case import WAKES
    from runs.errors import Exit

    wakes = {"end": WAKES[:1], "work": WAKES[1:], "both": WAKES}[arguments.wake]
    options = Options(
        store=arguments.store,
        only=arguments.only,
        every=arguments.every,
        wakes=wakes,
        controls=not arguments.without_controls,
        long_steps=arguments.only is None,
        lease_seconds=arguments.lease,
        keep=arguments.out,
    )
    results = run_campaign(options, tell)
    if results.asked == 0:
        tell("there is no such place; --only takes a kind (open, write node, super-step, elsewhere) or part of a name")
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
        prog="zombies.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres", help="where runs live")
    parser.add_argument("--only", metavar="PLACE", help="a kind of places, or places with this in their name")
    parser.add_argument("--every", type=_count, default=1, metavar="K", help="every Kth of these places (1)")
    parser.add_argument("--wake", choices=["end", "work", "both"], default="both", help="when zombies wake (both)")
    parser.add_argument("--without-controls", action="store_true", help="leave the controls away: faster, proves less")
    parser.add_argument("--lease", type=_lease, default=1.0, metavar="SECONDS", help="of the drivers (1); busy: more")
    parser.add_argument("--json", action="store_true", help="everything that was seen, on stdout")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep results and the stories of all processes there")
    return parser.parse_args()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("a number, at least 1")
    return int(text)


def _lease(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 60:
        raise argparse.ArgumentTypeError("seconds, from 0.5 to 60")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
