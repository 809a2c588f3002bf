"""Recordings: one run without a fault, in which the process in question writes down every boundary that it passes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.boundaries import BY_CHANCE, BY_THE_CLOCK, Boundary, Moment, moments, read_recording
from experiments.case import Case
from experiments.errors import NotRun
from experiments.lane import STOP_SECONDS, Lane
from experiments.plan import NO_FAULT, Order, Plan
from experiments.workload import Workload

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The boundaries of one process, and the moments that they make."""

    boundaries: tuple[Boundary, ...]
    moments: tuple[Moment, ...]

    @classmethod
    def of(cls, recorded: Sequence[Boundary], *, once: Sequence[str] = BY_THE_CLOCK) -> Recording:
        """Without what only time decides: how often a thread of the roles `once` does the same. The first is kept."""
        kept = (b for b in recorded if b.side != "at" and b.role not in BY_CHANCE)
        counted = tuple(b for b in kept if b.role not in once or b.occurrence == 1)
        return cls(boundaries=counted, moments=moments(counted))

    @property
    def shape(self) -> tuple[str, ...]:
        """What was passed, in words: recoveries of one shape do the same from the same state on."""
        return tuple(str(boundary) for boundary in self.boundaries)

    def role(self, name: str) -> tuple[Moment, ...]:
        """The moments of one role."""
        return tuple(moment for moment in self.moments if moment.boundary.role == name)


def record_driver(workload: Workload, lane: Lane, order: Order = "natural") -> Recording:
    """What a process that drives a fresh run to its end passes."""
    file = lane.folder / f"recording-{next(_numbers)}"
    case = Case(workload, Plan(group="none", name="recording", order=order), lane)
    _expect_end(case.run(case.role(recording=file)).end, "driver")
    return Recording.of(read_recording(file))


def record_recovery(workload: Workload, lane: Lane, first: Plan) -> Recording:
    """What the process passes that resumes a run after these faults."""
    file = lane.folder / f"recording-{next(_numbers)}"
    case = Case(workload, first, lane)
    for fault in first.driver:
        case.run(case.role(fault=fault))
    case.run(case.role(recording=file))
    return Recording.of(read_recording(file))


def record_ledger(workload: Workload, lane: Lane) -> Recording:
    """What a process of the ledger passes, from its start over a whole run to a clean stop."""
    file = lane.folder / f"recording-{next(_numbers)}"
    case = Case(workload, NO_FAULT, lane)
    serving = lane.ledger.restart(recording=file)
    _expect_end(case.run(case.role()).end, "driver")
    serving.terminate()
    if not serving.ends_within(STOP_SECONDS):
        raise NotRun("The ledger of the experiment does not stop when it is asked to.")
    lane.ledger.wait_until_back()
    # How many connections its pool opens depends on which requests meet.
    return Recording.of(read_recording(file), once=(*BY_THE_CLOCK, "pool"))


def _expect_end(end: str | None, name: str) -> None:
    if end not in ("exit 0", "published"):
        raise NotRun(f"Without any fault the {name} ends with {end!r}; see its story with --out DIR.")
