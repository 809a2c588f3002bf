"""Seeing to one run until it is left: finished, waiting for a person, or queued for later.

The row decides, never an exit code: a driver is started when the run needs one, watched while it lives, and when it
ends the row is looked at again. Whether the run may be driven is decided by the driver's claim. So any number of these
may see to one run, beside `onward worker`s and commands: one of them drives, the others watch.

    finished, waiting_human, queued for later, of another version    left
    driven by somebody who lives                                     watch
    queued, or its driver is gone or hangs                           drive
    our driver hangs past its lease                                  kill it, then drive
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from onward_ledger.database import Database, DatabaseError, statement
from runs import events, registry
from runs.errors import Exit, HandedBack
from runs.registry import Run, Status
from runs.temporal.values import Left
from runs.wake import Ledger, is_answered, waits_for, wake_if_decided

# How often the row is looked at while somebody drives. The end of a driver of our own is noticed at once.
LOOK_SECONDS = 0.5

Doing = dict[str, Any]


class NotDriven(HandedBack):
    """A driver could not have the run, and the row says that nobody has it: another worker may be able to."""


class Driver(Protocol):
    """A process that drives one run, started by this one and ending with it."""

    pid: int

    def has_ended(self, within_seconds: float) -> bool:
        """Wait for its end so long; whether it has come."""
        ...

    def drain(self) -> None:
        """Ask it to stop at the next super-step."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    @property
    def exit_code(self) -> int:
        """Of a driver that has ended; negative where a signal ended it."""
        ...

    @property
    def told(self) -> str:
        """How it ended, in words."""
        ...

    def close(self) -> None:
        """End it at once, if it has not ended."""
        ...


@dataclass(frozen=True, kw_only=True)
class Means:
    """What seeing to runs needs. `database` is shared by all runs of this process; `start` starts a driver."""

    database: Database
    ledger: Callable[[], AbstractContextManager[Ledger]]
    start: Callable[[str], Driver]
    versions: frozenset[str]
    grace_seconds: float


@dataclass(frozen=True)
class Asker:
    """Who asks: whether it wants the run handed back by now, and where it hears what is being done."""

    stop: Callable[[], bool]
    tell: Callable[[Doing], None]
    signalled: bool = False


def look(run_id: str, means: Means) -> Left:
    """How a run stands. Raises RunNotFound."""
    return left(registry.get(means.database, run_id))


def see_to(run_id: str, means: Means, asker: Asker) -> Left:
    """Drive a run as far as it goes, or watch who drives it; how it stands then.

    Raises RunNotFound, NotDriven, or a database's or ledger's error when neither a look nor a drive is possible.
    """
    return _Tending(run_id, means, asker).go()


class _Tending:
    def __init__(self, run_id: str, means: Means, asker: Asker) -> None:
        self._run_id = run_id
        self._means = means
        self._asker = asker

    def go(self) -> Left:
        run = self._woken(self._look())
        while not self._is_left(run) and not self._asker.stop():
            if run.driver == "alive":
                time.sleep(LOOK_SECONDS)
            else:
                self._drive(run)
            run = self._look()
        return left(run)

    def _look(self) -> Run:
        run = registry.get(self._means.database, self._run_id)
        self._asker.tell(doing(run, self._step(run)))
        return run

    def _step(self, run: Run) -> str | None:
        """The step that was begun last, where somebody is at one."""
        if not run.driven:
            return None
        rows = self._means.database.read("last_event", run_id=run.run_id, kind="step_started")
        return rows[0]["step"] if rows else None

    def _woken(self, run: Run) -> Run:
        """Queued, if what the run waits for has come. Only somebody's signal has providers asked."""
        if run.status is not Status.WAITING_HUMAN:
            return run
        database = self._means.database
        with self._means.ledger() as ledger:
            if self._asker.signalled:
                return wake_if_decided(database, ledger, run)
            if is_answered(ledger, run.reason, waits_for(database, run.run_id), database.now()):
                return registry.queue_decided(database, run.run_id)
        return run

    def _is_left(self, run: Run) -> bool:
        later = run.status is Status.QUEUED and run.wake_at is not None and run.wake_at > run.now_at
        waits = run.status is Status.WAITING_HUMAN
        return run.finished or waits or later or run.workflow_version not in self._means.versions

    def _drive(self, before: Run) -> None:
        with contextlib.closing(self._means.start(self._run_id)) as driver:
            self._follow(driver)
            self._note_end(driver)
            told = driver.told
        after = registry.get(self._means.database, self._run_id)
        unchanged = (after.epoch, after.version) == (before.epoch, before.version)
        if unchanged and after.driver != "alive" and not self._asker.stop():
            raise NotDriven(told)

    def _note_end(self, driver: Driver) -> None:
        """What ended a driver from outside is evidence, should it happen again and again."""
        if driver.exit_code in set(Exit):
            return
        data = {"pid": driver.pid, "exit_code": driver.exit_code}
        with contextlib.suppress(DatabaseError):
            self._means.database.at_once(
                statement("lock_run", run_id=self._run_id), *events.numbered(self._run_id, "driver_ended", data)
            )

    def _follow(self, driver: Driver) -> None:
        """Until the driver has ended: asked to drain where that is wanted, killed where it no longer moves."""
        asked_at: float | None = None
        while not driver.has_ended(within_seconds=LOOK_SECONDS):
            if asked_at is None and self._asker.stop():
                asked_at = time.monotonic()
                driver.drain()
            if asked_at is not None and time.monotonic() - asked_at > self._means.grace_seconds:
                driver.kill()
            with _told_when_unreachable(self._asker, self._run_id):
                if _hangs(self._look(), driver.pid):
                    driver.kill()


def _hangs(run: Run, pid: int) -> bool:
    """Whether our own driver has let its lease run out: it hangs or is cut off, and nobody waits for it for ever."""
    return run.driver == "hanging" and run.pid == pid


@contextlib.contextmanager
def _told_when_unreachable(asker: Asker, run_id: str) -> Generator[None]:
    """While a driver lives, a database that does not answer is the driver's to bear: it tries again by itself."""
    try:
        yield
    except DatabaseError as error:
        asker.tell({"run_id": run_id, "trouble": f"the database does not answer: {type(error).__name__}"})


def doing(run: Run, step: str | None) -> Doing:
    """What a heartbeat says."""
    return {
        "run_id": run.run_id,
        "status": str(run.status),
        "step": step,
        "epoch": run.epoch,
        "driver": f"process {run.pid} on {run.host}: {run.driver}" if run.driven else None,
    }


def left(run: Run) -> Left:
    """The row as the workflow needs it."""
    wake: float | None = None
    if not run.finished and run.status is not Status.WAITING_HUMAN:
        later = run.wake_at if run.status is Status.QUEUED else None
        wake = 0.0 if later is None else max(0.0, (later - run.now_at).total_seconds())
    return Left(
        run_id=run.run_id,
        status=str(run.status),
        reason=run.reason,
        message=run.message,
        workflow_version=run.workflow_version,
        epoch=run.epoch or 0,
        ended=run.finished,
        wake_seconds=wake,
    )
