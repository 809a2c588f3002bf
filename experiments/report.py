"""What a reader sees: the story of each case line by line, one table, the verdict, and the same as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import groupby
from typing import Any, Literal, TextIO

from experiments.boundaries import STEPS
from experiments.checker import Violation, counts, reexecuted
from experiments.evidence import Evidence
from experiments.story import Process

Verdict = Literal["pass", "disproved", "invalid"]
ORDINALS = ("first", "second", "third", "fourth", "fifth")
PACKAGES = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")


def versions() -> dict[str, str]:
    """What was run: Python, and LangGraph's packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One case, judged, with the control under the same fault beside it."""

    case: Evidence
    control: Evidence
    violations: tuple[Violation, ...] = ()
    invalid: tuple[Violation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Results:
    """A whole campaign. `reasons` say why a verdict is not "pass"."""

    store: str
    verdict: Verdict
    reasons: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    seconds: float
    planted: str | None = None
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def reference(self) -> Evidence:
        """The case without a fault."""
        return next(outcome.case for outcome in self.outcomes if outcome.case.fault is None)


# --- the story ------------------------------------------------------------------------------------------------------


def story(case: Evidence) -> Iterator[str]:
    """The lines of a case's processes under a heading each."""
    for number, process in enumerate(case.processes):
        yield f"# {ORDINALS[number]} process{_errand(case, number)}"
        yield from folded(process)


def _errand(case: Evidence, number: int) -> str:
    if number == len(case.processes) - 1:
        return ", resumes the finished run"
    return "" if number == 0 else ", resumes by the same thread_id"


def folded(process: Process) -> Iterator[str]:
    """The lines of one process; the same line several times in a row is one line with a count."""
    shown = [line for line in process.lines if not line.startswith("END ")]
    for line, same in groupby(shown):
        times = len(list(same))
        yield line if times == 1 else f"{line} ({times} times)"
    if not process.executed:
        yield "(executes nothing)"
    if process.end is None and process.crash is None:
        yield f"(ended with {process.exit_code}: {process.last_words or 'without a word'})"


# --- the table ------------------------------------------------------------------------------------------------------


def columns(outcome: Outcome, reference: Evidence) -> dict[str, str]:
    """One row of the table."""
    case, control = outcome.case, outcome.control
    return {
        "killed at": case.name,
        "nodes executed, by process": " | ".join(nodes(process) for process in case.processes),
        "effects": _effects(case),
        "receipts new/reused": f"{_receipts(case)[0]}/{_receipts(case)[1]}",
        "epochs": " ".join(map(str, case.after.epochs)),
        "repeated": str(reexecuted(case, reference)),
        "same report": "yes" if case.after.saved == reference.after.saved else "NO",
        "verdict": "INVALID" if outcome.invalid else "WRONG" if outcome.violations else "ok",
        "control: effects": _effects(control),
    }


def nodes(process: Process) -> str:
    """The nodes that a process executed: `plan analyze×2 write_draft`."""
    if not process.executed:
        return "-"
    named = [(name, len(list(same))) for name, same in groupby(process.executed)]
    return " ".join(name if times == 1 else f"{name}×{times}" for name, times in named)


def _effects(case: Evidence) -> str:
    return " ".join(f"{counts(case)[step]}" for step in STEPS)


def _receipts(case: Evidence) -> tuple[int, int]:
    new = sum(len(process.committed) for process in case.processes)
    return new, sum(len(process.reused) for process in case.processes)


def print_results(results: Results, stream: TextIO) -> None:
    """Stories, table and verdict for a reader."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 180)
    for outcome in results.outcomes:
        console.print(f"\n== {outcome.case.name}")
        for line in story(outcome.case):
            console.print(line, style=_style(line))
    rows = [columns(outcome, results.reference) for outcome in results.outcomes]
    table = Table(title=f"\nOnward on {results.store}, and plain LangGraph beside it", title_justify="left", box=None)
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row.values(), style="red" if row["verdict"] != "ok" else None)
    console.print(table)
    console.print(
        f"\neffects: {' and '.join(STEPS)}; 1 1 is right. The control does the same without ledger and fence."
    )
    for line in _summary(results):
        console.print(line)


def _style(line: str) -> str | None:
    if line.startswith("#"):
        return "dim"
    return "red" if line.startswith("CRASH") else "green" if line.startswith("TOOL reuse") else None


def _summary(results: Results) -> Iterator[str]:
    for reason in results.reasons:
        yield f"- {reason}"
    if results.planted:
        yield f"A defect was planted on purpose: {results.planted}."
    faults = [outcome for outcome in results.outcomes if outcome.case.fault]
    fired = sum(not outcome.invalid for outcome in faults)
    duplicates = sum(outcome.case.duplicates for outcome in results.outcomes)
    control = sum(outcome.control.duplicates for outcome in results.outcomes)
    yield (
        f"{fired} of {len(faults)} faults fired; duplicates: {duplicates} with Onward, {control} in the control; "
        f"{results.seconds:.0f} s."
    )
    yield f"Verdict: {results.verdict}."


# --- JSON -----------------------------------------------------------------------------------------------------------


def to_json(results: Results) -> dict[str, Any]:
    """The whole campaign as JSON values."""
    faults = [outcome for outcome in results.outcomes if outcome.case.fault]
    return {
        "verdict": results.verdict,
        "reasons": list(results.reasons),
        "store": results.store,
        "planted": results.planted,
        "faults": len(faults),
        "fired": sum(not outcome.invalid for outcome in faults),
        "duplicates": sum(outcome.case.duplicates for outcome in results.outcomes),
        "control_duplicates": sum(outcome.control.duplicates for outcome in results.outcomes),
        "digest": results.reference.after.saved,
        "cases": [_case(outcome, results.reference) for outcome in results.outcomes],
        "versions": results.versions,
        "seconds": round(results.seconds, 1),
    }


def _case(outcome: Outcome, reference: Evidence) -> dict[str, Any]:
    case, (new, reused) = outcome.case, _receipts(outcome.case)
    return {
        "case": case.name,
        "processes": [_process(process) for process in case.processes],
        "effects": dict(counts(case)),
        "receipts": {"new": new, "reused": reused},
        "epochs": list(case.after.epochs),
        "status": case.after.status,
        "digest": case.after.saved,
        "same_report": case.after.saved == reference.after.saved,
        "checkpoints": len(case.after.checkpoints),
        "reexecuted": reexecuted(case, reference),
        "violations": [str(violation) for violation in outcome.violations],
        "invalid": [str(violation) for violation in outcome.invalid],
        "control": {
            "effects": dict(counts(outcome.control)),
            "status": outcome.control.after.status,
            "processes": [_process(process) for process in outcome.control.processes],
        },
        "seconds": round(case.seconds, 2),
    }


def _process(process: Process) -> dict[str, Any]:
    return {"exit_code": process.exit_code, "executed": list(process.executed), "lines": list(process.lines)}
