"""What a campaign found, as values, and as the JSON that other programs read."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from statistics import median
from typing import Any, Literal

from experiments.checker import Violation, counts, reexecuted
from experiments.evidence import Evidence
from experiments.mutants import Mutant
from experiments.plan import GROUPS
from experiments.randomly import at_most
from experiments.story import Process

Verdict = Literal["pass", "disproved", "invalid"]
Word = Literal["ok", "wrong", "unknown", "invalid"]
PACKAGES = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")

# What a campaign must have reached at least once, or it has tested nothing there.
SOMETIMES = ("an outcome was UNKNOWN", "other parameters were refused", "a stale epoch was refused")


def versions() -> dict[str, str]:
    """What was run: Python, and LangGraph's packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One case, judged. `reference` is the case without a fault that it was compared with."""

    case: Evidence
    reference: Evidence
    violations: tuple[Violation, ...] = ()
    invalid: tuple[Violation, ...] = ()
    tries: int = 1

    @property
    def word(self) -> Word:
        """ok, wrong, unknown (an outcome openly waits for a person), or invalid (the fault did not fire)."""
        if self.invalid:
            return "invalid"
        if self.violations:
            return "wrong"
        return "unknown" if self.case.after.unknown else "ok"

    @property
    def reexecuted(self) -> int:
        """Nodes that ran again."""
        return max(0, reexecuted(self.case, self.reference))


@dataclass(frozen=True, kw_only=True)
class Hunted:
    """One mutant, and the case that caught it. `tried`: how many cases had to be run for that."""

    mutant: Mutant
    caught: Outcome | None
    tried: int


@dataclass(frozen=True, kw_only=True)
class Results:
    """A whole campaign. `reasons` say why a verdict is not "pass". `boundaries`: how many were recorded, by group.

    `not_run`: what cannot be tried here, and why; it is no part of what passed.
    """

    store: str
    verdict: Verdict
    reasons: tuple[str, ...]
    reference: Evidence
    outcomes: tuple[Outcome, ...]
    control: tuple[Outcome, ...]
    hunted: tuple[Hunted, ...]
    boundaries: dict[str, int]
    seconds: float
    planted: str | None = None
    not_run: tuple[str, ...] = ()
    seed: int | None = None
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def words(self) -> Counter[str]:
        """How many cases came out how."""
        return Counter(outcome.word for outcome in self.outcomes)

    @property
    def reached(self) -> dict[str, int]:
        """How often each thing happened that must happen sometimes."""
        return reached(self.outcomes)

    def groups(self) -> Iterator[tuple[str, tuple[Outcome, ...]]]:
        """The outcomes by group, in the order of the report."""
        for name in GROUPS:
            if found := tuple(outcome for outcome in self.outcomes if outcome.case.plan.group == name):
                yield name, found


def reached(outcomes: tuple[Outcome, ...]) -> dict[str, int]:
    """See Results.reached."""
    unknown = sum(any(record.was_unknown for record in outcome.case.after.records) for outcome in outcomes)
    codes = [o.case.refusals for o in outcomes]
    return dict(
        zip(
            SOMETIMES,
            (unknown, sum("params-conflict" in c for c in codes), sum("stale-epoch" in c for c in codes)),
            strict=True,
        )
    )


# --- JSON -----------------------------------------------------------------------------------------------------------


def to_json(results: Results) -> dict[str, Any]:
    """The whole campaign as JSON values."""
    recoveries = [ms for outcome in results.outcomes if (ms := outcome.case.recovery_ms) is not None]
    killed = [outcome for outcome in results.outcomes if outcome.case.plan.faults and not outcome.invalid]
    return {
        "verdict": results.verdict,
        "reasons": list(results.reasons),
        "store": results.store,
        "planted": results.planted,
        "seed": results.seed,
        "not_run": list(results.not_run),
        "boundaries": sum(results.boundaries.values()),
        "boundaries_by_group": results.boundaries,
        "cases": len(results.outcomes),
        "killed": len(killed),
        "not_fired": results.words["invalid"],
        "duplicates": sum(outcome.case.duplicates for outcome in results.outcomes),
        "lost": sum(outcome.case.lost for outcome in results.outcomes),
        "wrong": results.words["wrong"],
        "unknown": results.words["unknown"],
        "wrong_at_most": _bound(results),
        "reached": results.reached,
        "reexecuted_steps": sum(outcome.reexecuted for outcome in results.outcomes),
        "median_recovery_ms": round(median(recoveries), 1) if recoveries else None,
        "control_cases": len(results.control),
        "control_wrong": sum(outcome.case.duplicates > 0 for outcome in results.control),
        "control_duplicates": sum(outcome.case.duplicates for outcome in results.control),
        "mutants": len(results.hunted),
        "mutants_caught": sum(hunted.caught is not None for hunted in results.hunted),
        "hunts": [_hunt(hunted) for hunted in results.hunted],
        "digest": results.reference.after.saved,
        "outcomes": [_outcome(outcome) for outcome in results.outcomes],
        "control": [_outcome(outcome) for outcome in results.control],
        "versions": results.versions,
        "seconds": round(results.seconds, 1),
    }


def _bound(results: Results) -> float | None:
    """For random cases: the rate of wrong ones is at most this, at 95 %. An exhaustive campaign has no interval."""
    if results.seed is None:
        return None
    counted = len(results.outcomes) - results.words["invalid"]
    return round(at_most(results.words["wrong"], counted), 6)


def _hunt(hunted: Hunted) -> dict[str, Any]:
    mutant, caught = hunted.mutant, hunted.caught
    return {
        "mutant": mutant.name,
        "what": mutant.what,
        "tried": hunted.tried,
        "caught_by": None if caught is None else _outcome(caught),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "group": case.plan.group,
        "case": case.name,
        "outcome": outcome.word,
        "violations": [str(violation) for violation in outcome.violations],
        "invalid": [str(violation) for violation in outcome.invalid],
        "tries": outcome.tries,
        "effects": dict(counts(case)),
        "duplicates": case.duplicates,
        "lost": case.lost,
        "receipts": _receipts(case),
        "epochs": list(case.after.epochs),
        "status": case.after.status,
        "digest": case.after.saved,
        "same_report": case.after.saved == outcome.reference.after.saved,
        "checkpoints": len(case.after.checkpoints),
        "reexecuted": outcome.reexecuted,
        "recovery_ms": round(case.recovery_ms, 1) if case.recovery_ms is not None else None,
        "processes": [_process(process) for process in case.processes],
        "services": [_process(process) for process in case.services],
        "clients": [_process(process) for process in case.clients],
        "seconds": round(case.seconds, 2),
    }


def _receipts(case: Evidence) -> dict[str, int]:
    new = sum(len(process.committed) for process in case.processes)
    return {"new": new, "reused": sum(len(process.reused) for process in case.processes)}


def _process(process: Process) -> dict[str, Any]:
    return {
        "exit_code": process.exit_code,
        "executed": list(process.executed),
        "lines": list(process.lines),
        "last_words": process.last_words,
    }
