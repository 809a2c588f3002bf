"""Kill the agent for real at every moment, resume it by its original thread id, and count what happened in the world.

    uv run verify.py                       every boundary of a run, on Postgres (its own; nothing of yours is touched)
    uv run verify.py --store sqlite        the same on SQLite
    uv run verify.py --pairs               a second kill at every boundary of the recovery
    uv run verify.py --random 300 --seed 1 faults drawn by a seed: kills at any time, silence, repeated requests
    uv run verify.py --graph FILE:NAME …   your own LangGraph graph; see docs/your-graph.md
    uv run verify.py --out results/        keep results.json, a page with a picture of every case, and all stories

What it does. The real five-node graph analyses a small workbook, with the real driver, the real ledger service and the
real store as processes of their own in a temporary folder. First it records where a run touches the world: exchanges
with the database, requests and their answers, files put in place, children started. Then it kills a fresh run at each
of these moments, in the driver and in the ledger, resumes it in another process, and resumes the finished run once
more. It also stops processes that wake up after they were replaced. An oracle, which is not the ledger, counts the
effects.

What you will see. One table: what was done, in how many cases, and what was wrong. The control beside it is the same
graph on plain LangGraph: it must repeat effects somewhere. The mutants are our protocol with one rule taken out: each
must be caught. Otherwise nothing was tested, and the verdict is "invalid".

    exit 0    pass
    exit 10   disproved: a case contradicts an invariant, and its story is shown; or invalid: nothing was tested
    exit 9    a service could not be started
    exit 2    the command line is wrong

Is the checker able to find anything? Plant a defect and see: uv run verify.py --plant no-replay
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from experiments.anygraph import command
from experiments.mutants import MUTANTS


def main() -> int:
    """Run the campaign that the command line asks for; the exit code."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _stop)  # so that SIGTERM cleans up, as Ctrl-C does

    from experiments.errors import NotRun
    from runs.errors import Exit
    from runs.local_postgres import LocalPostgresError

    try:
        return _run(arguments)
    except (NotRun, LocalPostgresError) as error:
        tell(str(error))
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        tell("stopped; everything that was started is gone")
        return 130


def _run(arguments: argparse.Namespace) -> int:
    if arguments.graph is not None:
        return command.run(arguments, tell)
    from experiments.campaign import Options, run_campaign
    from experiments.page import render
    from experiments.report import print_results
    from experiments.results import to_json
    from runs.errors import Exit

    options = Options(
        store=arguments.store,
        only=arguments.only,
        planted=arguments.plant,
        keep=arguments.out,
        pairs=arguments.pairs,
        random=arguments.random,
        seed=arguments.seed,
        minutes=arguments.minutes,
    )
    results = run_campaign(options, tell)
    figures = to_json(results)
    if arguments.out is not None:
        (arguments.out / "results.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")
        (arguments.out / "index.html").write_text(render(figures), encoding="utf-8")
        tell(f"the page is {arguments.out / 'index.html'}")
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        print_results(results, sys.stdout)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def tell(line: str) -> None:
    """A line of progress."""
    print(f"verify: {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verify.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres", help="where runs live")
    parser.add_argument("--only", metavar="TEXT", help="one group of cases (driver, ledger, …), or cases by their name")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--pairs", action="store_true", help="kill the recovery as well, at every boundary")
    other.add_argument("--random", type=_count, metavar="N", help="N cases with faults at any time")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what the random cases are drawn by (1)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no new case after M minutes")
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep results, page, stories and the oracle's log there"
    )
    plant = parser.add_argument("--plant", choices=list(MUTANTS), metavar="DEFECT", help="plant a defect on purpose: ")
    plant.help = "plant a defect on purpose: " + "; ".join(f"{m.name} ({m.what})" for m in MUTANTS.values())
    command.add_arguments(parser)
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError("a number of cases, at least 1")
    return int(text)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
