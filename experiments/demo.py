"""The first minute: the same SIGKILL between an effect and its checkpoint, on plain LangGraph and on Onward.

    onward demo                     or: python -m experiments.demo
    onward demo --store sqlite      without Postgres
    onward demo --json              the figures only

Real processes in a temporary folder, which is removed in the end; nothing of yours is touched, nothing leaves the
machine. Exit 0 only if both parts showed what they claim: two publications there, one here. Else 10.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from experiments.crash_points import crash_point
from experiments.evidence import Evidence
from experiments.report import nodes
from experiments.story import COMMITTED, CRASH, REUSE, Process

if TYPE_CHECKING:
    from runs.settings import StoreKind

STEP = "deliver"
POINT = crash_point(f"{STEP}: after effect")
KIND = "report.publish"
STORES: dict[StoreKind, str] = {"postgres": "Postgres", "sqlite": "SQLite"}
MARGIN = " " * 14


@dataclass(frozen=True, kw_only=True)
class Showing:
    """Both parts, and what does not agree with what they claim."""

    store: StoreKind
    plain: Evidence
    onward: Evidence
    problems: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Line:
    """One line on the screen, with a style for terminals."""

    text: str
    style: str = ""


def show(store: StoreKind, tell: Callable[[str], None]) -> Showing:
    """Kill and resume both systems once, for real. `tell` gets a line before each part."""
    from experiments import checker
    from experiments.case import run_killed
    from experiments.cluster import cluster
    from experiments.nemesis import Fault
    from experiments.plan import Plan
    from experiments.workload import Onward, Plain

    began = time.monotonic()
    plan = Plan(group="points", name=str(POINT), driver=(Fault(at=POINT, how="kill"),))
    tell(f"starting {STORES[store]}, a ledger and an oracle in a temporary folder")
    with cluster(store) as services, services.lane() as lane:
        tell("killing and resuming plain LangGraph")
        plain = run_killed(Plain(), plan, lane)
        tell("killing and resuming Onward")
        onward = run_killed(Onward(), plan, lane)
    found = checker.check(onward, onward, checker.ONWARD) + checker.check(onward, onward, checker.VALIDITY)
    found += checker.check(plain, plain, checker.CONTROL)
    problems = [*map(str, found)]
    if not plain.duplicates:
        problems.append("plain LangGraph repeats nothing, so nothing was shown")
    seconds = time.monotonic() - began
    return Showing(store=store, plain=plain, onward=onward, problems=tuple(problems), seconds=seconds)


# --- the screen -------------------------------------------------------------------------------------------------------


def screen(showing: Showing) -> Iterator[Line]:
    """The whole story."""
    yield Line("The same SIGKILL twice: the report has just been published, the graph's checkpoint is not written yet.")
    yield Line("")
    yield Line(f'Plain LangGraph ({STORES[showing.store]} checkpoints, durability="sync")', "bold")
    yield from _processes(showing.plain)
    yield _count(showing.plain, "bold red")
    yield Line("")
    yield Line("Onward (the same graph, the same workbook)", "bold")
    yield from _processes(showing.onward)
    yield _count(showing.onward, "bold green")
    yield Line("")
    for problem in showing.problems:
        yield Line(f"Not as claimed: {problem}", "bold red")
    yield Line(
        f"Real processes, {showing.seconds:.0f} seconds, counted by an oracle that is not the ledger. Next:", "dim"
    )
    yield Line("  uv run onward run examples/sales.xlsx --approve    a workbook in, a checked report out", "dim")
    yield Line("  uv run verify.py                                   every boundary, with the control beside it", "dim")


def _processes(case: Evidence) -> Iterator[Line]:
    for number, process in enumerate(case.driving, 1):
        resumed = "    (resumed by the same thread_id)" if number > 1 else ""
        yield Line(f"  process {number}   {nodes(process)}{resumed}")
        yield from _happenings(process)


def _happenings(process: Process) -> Iterator[Line]:
    """What one process says of the publication, and how it was ended."""
    for line in process.lines:
        if line.startswith(COMMITTED + "report-"):
            yield Line(f"{MARGIN}publishes the report    receipt {line.removeprefix(COMMITTED)}", "yellow")
        elif line.startswith(REUSE + "report-"):
            yield Line(f"{MARGIN}published already       receipt {line.removeprefix(REUSE)}", "green")
        elif line.startswith(CRASH):
            yield Line(f"{MARGIN}SIGKILL", "bold red")


def _count(case: Evidence, style: str) -> Line:
    effects = publications(case)
    text = f"  => published {'once' if effects == 1 else f'{effects} times'}"
    if case.system == "plain":
        return Line(f"{text}; no error, no warning", style)
    receipts, epochs = _receipts(case), case.after.epochs
    return Line(f"{text}; {receipts} receipt, {len(epochs)} epochs, the run has {case.after.status}", style)


def publications(case: Evidence) -> int:
    """How often the report was published, by the oracle's word."""
    return case.after.effects_of(STEP)


def _receipts(case: Evidence) -> int:
    return sum(record.kind == KIND and record.status == "SUCCEEDED" for record in case.after.records)


def to_json(showing: Showing) -> dict[str, Any]:
    """The figures."""
    return {
        "ok": not showing.problems,
        "problems": list(showing.problems),
        "store": showing.store,
        "plain": {"effects": publications(showing.plain), **_told(showing.plain)},
        "onward": {
            "effects": publications(showing.onward),
            "receipts": _receipts(showing.onward),
            "epochs": list(showing.onward.after.epochs),
            "status": showing.onward.after.status,
            **_told(showing.onward),
        },
        "seconds": round(showing.seconds, 1),
    }


def _told(case: Evidence) -> dict[str, Any]:
    return {"processes": [{"exit_code": p.exit_code, "lines": list(p.lines)} for p in case.processes]}


def print_screen(showing: Showing) -> None:
    """On a terminal with colours (unless NO_COLOR says not to), else plain text."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for line in screen(showing):
        console.print(Text(line.text, style=line.style))


def main() -> int:
    """Show it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="onward demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres", help="where runs live")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on stdout")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)

    def tell(line: str) -> None:
        print(f"demo: {line}", file=sys.stderr, flush=True)

    from experiments.errors import NotRun
    from runs.errors import Exit
    from runs.local_postgres import LocalPostgresError

    try:
        showing = show(arguments.store, tell)
    except (NotRun, LocalPostgresError) as error:
        tell(str(error))
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        tell("stopped; everything that was started is gone")
        return 130
    if arguments.json:
        print(json.dumps(to_json(showing), indent=2))
    else:
        print_screen(showing)
    return Exit.DISPROVED if showing.problems else Exit.OK


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
