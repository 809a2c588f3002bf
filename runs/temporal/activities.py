"""What a workflow asks a worker for. Both may be tried again at any time, by any worker: neither owns an effect.

`drive` ends the driver with itself: cancelled by Temporal, or when its worker is asked to stop, the driver drains at
the next super-step and the run is handed back. A worker that is killed takes its drivers with it.
"""

from __future__ import annotations

from collections.abc import Callable

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError

from runs.errors import RunNotFound
from runs.temporal.tending import Asker, Doing, Means, see_to
from runs.temporal.values import CANCEL, DRIVE, CancelOrder, Left, Turn

Canceller = Callable[[str, str, str], str]


class Activities:
    """The activities of one worker. `cancel` takes run id, principal and reason, and says what came of it."""

    def __init__(self, means: Means, cancel: Canceller) -> None:
        self._means = means
        self._cancel = cancel

    @activity.defn(name=DRIVE, no_thread_cancel_exception=True)
    def drive(self, turn: Turn) -> Left:
        """Drive a run until it is left. Its heartbeats say what it does."""
        asker = Asker(stop=_asked_to_stop, tell=_tell, signalled=turn.signalled)
        try:
            left = see_to(turn.run_id, self._means, asker)
        except RunNotFound as error:
            raise ApplicationError(error.message, type="RunNotFound", non_retryable=True) from error
        if activity.is_cancelled() and not left.ended:
            raise CancelledError(f"The run is handed back: {left.status}.")
        return left

    @activity.defn(name=CANCEL, no_thread_cancel_exception=True)
    def cancel(self, order: CancelOrder) -> str:
        """Ask a run to stop for good; in words, what came of it. Asking again changes nothing."""
        return self._cancel(order.run_id, order.principal, order.reason)


def _asked_to_stop() -> bool:
    return activity.is_cancelled() or activity.is_worker_shutdown()


def _tell(doing: Doing) -> None:
    activity.heartbeat(doing)
