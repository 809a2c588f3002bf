"""What a workflow asks a worker for. Both may be tried again at any time, by any worker: neither owns an effect.

`drive` ends the driver with itself: cancelled by Temporal, or when its worker is asked to stop, the driver drains at
the next super-step and the run is handed back. A worker that is killed takes its drivers with it.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Generator
from typing import Self

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError

from runs.errors import RunNotFound
from runs.temporal.tending import Asker, Doing, Means, look, see_to
from runs.temporal.values import CANCEL, DRIVE, LOOK, CancelOrder, Left, Turn

# What a worker does is seen in Temporal, and a cancellation is heard of, within about so long.
LONGEST_PACE_SECONDS = 1.0

Canceller = Callable[[str, str, str], str]


class Activities:
    """The activities of one worker. `cancel` takes run id, principal and reason, and says what came of it."""

    def __init__(self, means: Means, cancel: Canceller) -> None:
        self._means = means
        self._cancel = cancel

    @activity.defn(name=DRIVE, no_thread_cancel_exception=True)
    def drive(self, turn: Turn) -> Left:
        """Drive a run until it is left. Its heartbeats say what it does."""
        with _Pulse() as pulse, _known():
            left = see_to(turn.run_id, self._means, Asker(_asked_to_stop, pulse.tell, turn.signalled))
        if activity.is_cancelled() and not left.ended:
            raise CancelledError(f"The run is handed back: {left.status}.")
        return left

    @activity.defn(name=LOOK, no_thread_cancel_exception=True)
    def look(self, run_id: str) -> Left:
        """How a run stands. Any worker can look, also one that has not the run's version."""
        with _known():
            return look(run_id, self._means)

    @activity.defn(name=CANCEL, no_thread_cancel_exception=True)
    def cancel(self, order: CancelOrder) -> str:
        """Ask a run to stop for good; in words, what came of it. Asking again changes nothing."""
        try:
            return self._cancel(order.run_id, order.principal, order.reason)
        except RunNotFound as error:
            return error.message


@contextlib.contextmanager
def _known() -> Generator[None]:
    """A run that is not there any more is no reason to try again."""
    try:
        yield
    except RunNotFound as error:
        raise ApplicationError(error.message, type="RunNotFound", non_retryable=True) from error


def _asked_to_stop() -> bool:
    return activity.is_cancelled() or activity.is_worker_shutdown()


class _Pulse:
    """Heartbeats at a steady pace, with what was told last, from a thread of its own.

    They say that the worker lives. A database that lets a look wait, or a machine that is slow to start a driver, is no
    reason to have another worker take the run: whether the driver lives is said by its lease.
    """

    def __init__(self) -> None:
        heard_within = activity.info().heartbeat_timeout
        self._pace = heard_within.total_seconds() / 4 if heard_within else LONGEST_PACE_SECONDS
        self._told: Doing = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._beat,), name="heartbeats")

    def tell(self, doing: Doing) -> None:
        self._told = doing

    def _beat(self) -> None:
        while not self._over.wait(min(self._pace, LONGEST_PACE_SECONDS)):
            activity.heartbeat(self._told)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
