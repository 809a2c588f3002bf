"""Runs a second against the number of workers and of queued runs, and whether claiming stays flat.

    uv run experiments/throughput.py                            1, 2, 4, 8 workers; 10, 1,000, 100,000 queued runs
    uv run experiments/throughput.py --json                     the same, every sample and plan as JSON
    uv run experiments/throughput.py --rounds 1 --queued 10 1000 --workers 1 2      a short look

What it does. In a temporary home the product's own Postgres and ledger are started, and workers as `onward worker`
starts them, each with one run at a time. Queues are written by SQL as the product writes them: a row, its first event,
and the hint of the row's own trigger. In each round every length of the queue comes once, in another order, with few
workers first or with many first. Each rate counts the same number of finished runs (four steps, two effects at an API)
while the queue keeps its length.

What you will see. For each length of the queue: runs a second; how soon a slot that has become free has its next run;
how soon a run is taken that comes while others are not due yet; how long each of the sweeper's looks takes, the queue's
fetch (also of a version that nobody has runs of), and a claim; and the ratio of the longest queue to the shortest. With
--json also the plans that Postgres makes of the looks.

"Flat" is: with the longest queue at least 0.75 of the rate with the shortest, as far as the spread of the rounds can
tell, and no look both three times slower and above 5 ms. Rates are bounded by the processors of this machine: what
matters here is the ratio. Beside other work they say little.

    exit 0    flat
    exit 10   not flat
    exit 9    a service could not be started, or runs did not come to their end
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

ROUNDS, RUNS, SEED = 3, 40, 7
WORKERS, QUEUED = (1, 2, 4, 8), (10, 1_000, 100_000)


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "throughput")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.queueing.campaign import Options, run_campaign
    from experiments.queueing.report import print_results
    from runs.errors import Exit

    options = Options(
        rounds=arguments.rounds,
        runs=arguments.runs,
        workers=tuple(sorted(set(arguments.workers))),
        queued=tuple(sorted(set(arguments.queued))),
        seed=arguments.seed,
    )
    results = run_campaign(options, tell)
    told = results.to_json()
    command.give(told, lambda: print_results(results, sys.stdout), as_json=arguments.json, keep=arguments.out)
    return Exit.OK if results.verdict == "flat" else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="throughput.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=_count, default=ROUNDS, metavar="N", help=f"({ROUNDS})")
    parser.add_argument("--runs", type=_count, default=RUNS, metavar="N", help=f"of each measurement ({RUNS})")
    parser.add_argument("--workers", type=_count, nargs="+", default=WORKERS, metavar="W", help="(1 2 4 8)")
    parser.add_argument("--queued", type=_count, nargs="+", default=QUEUED, metavar="Q", help="(10 1000 100000)")
    parser.add_argument("--seed", type=int, default=SEED, metavar="S", help=f"of the order ({SEED})")
    parser.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the JSON there")
    return parser.parse_args()


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError("must be a number from 1 to 10000000")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
