"""What was measured: figures for each system, aims, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from experiments.benchmarks.machine import Machine
from experiments.benchmarks.spread import quantile
from experiments.randomly import at_most
from experiments.recovering.case import Case
from experiments.recovering.plan import TARGETS

Verdict = Literal["pass", "disproved", "invalid", "no control"]

CLAIM_AIM_SECONDS = 0.25
RECORDED_AIM_SECONDS = 0.5
AIM_SHARE = 0.95


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds after a kill, of so many kills."""

    samples: int
    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, seconds: Iterable[float | None]) -> Times | None:
        """Of those that are known; None where none is."""
        known = [value for value in seconds if value is not None]
        if not known:
            return None
        return cls(samples=len(known), p50=quantile(known, 0.5), p95=quantile(known, AIM_SHARE), max=max(known))

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        rounded = {name: round(getattr(self, name), 4) for name in ("p50", "p95", "max")}
        return {"samples": self.samples, **rounded}


# What is measured from the kill on, by name. `claim` is detection, `work` what comes between it and `recorded`.
MEASURED: dict[str, Callable[[Case], float | None]] = {
    "claim": lambda case: case.claim_seconds,
    "work": lambda case: case.work_seconds,
    "recorded": lambda case: case.recorded_seconds,
    "begins": lambda case: case.begins_seconds,
    "done": lambda case: case.done_seconds,
    "ended": lambda case: case.ended_seconds,
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """One system: its cases. `not_run`: why there are none."""

    name: str
    settings: str
    versions: dict[str, str]
    ours: bool
    patience_seconds: float
    cases: tuple[Case, ...] = ()
    not_run: str | None = None

    @cached_property
    def struck(self) -> tuple[Case, ...]:
        """The cases whose kill hit a run that was not at its end; only they have times."""
        return tuple(case for case in self.cases if case.struck)

    def times(self, name: str, cases: Sequence[Case] | None = None) -> Times | None:
        """One of MEASURED over the struck cases, or over some of them."""
        return Times.of(MEASURED[name](case) for case in (self.struck if cases is None else cases))

    @property
    def step_times(self) -> Times | None:
        """How long steps took that a whole machine does in a tenth of a second: how much of it these runs had."""
        return Times.of(seconds for case in self.cases for seconds in case.step_seconds)

    @property
    def by_target(self) -> dict[str, tuple[Case, ...]]:
        """The struck cases by what was killed."""
        return {target: tuple(case for case in self.struck if case.kill.target == target) for target in TARGETS}

    @property
    def counts(self) -> dict[str, int]:
        """Columns that are never merged."""
        return {
            "kills": len(self.struck),
            "not_struck": len(self.cases) - len(self.struck),
            "completed": sum(case.ended is not None and not case.wrong_end for case in self.struck),
            "duplicates": sum(case.duplicates for case in self.cases),
            "lost": sum(case.lost for case in self.cases),
            "unknown": sum(case.unknown for case in self.cases),
            "stuck": sum(case.stuck for case in self.cases),
            "wrong_ends": sum(case.wrong_end for case in self.cases),
            "executed_again": sum(case.executed_again for case in self.cases),
        }

    @property
    def broken(self) -> tuple[str, ...]:
        """What is not as it has to be, by kill; asked of ours."""
        return tuple(f"kill {case.kill.number}: {wrong}" for case in self.cases if (wrong := _wrong(case)) is not None)

    def to_json(self) -> dict[str, Any]:
        """JSON values, raw lines at the end."""
        return {
            "system": self.name,
            "settings": self.settings,
            "versions": self.versions,
            "patience_seconds": self.patience_seconds,
            "not_run": self.not_run,
            **self.counts,
            "step_seconds": self.step_times.to_json() if self.step_times else None,
            "seconds": self._figures(self.struck),
            "seconds_by_target": {target: self._figures(cases) for target, cases in self.by_target.items()},
            "broken": list(self.broken) if self.ours else [],
            "cases": [case.to_json() for case in self.cases],
        }

    def _figures(self, cases: Sequence[Case]) -> dict[str, Any]:
        found = {name: self.times(name, cases) for name in MEASURED}
        return {name: times.to_json() if times else None for name, times in found.items()}


def _wrong(case: Case) -> str | None:
    if case.stuck:
        return "the run is stuck"
    if case.duplicates:
        return f"{case.effects} effects of one action"
    if case.lost:
        return "the effect is neither there nor on record as unknown"
    if case.wrong_end:
        return f"the run ended as {case.ended}"
    return None


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What was aimed at for one of our columns, and what came of it."""

    system: str
    says: str
    aim_seconds: float
    value_seconds: float

    @property
    def met(self) -> bool:
        """Whether it is below."""
        return self.value_seconds < self.aim_seconds

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "system": self.system,
            "says": self.says,
            "aim_seconds": self.aim_seconds,
            "value_seconds": round(self.value_seconds, 4),
            "met": self.met,
        }


@dataclass(frozen=True, kw_only=True)
class Results:
    """Every system that was run, and where. `kills` are those of ours, `peer_kills` those of each peer."""

    columns: tuple[Column, ...]
    seed: int
    kills: int
    peer_kills: int
    machine: Machine
    server: dict[str, str]
    versions: dict[str, str]
    seconds: float

    @property
    def ours(self) -> tuple[Column, ...]:
        """The product's columns."""
        return tuple(column for column in self.columns if column.ours)

    @property
    def control(self) -> tuple[Column, ...]:
        """The peers that were run: in them the same kills must have made a duplicate somewhere."""
        return tuple(column for column in self.columns if not column.ours and column.cases)

    @property
    def control_duplicates(self) -> int:
        """Duplicates of all peers."""
        return sum(column.counts["duplicates"] for column in self.control)

    @property
    def verdict(self) -> Verdict:
        """invalid: the kills made no duplicate where there must be some, or did not hit. No aim is in it."""
        if any(column.broken for column in self.ours):
            return "disproved"
        if any(not column.struck for column in self.columns if column.not_run is None):
            return "invalid"
        if not self.control:
            return "no control"
        return "pass" if self.control_duplicates else "invalid"

    @property
    def aims(self) -> tuple[Aim, ...]:
        """The two aims for each column of ours that has times."""
        return tuple(aim for column in self.ours for aim in _aims(column))

    @property
    def wrong_at_most(self) -> float | None:
        """The largest rate of wrong runs of ours that is likely (95 %); None without a run."""
        cases = [case for column in self.ours for case in column.struck]
        return at_most(sum(_wrong(case) is not None for case in cases), len(cases)) if cases else None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "verdict": self.verdict,
            "aims": [aim.to_json() for aim in self.aims],
            "aims_met": all(aim.met for aim in self.aims) if self.aims else None,
            "wrong_at_most": self.wrong_at_most,
            "control_duplicates": self.control_duplicates,
            "seed": self.seed,
            "kills": self.kills,
            "peer_kills": self.peer_kills,
            "machine": self.machine.to_json() | self.server,
            "warning": self.machine.warning,
            "versions": self.versions,
            "elapsed_seconds": round(self.seconds, 1),
            "systems": [column.to_json() for column in self.columns],
        }


def _aims(column: Column) -> Iterable[Aim]:
    wanted = (
        ("claim", "kill to claim, p95", CLAIM_AIM_SECONDS),
        ("recorded", "kill to the first checkpoint or receipt, p95", RECORDED_AIM_SECONDS),
    )
    for name, says, aim in wanted:
        times = column.times(name)
        if times is not None:
            yield Aim(system=column.name, says=says, aim_seconds=aim, value_seconds=times.p95)
