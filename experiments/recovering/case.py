"""One kill: a run is given to a system, its process is killed at the moment of the plan, and the run is followed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import psutil

from experiments.errors import NotRun
from experiments.recovering.marks import Mark
from experiments.recovering.plan import Kill
from experiments.recovering.systems.system import System, WentOn

FIRST_STEP_SECONDS = 120.0
LOOK_EVERY_SECONDS = 0.02
MARK_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """What became of one run. Instants are Unix seconds, on the one clock of this machine.

    `struck`: the process lived and the run had not ended when it was killed. `ended` is the system's word for how the
    run ended; None: it was stuck. `executed` are the steps that began, in order.
    """

    kill: Kill
    run_id: str
    struck: bool
    killed_at: float
    pid: int
    ended: str | None
    ended_seconds: float | None
    went_on: WentOn | None
    marks: tuple[Mark, ...]
    effects: int
    unknown: int
    load: float = 0.0  # of the machine, over the last minute

    @property
    def stuck(self) -> bool:
        """It did not end within the system's patience."""
        return self.ended is None

    @property
    def executed(self) -> tuple[int, ...]:
        """The steps that began, in order."""
        return tuple(mark.step for mark in self.marks if mark.word == "begin")

    @property
    def executed_again(self) -> int:
        """How many executions of steps there were beyond one of each."""
        return len(self.executed) - len(set(self.executed))

    @property
    def duplicates(self) -> int:
        """Effects beyond the first."""
        return max(self.effects - 1, 0)

    @property
    def lost(self) -> bool:
        """The run ended, and its effect is neither in the world nor on record as unknown."""
        return self.ended is not None and self.effects == 0 and self.unknown == 0

    @property
    def wrong_end(self) -> bool:
        """It ended in another way than by succeeding, or by waiting for a person to settle what is unknown."""
        if self.ended is None or self.ended.lower() in GOOD_ENDS:
            return False
        return not (self.ended == WAITING and self.unknown)

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """How long each step took that began and ended in one process."""
        began: dict[tuple[int, int], float] = {}
        taken: list[float] = []
        for mark in self.marks:
            if mark.word == "begin":
                began[mark.pid, mark.step] = mark.at
            elif (mark.pid, mark.step) in began:
                taken.append(mark.at - began.pop((mark.pid, mark.step)))
        return tuple(taken)

    def _again(self, word: str) -> float | None:
        """From the kill to the first such mark of another process."""
        found = [mark.at for mark in self.marks if mark.word == word and mark.pid != self.driver_pid]
        later = [at for at in found if at > self.killed_at]
        return min(later) - self.killed_at if later else None

    @property
    def driver_pid(self) -> int:
        """The process that ran the steps before the kill."""
        before = [mark.pid for mark in self.marks if mark.at <= self.killed_at]
        return before[-1] if before else self.pid

    @property
    def begins_seconds(self) -> float | None:
        """From the kill to the beginning of a step in another process; the same for all systems."""
        return self._again("begin")

    @property
    def done_seconds(self) -> float | None:
        """From the kill to the end of a step in another process; the same for all systems."""
        return self._again("end")

    @property
    def claim_seconds(self) -> float | None:
        """From the kill to the claim on record; without such a record, to the first step elsewhere."""
        if self.went_on is None:
            return self.begins_seconds
        return None if self.went_on.claimed_at is None else self.went_on.claimed_at - self.killed_at

    @property
    def recorded_seconds(self) -> float | None:
        """From the kill to the first work on record; without such a record, to the first step that ended elsewhere."""
        if self.went_on is None:
            return self.done_seconds
        return None if self.went_on.recorded_at is None else self.went_on.recorded_at - self.killed_at

    @property
    def work_seconds(self) -> float | None:
        """Work without detection: from the claim to the first work on record."""
        claim, recorded = self.claim_seconds, self.recorded_seconds
        return None if claim is None or recorded is None else recorded - claim

    @property
    def _trail(self) -> list[list[Any]]:
        trail = self.went_on.trail if self.went_on is not None else ()
        return [[round(at - self.killed_at, 4), what] for at, what in trail]

    def to_json(self) -> dict[str, Any]:
        """The raw line."""
        return {
            "kill": self.kill.to_json(),
            "run_id": self.run_id,
            "struck": self.struck,
            "killed_at": self.killed_at,
            "pid": self.pid,
            "why": None if self.went_on is None else self.went_on.why,
            "trail": self._trail,
            "claim_seconds": _rounded(self.claim_seconds),
            "recorded_seconds": _rounded(self.recorded_seconds),
            "begins_seconds": _rounded(self.begins_seconds),
            "done_seconds": _rounded(self.done_seconds),
            "ended": self.ended,
            "ended_seconds": _rounded(self.ended_seconds),
            "effects": self.effects,
            "unknown": self.unknown,
            "executed": list(self.executed),
            "load": self.load,
            "marks": [mark.to_json() for mark in self.marks],
        }


WAITING = "waiting_human"
GOOD_ENDS = ("succeeded", "success", "completed")


def run_case(system: System, kill: Kill) -> Case:
    """Do all of it. NotRun when a run does not begin although everything is up."""
    system.ready()
    run_id = system.submit()
    marks = system.place.marks
    began = marks.wait(
        lambda mark: mark.run_id == run_id and mark.step == kill.step and mark.word == "begin", FIRST_STEP_SECONDS
    )
    if began is None:
        raise NotRun(f"{system.name}: a run did not come to step {kill.step} within {FIRST_STEP_SECONDS:.0f} seconds.")
    pid = system.victim(began.pid, kill.target)
    time.sleep(max(began.at + kill.after_seconds - time.time(), 0.0))
    killed_at = time.time()
    lived = _kill(pid)
    early = system.ended(run_id)
    if early is None:
        system.killed(run_id, pid)
    ended, ended_at = _follow(system, run_id, killed_at)
    return _case(system, kill, run_id, pid, killed_at, ended, ended_at, struck=lived and early is None)


def _follow(system: System, run_id: str, killed_at: float) -> tuple[str | None, float | None]:
    while time.time() - killed_at < system.patience_seconds:
        ended = system.ended(run_id)
        if ended is not None:
            return ended, time.time()
        time.sleep(LOOK_EVERY_SECONDS)
    return None, None


def _case(
    system: System,
    kill: Kill,
    run_id: str,
    pid: int,
    killed_at: float,
    ended: str | None,
    ended_at: float | None,
    *,
    struck: bool,
) -> Case:
    case = Case(
        kill=kill,
        run_id=run_id,
        struck=struck,
        killed_at=killed_at,
        pid=pid,
        ended=ended,
        ended_seconds=None if ended_at is None else ended_at - killed_at,
        went_on=system.went_on(run_id, killed_at) if struck else None,
        marks=system.place.marks.of(run_id),
        effects=system.effects(run_id),
        unknown=system.unknown(run_id),
        load=round(os.getloadavg()[0], 2),
    )
    if case.stuck:
        system.settle(run_id)
    return case


def _kill(pid: int) -> bool:
    """SIGKILL; whether the process was there, and not at its end already."""
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
