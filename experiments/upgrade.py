"""Release a new workflow version while runs wait for a person, and take the old one out: does every run come through?

    uv run experiments/upgrade.py                  20 waiting runs; some minutes on two cores
    uv run experiments/upgrade.py --runs 5         fewer
    uv run experiments/upgrade.py --json           everything that was seen, as JSON

What it does. A release is a copy of the source in a folder of its own. The old one serves workflow version "1", the new
one "1" and "2" side by side (a node renamed, a field added to the state), a later one only "2". Workers of the old
release bring the runs to the question and are stopped by SIGTERM; workers of the new one start. Each run is then
decided twice at once, some of them differently. At last only the later release is there: waiting runs of "1" have to be
shown as served by nobody and stay as they are, also when they are approved, until `onward migrate` brings them over.

What you will see. How the runs of each kind ended, and what happened in the world, by the word of a witness with a log
of its own. Every run has the same input, so every report must be the same. The control resumes one of the waiting runs
with the new graph as plain LangGraph does: it must pass for finished without having published anything, or break;
otherwise the drill shows nothing ("invalid").

    exit 0    pass
    exit 10   disproved, or invalid
    exit 9    a service could not be started, or the runs did not come to the question
    exit 2    the command line makes no sense
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

RUNS = 20


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "upgrade")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.upgrading.drill import run_drill
    from experiments.upgrading.report import print_results
    from runs.errors import Exit

    results = run_drill(arguments.runs, tell)
    command.give(results.to_json(), lambda: print_results(results, sys.stdout), as_json=arguments.json)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="upgrade.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=_count, default=RUNS, metavar="N", help=f"runs that wait ({RUNS} unless told)")
    parser.add_argument("--json", action="store_true", help="everything that was seen, on stdout")
    return parser.parse_args()


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError("must be a number from 1 to 1000")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
