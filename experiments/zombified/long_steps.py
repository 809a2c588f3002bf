"""A step that takes longer than the lease, while others try to take the run all the time.

    sleeping    heartbeats go on: nobody may take it
    mute        heartbeats are sent and never come back: it is taken, once
    greedy      no other thread of the process runs, so no heartbeat does: it is taken, once

Two rivals at a time, so that "once" is not for want of a second one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from experiments.lane import Lane
from experiments.processes import Running
from experiments.story import Process
from experiments.zombified.case import LOOK_EVERY_SECONDS, Scene
from experiments.zombified.life import SLOW, Hold, exit_code
from runs.errors import Exit

HOLDS: dict[Hold, str] = {
    "sleeping": "a step longer than the lease, heartbeats alive",
    "mute": "the same, heartbeats swallowed by the network",
    "greedy": "the same, one call that lets no other thread run",
}
# The step, in leases.
LEASES = 2.5
# A driver that has lost its lease ends itself within so many seconds behind it: two of grace, and a busy machine.
BOUND_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class LongStep:
    """What came of one. `exit_code`: how the first driver ended; `epochs`: of every claim."""

    hold: Hold
    begun: bool
    epochs: tuple[int, ...] = ()
    refused: int = 0
    exit_code: int | None = None
    status: str = ""
    effects: tuple[int, ...] = ()
    over_lease_ms: float = 0.0

    @property
    def broken(self) -> str | None:
        """What is not as it must be; None where all is well."""
        alive = self.hold == "sleeping"
        epochs, code = ((1,), Exit.OK) if alive else ((1, 2), Exit.CONFLICT)
        if self.epochs != epochs:
            return f"the epochs are {list(self.epochs)}, not {list(epochs)}"
        if self.exit_code != code:
            return f"the first driver ended with {self.exit_code}, not {int(code)}"
        if self.status != "succeeded" or set(self.effects) != {1}:
            return f"the run is {self.status} with {self.effects} effects"
        if alive and not self.refused:
            return "nobody tried to take the run"
        return None


def run_long_step(lane: Lane, hold: Hold) -> LongStep:
    """A driver in a long step, and rivals that come until it has ended."""
    lease = lane.settings.lease_seconds
    scene = Scene(lane, HOLDS[hold])
    first = scene.start(hold=hold, slow_seconds=LEASES * lease)
    if not _has_begun(first):
        scene.to_the_end(first)
        return LongStep(hold=hold, begun=False)
    began = time.monotonic()
    rivals: list[Running] = []
    while first.alive:
        if sum(rival.alive for rival in rivals) < 2 and time.monotonic() - began > lease / 2:
            rivals.append(scene.start())
        first.ends_within(0.1)
        if time.monotonic() - began > LEASES * lease * 3 + BOUND_SECONDS:
            break
    told = first.wait(LOOK_EVERY_SECONDS)
    ended = time.monotonic()
    scene.to_the_end(rivals[-1] if rivals else first)
    stories = [told, *(rival.wait() for rival in rivals), *(r.wait() for r in scene.started[1 + len(rivals) :])]
    return _seen(scene, hold, stories, (ended - began - lease) * 1000)


def _has_begun(first: Running) -> bool:
    """Wait until the step is under way."""
    while first.alive:
        if any(line.startswith(SLOW) for line in Process.read(first.told, None).lines):
            return True
        time.sleep(LOOK_EVERY_SECONDS)
    return False


def _seen(scene: Scene, hold: Hold, stories: list[Process], over_ms: float) -> LongStep:
    after = scene.evidence(stories).after
    refused = [story for story in stories[1:] if exit_code(story) == Exit.CONFLICT and not story.executed]
    return LongStep(
        hold=hold,
        begun=True,
        epochs=after.epochs,
        refused=len(refused),
        exit_code=exit_code(stories[0]),
        status=after.status,
        effects=tuple(after.effects_of(step) for step in ("write_draft", "deliver")),
        over_lease_ms=over_ms,
    )
