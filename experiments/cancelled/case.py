"""One case: a run is cancelled while one of its processes is held at a boundary, and then brought to its end.

goes on          the row and the fence, while the driver is held; then it goes on
killed           the same, and the driver is killed there
cut off          the row alone: whoever asked died before the fence. The driver is held until it has heard
in the ledger    the row and the fence, while the ledger is held inside a request; then it goes on
stopping         the run is cancelled already and is being stopped; the driver that stops it is killed there

Where the held process has a lock that the cancel waits for, it is let go, and they race.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from experiments.boundaries import BY_THE_CLOCK, Boundary, read_recording
from experiments.case import Case
from experiments.errors import NotRun
from experiments.evidence import Evidence
from experiments.fake_api import FakeApi
from experiments.lane import Lane
from experiments.nemesis import Fault
from experiments.plan import Plan
from experiments.processes import Running
from experiments.recordings import Recording
from experiments.workload import Onward
from onward_ledger.action import Action, ActionKey
from onward_ledger.client import LedgerClient
from onward_ledger.errors import FenceClosed, LedgerError
from runs import cancelling, events, registry
from runs.cancelling import Asked
from runs.events import Event
from runs.heartbeat import ASK_SECONDS

Way = Literal["goes on", "killed", "cut off", "in the ledger", "stopping"]
WAYS: tuple[Way, ...] = ("goes on", "killed", "cut off", "in the ledger", "stopping")

# A cancel that has not come through by then waits for a lock of whoever is held.
LOCKED_SECONDS = 0.7
# A process that has not come to its boundary by then does not this time.
COME_SECONDS = 50.0
ASKED = Asked(principal="experiment", reason="not wanted any more")
NEVER = 10_000  # an epoch beyond every driver's

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A boundary, and how the run is cancelled there."""

    at: Boundary
    way: Way

    def __str__(self) -> str:
        return f"{self.at}, {self.way}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What there is to judge. `met`: the process came to its boundary. `raced`: the cancel waited for its lock.

    `closed_at`: when the fence was closed, by the word of a request that was refused; None when none was. `accepted`:
    that request was taken. `undone`: markers of what reached the API outside.
    """

    place: Place
    met: bool
    raced: bool
    evidence: Evidence
    actions: tuple[Action, ...]
    history: tuple[Event, ...]
    closed_at: datetime | None
    accepted: bool
    undone: tuple[str, ...]
    seconds: float

    @property
    def status(self) -> str:
        """How the run ended."""
        return self.evidence.ended.status


def cancel_at(lane: Lane, place: Place, workload: Onward, api: FakeApi | None) -> Seen:
    """One case. Raises NotRun when the experiment itself cannot go on."""
    began = time.monotonic()
    case = Case(workload, Plan(group="none", name=str(place)), lane)
    met, raced = _AT[place.way](lane, case, place)
    evidence = case.evidence(case.finish())
    lane.ledger.wait_until_back()
    actions = lane.client.actions(case.run_id, limit=100)
    closed_at, accepted = _ask_for_more(lane.client, case.run_id)
    undone = api.effects(flavour="idempotent") if api is not None else ()
    mine = {action.action_id for action in actions}
    return Seen(
        place=place,
        met=met,
        raced=raced,
        evidence=evidence,
        actions=actions,
        history=tuple(events.read_all(lane.database, case.run_id)),
        closed_at=closed_at,
        accepted=accepted,
        undone=tuple(str(effect.marker) for effect in undone if effect.marker in mine),
        seconds=time.monotonic() - began,
    )


# --- how --------------------------------------------------------------------------------------------------------------


def _while_driving(lane: Lane, case: Case, place: Place) -> tuple[bool, bool]:
    fault, meeting = _meeting(lane, place)
    running = case.start(case.role(fault=fault))
    met, raced = _come(meeting, running), False
    if met:
        raced = not _ask(lane, case.run_id, fence=place.way != "cut off")
        if place.way == "cut off":
            time.sleep(2 * ASK_SECONDS)  # until the driver has heard
    if place.way == "killed":
        running.kill()
    (meeting / "go").touch()
    case.ended(running)
    return met, raced


def _in_the_ledger(lane: Lane, case: Case, place: Place) -> tuple[bool, bool]:
    fault, meeting = _meeting(lane, place)
    serving = lane.ledger.restart(fault=fault)
    running = case.start(case.role())
    met = _come(meeting, running, serving)
    raced = not _ask(lane, case.run_id, fence=True) if met else False
    (meeting / "go").touch()
    case.ended(running)
    if not met:
        lane.ledger.restart()  # no later case is to meet somebody here
    return met, raced


def _while_stopping(lane: Lane, case: Case, place: Place) -> tuple[bool, bool]:
    """Behind the draft: there is something to list, and to take back."""
    _drive_to_the_draft(lane, case)
    _ask(lane, case.run_id, fence=True)
    fault = Fault(at=place.at, how="kill")
    return case.run(case.role(fault=fault)).killed, False


_AT: dict[Way, Any] = {
    "goes on": _while_driving,
    "killed": _while_driving,
    "cut off": _while_driving,
    "in the ledger": _in_the_ledger,
    "stopping": _while_stopping,
}


def _drive_to_the_draft(lane: Lane, case: Case) -> None:
    """Until the run waits for a person: there is no grant in this way."""
    case.run(case.role())
    if case.look().status != "waiting_human":
        raise NotRun("A run without an approval does not wait for one.")


def _meeting(lane: Lane, place: Place) -> tuple[Fault, Path]:
    folder = lane.folder / f"meeting {next(_numbers)}"
    folder.mkdir()
    return Fault(at=place.at, how="meet", meeting=folder), folder


def _come(meeting: Path, *processes: Running) -> bool:
    """Wait until somebody is at the meeting; False when the process has ended, or nobody comes."""
    deadline = time.monotonic() + COME_SECONDS
    while not (meeting / "here").exists():
        if time.monotonic() > deadline or not processes[0].alive:
            return (meeting / "here").exists()
        time.sleep(0.002)
    return True


def _ask(lane: Lane, run_id: str, *, fence: bool) -> bool:
    """Cancel as `onward cancel` does; whether it came through while the process is held.

    If not, it waits for a lock of the held one, and comes through in its own time.
    """
    done = threading.Event()

    def ask() -> None:
        run = cancelling.request(lane.database, registry.get(lane.database, run_id), ASKED)
        if fence and not run.finished:
            with contextlib.suppress(LedgerError):  # the drivers close it then
                lane.client.close_fence(run_id, reason=ASKED.words)
        done.set()

    threading.Thread(target=ask, name="asking", daemon=True).start()
    return done.wait(LOCKED_SECONDS)


def _ask_for_more(client: LedgerClient, run_id: str) -> tuple[datetime | None, bool]:
    """One more effect of a run that has ended: refused, with the time of the closing, where the fence is closed."""
    key = ActionKey(run_id, "afterwards", "note")
    try:
        client.perform(key, "ledger.note", lambda: ("afterwards", {"text": "too much"}), epoch=NEVER)
    except FenceClosed as closed:
        return closed.closed_at, False
    return None, True


# --- recordings -------------------------------------------------------------------------------------------------------


def places_of(recording: Recording, ways: tuple[Way, ...]) -> list[Place]:
    """Every moment of a recording, in each of these ways; threads that act by the clock once."""
    return [Place(at=m.boundary, way=way) for m in recording.moments for way in ways]


def record_stopping(lane: Lane, workload: Onward) -> Recording:
    """What a driver passes that stops a run behind its draft."""
    file = lane.folder / f"stopping {next(_numbers)}"
    case = Case(workload, Plan(group="none", name="recording"), lane)
    _drive_to_the_draft(lane, case)
    _ask(lane, case.run_id, fence=True)
    case.run(case.role(recording=file))
    if case.look().status != "cancelled":
        raise NotRun("Without any fault a run that is to be cancelled is not cancelled; see its story with --out DIR.")
    return Recording.of(read_recording(file))


def in_requests(recording: Recording) -> list[Boundary]:
    """The moments of the ledger in which it is asked for something, or sends."""
    return [m.boundary for m in recording.moments if m.boundary.role not in (*BY_THE_CLOCK, "main")]
