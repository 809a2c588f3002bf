"""The whole experiment: record a drive, a zombie at every moment of it, the controls and the long steps; a verdict.

pass        every driver was stopped at its place, nothing contradicts, and each control did damage
disproved   something contradicts
invalid     nothing was tested: a driver was never stopped, nothing was open, nobody took over, a control did no
            damage
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from experiments.case import run_killed
from experiments.checker import Violation
from experiments.cluster import cluster
from experiments.errors import NotRun
from experiments.evidence import Evidence
from experiments.lane import Lane
from experiments.plan import NO_FAULT
from experiments.recordings import record_driver
from experiments.workers import Job, LaneOptions, Lanes, Workers
from experiments.workload import Onward, Plain
from experiments.zombified import judging
from experiments.zombified.case import WAKES, Scene, Wake, Zombie, run_zombie
from experiments.zombified.controls import CONTROLS, Damage, damage_of, plain_places, run_plain
from experiments.zombified.long_steps import HOLDS, LongStep, run_long_step
from experiments.zombified.places import Place, choose, places_of, read_places
from experiments.zombified.rows import call_witness
from runs.settings import StoreKind

Verdict = Literal["pass", "disproved", "invalid"]
Told = Callable[[str], None]

# As short as a machine that is not busy allows: the point lies behind it.
LEASE_SECONDS = 1.0
MOST_TRIES = 3
TELL_EVERY_SECONDS = 4.0
# A control has shown what it is there for when so many zombies have done damage.
ENOUGH_HARM = 3
MOST_CONTROLS = 14
# In a control whoever takes over may be kept waiting for ever; then it is not waited for long.
PATIENCE_SECONDS = 6.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run: see `places.choose`; `wakes`: when zombies wake. `controls`, `long_steps`: whether they run too."""

    store: StoreKind = "postgres"
    only: str | None = None
    every: int = 1
    wakes: tuple[Wake, ...] = WAKES
    controls: bool = True
    long_steps: bool = True
    lease_seconds: float = LEASE_SECONDS
    keep: Path | None = None

    @property
    def ordinary(self) -> LaneOptions:
        """The world of the cases."""
        return LaneOptions(lease_seconds=self.lease_seconds)

    @property
    def unfenced(self) -> LaneOptions:
        """The same without the fence."""
        return LaneOptions(lease_seconds=self.lease_seconds, planted="no-fence")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A zombie, and what is wrong with it."""

    zombie: Zombie
    violations: tuple[Violation, ...]
    invalid: str | None


@dataclass(frozen=True, kw_only=True)
class Results:
    """A whole run. `places` counts those that a recording has, by kind; `asked`: those that were chosen of them."""

    options: Options
    places: dict[str, int]
    recorded: int
    asked: int
    judged: tuple[Judged, ...]
    damage: tuple[Damage, ...]
    long_steps: tuple[LongStep, ...]
    seconds: float

    @property
    def zombies(self) -> tuple[Zombie, ...]:
        """Those that were stopped at their place."""
        return tuple(each.zombie for each in self.judged if each.invalid is None)

    def harm(self, control: str) -> tuple[Damage, ...]:
        """The damage of one control."""
        return tuple(each for each in self.damage if each.control == control)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Everything that is wrong, in words."""
        found = [f"{each.zombie.place}, woken {each.zombie.wake}: {v}" for each in self.judged for v in each.violations]
        return (*found, *(f"{HOLDS[s.hold]}: {s.broken}" for s in self.long_steps if s.begun and s.broken))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it may have tested nothing."""
        found = [f"{j.zombie.place}, woken {j.zombie.wake}: {j.invalid}" for j in self.judged if j.invalid]
        found += [f"{HOLDS[s.hold]}: the step never began" for s in self.long_steps if not s.begun]
        if self.options.only is None:
            found += judging.not_seen(self.zombies)
        if self.options.controls:
            found += [f"{name} did no damage" for name in CONTROLS if not any(d.harm for d in self.harm(name))]
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
    tell(f"starting {options.store}, the ledger and the oracle in a temporary home")
    with cluster(options.store, keep=options.keep) as services, Workers(services) as workers:
        campaign = _Campaign(options, tell)
        workers.work_off([campaign.record])
        campaign.announce()
        # What waits longest begins first.
        jobs = [*campaign.long_step_jobs(), *campaign.control_jobs(), *campaign.zombie_jobs()]
        workers.work_off(jobs)
    return campaign.results(time.monotonic() - began)


@dataclass
class _Campaign:
    """The cases as they come in, from several threads; appending to a list is one step."""

    options: Options
    tell: Told
    reference: Evidence | None = None
    recorded: tuple[Place, ...] = ()
    plain: tuple[Place, ...] = ()
    judged: dict[tuple[Place, Wake], Judged] = field(default_factory=dict[Any, Judged])
    damage: list[Damage] = field(default_factory=list[Damage])
    long_steps: list[LongStep] = field(default_factory=list[LongStep])

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._witnessed: set[Path] = set()
        self._told_at = self._began = time.monotonic()

    # --- before -------------------------------------------------------------------------------------------------------

    def record(self, lanes: Lanes) -> None:
        """A run without a fault to compare with, and the moments of a drive: the product's, and the control's."""
        lane = lanes.get(self.options.ordinary)
        self.reference = run_killed(Onward(), NO_FAULT, lane)
        scene, file = Scene(lane, "recording"), lane.folder / "zombie recording"
        if (end := scene.start(recording=file).wait().end) != "exit 0":
            raise NotRun(f"Without any fault a drive ends with {end!r}; see its story with --out DIR.")
        self.recorded = read_places(file)
        if self.options.controls:
            self.plain = plain_places(places_of(record_driver(Plain(), lane).boundaries))

    @property
    def chosen(self) -> tuple[Place, ...]:
        """The places that are asked for."""
        return choose(self.recorded, only=self.options.only, every=self.options.every)

    def announce(self) -> None:
        """Say what there is to do."""
        kinds = Counter(kind for place in self.recorded for kind in place.kinds)
        shown = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        cases = len(self.chosen) * len(self.options.wakes)
        self.tell(f"a drive has {len(self.recorded)} moments ({shown}); {cases} zombies, a lease each")

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def zombie_jobs(self) -> list[Job]:
        """A case for every place and every way to wake."""
        return [self._zombie_job(place, wake) for place in self.chosen for wake in self.options.wakes]

    def _zombie_job(self, place: Place, wake: Wake) -> Job:
        def do(lanes: Lanes) -> None:
            assert self.reference is not None
            lane = self._lane(lanes, self.options.ordinary)
            zombie = run_zombie(lane, place, wake)
            for _ in range(MOST_TRIES - 1):  # a boundary that a process did not come to this time is tried again
                if judging.invalid(zombie):
                    zombie = run_zombie(lane, place, wake)
            found = judging.violations(zombie, self.reference)
            self.judged[place, wake] = Judged(zombie=zombie, violations=found, invalid=judging.invalid(zombie))
            self._progress(place, wake)

        return do

    def control_jobs(self) -> list[Job]:
        """Each control in one job, at places where it has most to lose, until it has done enough damage."""
        if not self.options.controls:
            return []
        storing = [place for place in self.recorded if place.at.role == "background" and place.at.side == "before"]
        # Past the look at the lease. Who holds the whole of an SQLite file is ended by the take-over, fence or not.
        opened = [] if self.options.store == "sqlite" else [place for place in storing if "open" in place.kinds]
        inside = opened[:2] + [place for place in storing if "super-step" in place.kinds]

        def plain(lanes: Lanes, place: Place) -> Damage:
            return run_plain(lanes.get(self.options.ordinary), place)

        def unfenced(lanes: Lanes, place: Place) -> Damage:
            return damage_of(
                "no fence",
                run_zombie(
                    self._lane(lanes, self.options.unfenced), place, "at the end", stuck_seconds=PATIENCE_SECONDS
                ),
            )

        def forgetful(lanes: Lanes, place: Place) -> Damage:
            zombie = run_zombie(
                self._lane(lanes, self.options.unfenced),
                place,
                "at the end",
                forgetful=True,
                stuck_seconds=PATIENCE_SECONDS,
            )
            return damage_of("no epoch", zombie)

        awake = [place for place in self.recorded if place.node in ("analyze", "write_draft")]
        return [
            self._control_job(plain, self.plain),
            self._control_job(unfenced, inside),
            self._control_job(forgetful, awake),
        ]

    def _control_job(self, run: Callable[[Lanes, Place], Damage], places: Sequence[Place]) -> Job:
        def do(lanes: Lanes) -> None:
            harmful = 0
            for place in places[:MOST_CONTROLS]:
                damage = run(lanes, place)
                self.damage.append(damage)
                harmful += damage.harm
                if harmful == ENOUGH_HARM:
                    break

        return do

    def long_step_jobs(self) -> list[Job]:
        """The steps that take longer than the lease."""

        def job(hold: Any) -> Job:
            return lambda lanes: self.long_steps.append(run_long_step(lanes.get(self.options.ordinary), hold))

        return [job(hold) for hold in HOLDS] if self.options.long_steps else []

    def _lane(self, lanes: Lanes, options: LaneOptions) -> Lane:
        """The worker's lane, with the witness in its database."""
        lane = lanes.get(options)
        if lane.settings.database_url is not None and lane.folder not in self._witnessed:
            call_witness(lane.settings.database_url)
            self._witnessed.add(lane.folder)
        return lane

    def _progress(self, place: Place, wake: Wake) -> None:
        with self._lock:
            done, total = len(self.judged), len(self.chosen) * len(self.options.wakes)
            bad = self.judged[place, wake]
            for line in (*map(str, bad.violations), *([bad.invalid] if bad.invalid else [])):
                self.tell(f"WRONG {place}, woken {wake}: {line}")
            now = time.monotonic()
            if now - self._told_at < TELL_EVERY_SECONDS and done < total:
                return
            self._told_at = now
            left = (total - done) * (now - self._began) / done
            self.tell(f"[{done}/{total}] {place}: about {left:.0f} s left")

    # --- after --------------------------------------------------------------------------------------------------------

    def results(self, seconds: float) -> Results:
        """All that came of it."""
        order: list[tuple[Place, Wake]] = [(place, wake) for place in self.chosen for wake in self.options.wakes]
        return Results(
            options=self.options,
            places=dict(Counter(kind for place in self.recorded for kind in place.kinds)),
            recorded=len(self.recorded),
            asked=len(self.chosen),
            judged=tuple(self.judged[key] for key in order if key in self.judged),
            damage=tuple(sorted(self.damage, key=lambda damage: CONTROLS.index(damage.control))),
            long_steps=tuple(sorted(self.long_steps, key=lambda step: list(HOLDS).index(step.hold))),
            seconds=seconds,
        )
