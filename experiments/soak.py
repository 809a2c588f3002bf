"""A thousand small runs over eight workers while drivers, workers, the ledger and Postgres are killed at random.

    uv run experiments/soak.py                                  ten minutes, 1,000 runs, eight workers
    uv run experiments/soak.py --minutes 10 --json              the same, everything that was seen as JSON
    uv run experiments/soak.py --minutes 60                     an hour, 6,000 runs
    uv run experiments/soak.py --minutes 1 --runs 60 --workers 3 --seed 5

What it does. In a temporary home the product's own Postgres and ledger are started, as for a user who has none, and
workers as `onward worker` starts them. Runs are queued at an even pace: four steps of a tenth of a second, two effects
at an API in a process of its own, which takes a tenth of a second for each, keeps a fsynced log and is never killed. At
moments drawn by the seed SIGKILL strikes a driver, a whole worker, the ledger, or Postgres (its whole server, or its
first process). Killed workers are started again, as a supervisor would; the servers are started again by whoever needs
them, as the product does. Then nothing is killed any more, and everything has to end. An effect of which nobody can say
whether it happened waits for a person; in the end the experiment reads the API's log and says it.

What you will see. A line every few seconds; then how many runs ended and how, effects counted in the API's log, what
was wrong with what stands (effects, records, receipts, checkpoints, epochs, results, and whether a finished run can be
driven again), the bound that this leaves, memory and open files of the worker that is spared and of the ledger, and the
size of tables.

Ctrl-C once: nothing is killed any more, and what has begun is brought to its end and judged. Twice: it stops at once.

    exit 0    every run ended, nothing twice, nothing lost
    exit 10   disproved, or invalid (something that was to be killed never was)
    exit 9    a service could not be started
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

MINUTES, WORKERS, SEED = 10.0, 8, 7
RUNS_A_MINUTE = 100


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "soak")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.soaking.campaign import Options, run_campaign
    from experiments.soaking.report import print_results
    from runs.errors import Exit

    options = Options(minutes=arguments.minutes, runs=arguments.runs, workers=arguments.workers, seed=arguments.seed)
    results = run_campaign(options, tell)
    told = results.to_json()
    command.give(told, lambda: print_results(results, sys.stdout), as_json=arguments.json, keep=arguments.out)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="soak.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=_minutes, default=MINUTES, metavar="M", help=f"of kills ({MINUTES:g})")
    parser.add_argument("--runs", type=_count, metavar="N", help=f"in all ({RUNS_A_MINUTE} for each minute)")
    parser.add_argument("--workers", type=_count, default=WORKERS, metavar="W", help=f"({WORKERS})")
    parser.add_argument("--seed", type=int, default=SEED, metavar="S", help=f"what the kills are drawn by ({SEED})")
    parser.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the JSON there")
    arguments = parser.parse_args()
    if arguments.runs is None:
        arguments.runs = max(1, round(arguments.minutes * RUNS_A_MINUTE))
    return arguments


def _minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 10_000:
        raise argparse.ArgumentTypeError("must be a number of minutes, such as 10 or 0.5")
    return found


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError("must be a number from 1 to 1000000")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
