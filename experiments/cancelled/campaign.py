"""The whole experiment: record a drive, a ledger and a stop; cancel at every moment of them; the controls; a verdict.

pass        every process came to its boundary, nothing contradicts, both ends were reached, each defect was noticed
disproved   something contradicts
invalid     nothing was tested: a boundary was not come to, an end was never reached, a planted defect passed
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from experiments.boundaries import Boundary
from experiments.cancelled import judging
from experiments.cancelled.case import WAYS, Place, Seen, Way, cancel_at, in_requests, record_stopping
from experiments.cancelled.controls import NoFence, NotTooLate
from experiments.cancelled.worlds import WORLDS, World, write_config
from experiments.cluster import cluster
from experiments.fake_api import FakeApi
from experiments.recordings import record_driver, record_ledger
from experiments.workers import Job, LaneOptions, Lanes, Workers
from experiments.workload import Onward
from onward_ledger.action import Status
from runs.settings import StoreKind

Verdict = Literal["pass", "disproved", "invalid"]
Told = Callable[[str], None]

MOST_TRIES = 3
MOST_CONTROLS = 12
TELL_EVERY_SECONDS = 5.0


def _saved(seen: Seen) -> bool:
    return seen.evidence.ended.saved is not None


def _cancelled_before_the_draft(seen: Seen) -> bool:
    return seen.status == "cancelled" and not _saved(seen)


def _cancelled_behind_the_draft(seen: Seen) -> bool:
    return seen.status == "cancelled" and _saved(seen)


def _too_late(seen: Seen) -> bool:
    return seen.status == "succeeded"


def _withdrawn(seen: Seen) -> bool:
    return any(action.status is Status.WITHDRAWN for action in seen.actions)


def _taken_back(seen: Seen) -> bool:
    return bool(seen.undone)


def _raced(seen: Seen) -> bool:
    return seen.raced


# What a whole run has to have reached somewhere, or it has tested less than it says.
REACHED: dict[str, Callable[[Seen], bool]] = {
    "cancelled before the draft": _cancelled_before_the_draft,
    "cancelled behind the draft": _cancelled_behind_the_draft,
    "too late": _too_late,
    "a proposal withdrawn": _withdrawn,
    "a draft taken back": _taken_back,
    "a race for a lock": _raced,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run. `every`: each Kth place. `only`: places with this in their name."""

    store: StoreKind = "postgres"
    ways: tuple[Way, ...] = WAYS
    worlds: tuple[World, ...] = WORLDS
    every: int = 1
    only: str | None = None
    controls: bool = True
    keep: Path | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.ways == WAYS and self.worlds == WORLDS and self.every == 1 and self.only is None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One case, and what is wrong with it."""

    world: World
    seen: Seen
    violations: tuple[str, ...]
    invalid: str | None


@dataclass(frozen=True, kw_only=True)
class Control:
    """A planted defect: what noticed it, and after how many cases; None: nothing did."""

    name: str
    cases: int
    noticed: str | None


@dataclass(frozen=True, kw_only=True)
class Results:
    """A whole run. `recorded`: moments by what was recorded."""

    options: Options
    recorded: dict[str, int]
    asked: int
    judged: tuple[Judged, ...]
    controls: tuple[Control, ...]
    seconds: float

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Everything that is wrong, in words."""
        return tuple(f"{j.world}, {j.seen.place}: {v}" for j in self.judged for v in j.violations)

    @property
    def reached(self) -> dict[str, int]:
        """How many cases each situation was reached in."""
        return {name: sum(test(j.seen) for j in self.judged) for name, test in REACHED.items()}

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it may have tested nothing."""
        found = [f"{j.world}, {j.seen.place}: {j.invalid}" for j in self.judged if j.invalid]
        found += [f"control {c.name}: nothing noticed it" for c in self.controls if c.noticed is None]
        if self.options.whole:
            found += [f"never reached: {name}" for name, count in self.reached.items() if not count]
        return tuple(found)

    @property
    def verdict(self) -> Verdict:
        """One contradiction disproves, also where something else proves nothing."""
        if self.contradictions:
            return "disproved"
        return "invalid" if self.doubts or not self.judged else "pass"


def run_campaign(options: Options, tell: Told) -> Results:
    """Everything that is asked for, in a temporary home with servers of its own."""
    began = time.monotonic()
    tell(f"starting {options.store}, the ledger, an API and the oracle in a temporary home")
    with cluster(options.store, keep=options.keep) as services:
        folder = services.folder / "api"
        folder.mkdir()
        with FakeApi(folder) as api, Workers(services) as workers:
            campaign = _Campaign(options, tell, api, write_config(folder, api.url))
            workers.work_off([campaign.record])
            campaign.announce()
            # The ledger's cases wait most: for it to be started again.
            workers.work_off(campaign.jobs(), patient=campaign.patient_jobs())
    return campaign.results(time.monotonic() - began)


@dataclass
class _Campaign:
    """The cases as they come in, from several threads; appending to a list is one step."""

    options: Options
    tell: Told
    api: FakeApi
    config: Path
    driver: tuple[Boundary, ...] = ()
    ledger: tuple[Boundary, ...] = ()
    stop: dict[World, tuple[Boundary, ...]] = field(default_factory=dict[Any, tuple[Boundary, ...]])
    judged: list[Judged] = field(default_factory=list[Judged])
    controls: list[Control] = field(default_factory=list[Control])

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._told_at = self._began = time.monotonic()

    def _options(self, world: World) -> LaneOptions:
        return LaneOptions(config=self.config if world == "compensating" else None)

    # --- before -------------------------------------------------------------------------------------------------------

    def record(self, lanes: Lanes) -> None:
        """The moments of a drive, of a ledger that serves it, and of a stop in each world."""
        lane = lanes.get(self._options("plain"))
        self.driver = tuple(moment.boundary for moment in record_driver(Onward(), lane).moments)
        self.ledger = tuple(in_requests(record_ledger(Onward(), lane)))
        for world in self.options.worlds:
            stopping = record_stopping(lanes.get(self._options(world)), Onward(approved=False))
            self.stop[world] = tuple(moment.boundary for moment in stopping.moments)

    def places(self, world: World) -> list[Place]:
        """Those that are asked for."""
        where: dict[Way, tuple[Boundary, ...]] = dict.fromkeys(WAYS, self.driver)
        where |= {"in the ledger": self.ledger, "stopping": self.stop[world]}
        every = [Place(at=at, way=way) for way in self.options.ways for at in where[way]]
        named = [place for place in every if self.options.only is None or self.options.only in str(place)]
        return named[:: self.options.every]

    @property
    def asked(self) -> int:
        """How many cases there are to be."""
        return sum(len(self.places(world)) for world in self.options.worlds)

    def announce(self) -> None:
        """Say what there is to do."""
        moments = ", ".join(f"{count} {name}" for name, count in self._recorded().items())
        self.tell(f"moments: {moments}; {self.asked} cancels in {len(self.options.worlds)} worlds")

    def _recorded(self) -> dict[str, int]:
        found = {"of a drive": len(self.driver), "of the ledger": len(self.ledger)}
        return found | {f"of a stop ({world})": len(places) for world, places in self.stop.items()}

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        """The controls, then a case for every place that computes."""
        controls = [self._no_fence, self._not_too_late] if self.options.controls else []
        return [*controls, *(self._job(w, p) for w, p in self._cases() if p.way != "in the ledger")]

    def patient_jobs(self) -> list[Job]:
        """A case for every place of the ledger."""
        return [self._job(w, p) for w, p in self._cases() if p.way == "in the ledger"]

    def _cases(self) -> list[tuple[World, Place]]:
        return [(world, place) for world in self.options.worlds for place in self.places(world)]

    def _job(self, world: World, place: Place) -> Job:
        def do(lanes: Lanes) -> None:
            workload = Onward(approved=place.way != "stopping")
            self.judged.append(self._case(lanes, world, place, workload))
            self._progress()

        return do

    def _case(self, lanes: Lanes, world: World, place: Place, workload: Onward) -> Judged:
        """A boundary that a process did not come to this time is tried again."""
        lane, api = lanes.get(self._options(world)), self.api if world == "compensating" else None
        seen = cancel_at(lane, place, workload, api)
        for _ in range(MOST_TRIES - 1):
            if judging.invalid(seen):
                seen = cancel_at(lane, place, workload, api)
        found = judging.violations(seen, world)
        return Judged(world=world, seen=seen, violations=found, invalid=judging.invalid(seen))

    def _no_fence(self, lanes: Lanes) -> None:
        places = [Place(at=at, way="cut off") for at in self.driver if at.role == "main"]
        self._control(lanes, "no fence", NoFence(), places[len(places) // 4 :])

    def _not_too_late(self, lanes: Lanes) -> None:
        places = [Place(at=at, way="killed") for at in reversed(self.driver) if at.role in ("main", "background")]
        self._control(lanes, "not too late", NotTooLate(), places)

    def _control(self, lanes: Lanes, name: str, workload: Onward, places: list[Place]) -> None:
        for number, place in enumerate(places[:MOST_CONTROLS], 1):
            judged = self._case(lanes, "plain", place, workload)
            if judged.violations:
                self.controls.append(Control(name=name, cases=number, noticed=judged.violations[0]))
                return
        self.controls.append(Control(name=name, cases=min(len(places), MOST_CONTROLS), noticed=None))

    def _progress(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._told_at < TELL_EVERY_SECONDS:
                return
            self._told_at = now
            ends = Counter(judged.seen.status for judged in self.judged)
            shown = ", ".join(f"{count} {status}" for status, count in sorted(ends.items()))
            wrong = sum(bool(judged.violations) for judged in self.judged)
            self.tell(f"{len(self.judged)} of {self.asked} after {now - self._began:.0f} s: {shown}; wrong: {wrong}")

    def results(self, seconds: float) -> Results:
        """All of it."""
        return Results(
            options=self.options,
            recorded=self._recorded(),
            asked=self.asked,
            judged=tuple(sorted(self.judged, key=lambda j: (j.world, str(j.seen.place)))),
            controls=tuple(sorted(self.controls, key=lambda c: c.name)),
            seconds=seconds,
        )
