"""One zombie: a driver stops at its place, its lease runs out, another driver takes the run, and the first one wakes.

at the end    the other driver brings the run to its end first: after that nothing at all may change any more
at work       the first one wakes as soon as the run is taken, and both go on at the same time
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from experiments.case import OVER
from experiments.evidence import Evidence, World
from experiments.lane import Lane
from experiments.look import look_at_onward
from experiments.nemesis import Fault
from experiments.plan import Plan
from experiments.processes import Running
from experiments.story import Process
from experiments.zombified.held import terminated, what_it_holds
from experiments.zombified.life import Orders, Watched, backends, claim_ms, exit_code, live
from experiments.zombified.places import Place
from experiments.zombified.rows import Change, changes, read_rows, written_by
from runs import registry
from runs.registry import Run, Status

Wake = Literal["at the end", "at work"]
WAKES: tuple[Wake, ...] = ("at the end", "at work")

# A take-over that takes longer, beyond the lease, counts as none.
TAKE_OVER_SECONDS = 15.0
# Somebody woken must have ended within this time: what it needs to notice, two seconds of grace, and a busy machine.
END_SECONDS = 15.0
# A driver that was refused is started again after this time, as a worker would.
AGAIN_SECONDS = 0.05
MOST_DRIVES = 6
# Whoever has taken the run and has not come to its end within this time is kept waiting by the silent one.
STUCK_SECONDS = 45.0
LOOK_EVERY_SECONDS = 0.01

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Zombie:
    """What came of one. Times in milliseconds; None where it did not come to that.

    `nothing_left`: it had ended the run before it stopped, so there was nothing to take. `lease`: it had one.
    `take_over_ms`: from the end of its lease to the claim of the next driver (with the start of its process);
    `claim_ms`: the claim alone. `terminated`: sessions of the silent one that a take-over ended. `stuck`: whoever took
    over could not go on until it woke. `changed`: rows that changed when it woke at the end; `late`: rows that it wrote
    after it was woken, by table (Postgres).
    """

    place: str
    kinds: tuple[str, ...]
    wake: Wake
    stopped: bool
    evidence: Evidence
    held: bool = False
    lease: bool = False
    nothing_left: bool = False
    taken: bool = False
    stuck: bool = False
    take_over_ms: float | None = None
    claim_ms: float | None = None
    terminated: int = 0
    killed: bool = False
    end_ms: float | None = None
    exit_code: int | None = None
    changed: tuple[Change, ...] = ()
    late: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0

    @property
    def further(self) -> int:
        """Take-overs beyond the one that was meant: on a busy machine a living driver may lose a short lease too."""
        meant = 2 if self.lease and not self.nothing_left else 1
        return max(len(self.evidence.after.epochs) - meant, 0)

    @property
    def forks(self) -> int:
        """Checkpoints whose parent is not the one before them."""
        return forks_of(self.evidence.after)


class Scene:
    """The processes of one run in a lane, and what its row says meanwhile."""

    def __init__(self, lane: Lane, name: str, *, forgetful: bool = False) -> None:
        self.lane = lane
        self._forgetful = forgetful
        self.plan = Plan(group="stopped driver", name=name)
        self.began = time.monotonic()
        lane.ledger.wait_until_back()
        self._serving = len(lane.ledger.stories) - 1
        self.run_id = Watched().begin(lane)
        self._told = lane.stories / f"{next(_numbers):04d} zombie"
        self.started: list[Running] = []

    def start(self, fault: Fault | None = None, **orders: Any) -> Running:
        """Start a driver of the run."""
        told = self._told.with_name(f"{self._told.name} {len(self.started) + 1}.txt")
        given = Orders(fault=fault, planted=self.lane.planted, forgetful=self._forgetful, **orders)
        self.started.append(self.lane.forks.start(live, told, self.run_id, self.lane.settings, given))
        return self.started[-1]

    def run(self) -> Run:
        """The row as it stands."""
        return registry.get(self.lane.database, self.run_id)

    def wait_for_lease(self) -> Run:
        """Wait until nobody has the run any more, or the run is over; the row then."""
        while True:
            run = self.run()
            if run.finished or run.expires_at is None or run.expires_at <= run.now_at:
                return run
            time.sleep(min(max((run.expires_at - run.now_at).total_seconds(), 0.001), 0.25))

    def take_over(self, epoch: int) -> Running:
        """A driver that has the run under a higher epoch than this one; or the last that was refused."""
        deadline = time.monotonic() + TAKE_OVER_SECONDS
        while True:
            running = self.start()
            if self.is_taken(running, epoch, deadline) or self.run().finished or time.monotonic() > deadline:
                return running
            time.sleep(AGAIN_SECONDS)

    def is_taken(self, running: Running, epoch: int, deadline: float) -> bool:
        """Wait until the run has a higher epoch than this one, or this driver has ended without it."""
        while time.monotonic() < deadline:
            alive = running.alive
            if (self.run().epoch or 0) > epoch:
                return True
            if not alive:
                return False
            time.sleep(LOOK_EVERY_SECONDS)
        return False

    def to_the_end(self, running: Running) -> None:
        """Wait for a driver, and start others until the run is over or waits for a person."""
        for _ in range(MOST_DRIVES):
            running.wait()
            run = self.run()
            if str(run.status) in OVER or run.status is Status.WAITING_HUMAN:
                return
            self.lane.ledger.wait_until_back()
            running = self.start()

    def evidence(self, stories: Sequence[Process]) -> Evidence:
        """All that is known, when every process has ended."""
        world = look_at_onward(self.lane, self.run_id)
        return Evidence(
            system="onward",
            plan=self.plan,
            processes=tuple(stories),
            ended=world,
            after=world,
            refusals=self.lane.ledger.refusals(self.run_id, self._serving),
            seconds=time.monotonic() - self.began,
        )


def run_zombie(
    lane: Lane, place: Place, wake: Wake, *, forgetful: bool = False, stuck_seconds: float = STUCK_SECONDS
) -> Zombie:
    """One case, from the start of the run to the end of everybody who drove it."""
    scene = Scene(lane, str(place), forgetful=forgetful)
    silent = scene.start(Fault(at=place.at, how="stop"))
    if not silent.wait_until_stopped():
        return _never_stopped(scene, place, wake)
    mine = backends(Process.read(silent.told, None))
    held = what_it_holds(lane, mine)
    run = scene.wait_for_lease()
    if run.finished:
        return _nothing_left(scene, place, wake, silent)
    taker = scene.take_over(run.epoch or 0)
    taken = (scene.run().epoch or 0) > (run.epoch or 0)
    ended = terminated(lane, held)
    stuck = wake == "at the end" and taken and not taker.ends_within(stuck_seconds)
    settled = wake == "at the end" and taken and not stuck
    if settled:
        scene.to_the_end(taker)
    written = written_by(lane.settings.database_url, mine)
    rows = read_rows(lane)
    woken = time.monotonic()
    silent.wake()
    first = silent.wait(END_SECONDS)
    end_ms = (time.monotonic() - woken) * 1000
    changed = changes(rows, read_rows(lane)) if settled else ()
    scene.to_the_end(taker)
    stories = [first, *(running.wait() for running in scene.started[1:])]
    evidence = scene.evidence(stories)
    claimed_at = claim_after(evidence.after, run.epoch or 0)
    return Zombie(
        place=str(place),
        kinds=place.kinds,
        wake=wake,
        stopped=True,
        evidence=evidence,
        held=held.writing,
        lease=run.expires_at is not None,
        taken=taken,
        stuck=stuck,
        take_over_ms=_since(run, claimed_at) if taken else None,
        claim_ms=next((ms for story in stories[1:] if (ms := claim_ms(story)) is not None), None),
        terminated=ended,
        killed=first.killed,
        end_ms=end_ms,
        exit_code=exit_code(first),
        changed=changed,
        late=_late(lane, written, backends(first)) if taken else (),
        seconds=time.monotonic() - scene.began,
    )


def claim_after(world: World, epoch: int) -> datetime | None:
    """When the run was claimed under a higher epoch than this one."""
    return next((at for claimed, at in world.claims if claimed > epoch), None)


def forks_of(world: World) -> int:
    """Checkpoints whose parent is not the one before them, in the order of their ids."""
    rows = sorted(world.checkpoints, key=lambda row: row.checkpoint_id)
    before = [None, *(row.checkpoint_id for row in rows)]
    return sum(row.parent_id != parent for row, parent in zip(rows, before, strict=False))


def _since(run: Run, claimed_at: datetime | None) -> float | None:
    """From when the run could be taken to when it was."""
    if claimed_at is None:
        return None
    over_at = run.expires_at or run.now_at
    return (claimed_at - over_at).total_seconds() * 1000


def _late(lane: Lane, before: Counter[str], mine: Sequence[int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((written_by(lane.settings.database_url, mine) - before).items()))


def _never_stopped(scene: Scene, place: Place, wake: Wake) -> Zombie:
    scene.to_the_end(scene.started[0])
    evidence = scene.evidence([running.wait() for running in scene.started])
    return Zombie(place=str(place), kinds=place.kinds, wake=wake, stopped=False, evidence=evidence)


def _nothing_left(scene: Scene, place: Place, wake: Wake, silent: Running) -> Zombie:
    """It had ended the run before it stopped. It wakes, says so, and changes nothing either."""
    rows, woken = read_rows(scene.lane), time.monotonic()
    silent.wake()
    first = silent.wait(END_SECONDS)
    return Zombie(
        place=str(place),
        kinds=place.kinds,
        wake=wake,
        stopped=True,
        evidence=scene.evidence([first]),
        nothing_left=True,
        end_ms=(time.monotonic() - woken) * 1000,
        exit_code=exit_code(first),
        changed=changes(rows, read_rows(scene.lane)),
        seconds=time.monotonic() - scene.began,
    )
