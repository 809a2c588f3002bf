"""Kill the agent for real, resume it by its original thread id, and count what happened in the world.

    uv run verify.py                     on Postgres (it brings its own; nothing of yours is touched)
    uv run verify.py --store sqlite      on SQLite
    uv run verify.py --only "deliver: after effect"
    uv run verify.py --json              results as JSON on stdout
    uv run verify.py --out results/      keep the story of every process, the oracle's log, and results.json

What it does. The real five-node graph analyses a small workbook, with the real driver, the real ledger service and the
real store as processes of their own in a temporary folder. The driver is ended by os._exit(86)

    before an effect                                      nothing was sent yet
    after the effect, before the graph's checkpoint       the window that checkpoints alone cannot close
    after the checkpoint                                  before the next step

at both steps that change the world, write_draft and deliver. A new process resumes the run; another one resumes it once
more when it is finished. An oracle, which is not the ledger, counts the effects.

What you will see. The lines of each process: EXECUTE (a node runs), TOOL committed receipt (an effect was performed),
CRASH, TOOL reuse receipt (the stored receipt came back, nothing was sent). Then a table: nodes executed by each
process, effects (1 1 is right), receipts, epochs, and beside it the control: the same nodes on plain LangGraph without
ledger and fence, killed at the same points. It must show two effects where the window is, or nothing was tested.

    exit 0    pass: every fault fired, nothing contradicts an invariant, and the control shows its duplicates
    exit 10   disproved, or invalid: a fault did not fire, or the control stayed clean
    exit 9    a service could not be started

Is the checker able to find anything? Plant a defect and see:

    uv run verify.py --plant no-replay           the ledger performs again what it has performed
    uv run verify.py --plant fresh-action-id     every driver asks under new action ids
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from experiments.boundaries import POINTS
from experiments.mutants import ALL as DEFECTS

CASES = [str(point) for point in POINTS]


def main() -> int:
    """Run the campaign that the command line asks for; the exit code."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _stop)  # so that SIGTERM cleans up, as Ctrl-C does

    from experiments.campaign import run_campaign
    from experiments.errors import NotRun
    from experiments.report import print_results, to_json
    from runs.errors import Exit
    from runs.local_postgres import LocalPostgresError

    def tell(line: str) -> None:
        print(f"verify: {line}", file=sys.stderr, flush=True)

    try:
        results = run_campaign(arguments.store, tell, only=arguments.only, planted=arguments.plant, keep=arguments.out)
    except (NotRun, LocalPostgresError) as error:
        tell(str(error))
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        tell("stopped; everything that was started is gone")
        return 130
    if arguments.out is not None:
        (arguments.out / "results.json").write_text(json.dumps(to_json(results), indent=2), encoding="utf-8")
    if arguments.json:
        print(json.dumps(to_json(results), indent=2))
    else:
        print_results(results, sys.stdout)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verify.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres", help="where runs live")
    parser.add_argument("--only", metavar="POINT", choices=CASES, help=f"kill there only: {', '.join(CASES)}")
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep stories, the oracle's log and results there")
    parser.add_argument("--plant", choices=DEFECTS, help="plant this defect on purpose")
    return parser


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
