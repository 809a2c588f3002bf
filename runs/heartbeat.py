"""Keeping a lease, and noticing that it is lost, or that somebody asked to cancel the run.

Two threads. One sends heartbeats. The other only watches the clock, since a heartbeat that hangs in the network cannot
notice anything: when the lease runs out unrenewed, or the epoch has moved, it sets a flag that every model, action and
saver call checks; two seconds later it ends the process, which is what happens to work that does not look at the flag.

The first one also asks, twice a second, whether the run is to be cancelled. Then the children that do a step's work are
ended at once, the same calls raise, and work that does not look ends with its process after a grace period: the next
driver confirms that it stopped.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from graph.context import CancelRequested, LeaseLost
from onward_ledger.database import DatabaseError
from runs.errors import Exit
from runs.holder import Holder
from tools.process import end_children

# What work in progress may take to notice the flag and stop by itself.
GRACE_SECONDS = 2.0
# The same where the lease holds and somebody asked to cancel: a request on its way may come to its answer.
CANCEL_GRACE_SECONDS = 4.0
# How soon a driver hears that its run is to be cancelled.
ASK_SECONDS = 0.5
_BEATS_PER_LEASE = 4
_RETRY_SECONDS = 0.2


def _exit_process() -> None:
    sys.stderr.flush()
    os._exit(Exit.CONFLICT)


def _hand_back() -> None:
    sys.stderr.flush()
    os._exit(Exit.HANDED_BACK)


class Heartbeat:
    """The lease of one drive, kept alive from `start` to `stop`. `check` may be called by any thread.

    `is_cancelled` asks the database whether somebody wants the run cancelled; without it nobody is asked.
    """

    def __init__(
        self,
        holder: Holder,
        run_id: str,
        epoch: int,
        lease_seconds: float,
        *,
        is_cancelled: Callable[[], bool] | None = None,
        exit_process: Callable[[], None] = _exit_process,
        hand_back: Callable[[], None] = _hand_back,
    ) -> None:
        self._holder = holder
        self._run_id = run_id
        self._epoch = epoch
        self._lease_seconds = lease_seconds
        self._is_cancelled = is_cancelled
        self._exit_process = exit_process
        self._hand_back = hand_back
        self._valid_until = time.monotonic() + lease_seconds
        self._lost = threading.Event()
        self._stopped = threading.Event()
        self._changed = threading.Event()  # lost or stopped
        self._cancel = threading.Event()
        self._heeded = threading.Event()  # or stopped: nobody has to be ended
        self._reason = ""
        self._threads = [
            threading.Thread(target=self._beat, name="heartbeat", daemon=True),
            threading.Thread(target=self._watch, name="lease-watch", daemon=True),
        ]

    def start(self) -> None:
        """Begin, with one heartbeat at once: the claim may be some time ago."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads; the lease runs on in the database until it is released or over."""
        self._stopped.set()
        self._heeded.set()
        self._changed.set()
        for thread in self._threads:
            thread.join(timeout=GRACE_SECONDS)

    def check(self) -> None:
        """Raise LeaseLost once the run is no longer this process's to drive, CancelRequested once it is to stop."""
        self.check_lease()
        if self._cancel.is_set() and not self._heeded.is_set():
            raise CancelRequested(f"The run {self._run_id} is to be cancelled.")

    def heed(self) -> None:
        """The drive has heard that its run is to be cancelled, and stops it: no check raises for that any more."""
        self._heeded.set()

    def check_lease(self) -> None:
        """Raise LeaseLost once the run is no longer this process's to drive."""
        if not self._lost.is_set() and time.monotonic() > self._valid_until:
            self.lose("the lease ran out before it could be renewed")
        if self._lost.is_set():
            raise LeaseLost(f"The run {self._run_id} is no longer driven under epoch {self._epoch}: {self._reason}.")

    @property
    def lost(self) -> bool:
        """Whether the lease is lost."""
        return self._lost.is_set()

    @property
    def reason(self) -> str:
        """Why the lease was lost."""
        return self._reason

    def lose(self, reason: str) -> None:
        """Note that the lease is lost; whoever finds out says why. The first reason stays."""
        if not self._lost.is_set():
            self._reason = reason
            self._lost.set()
            self._changed.set()

    def _beat(self) -> None:
        pause, due = 0.0, 0.0
        while not self._stopped.wait(pause) and not self._lost.is_set():
            sent = time.monotonic()
            try:
                if sent >= due:
                    self._renew(sent)
                    due = sent + self._lease_seconds / _BEATS_PER_LEASE
                self._ask()
            except DatabaseError:
                pause = _RETRY_SECONDS  # the watch decides when it has been too long
                continue
            pause = max(due - time.monotonic(), 0.0)
            if self._is_cancelled is not None and not self._heeded.is_set():
                pause = min(pause, ASK_SECONDS)

    def _renew(self, sent: float) -> None:
        if not self._holder.renew(self._run_id, self._epoch):
            self.lose("another driver has taken over")
        self._valid_until = sent + self._lease_seconds

    def _ask(self) -> None:
        if self._is_cancelled is None or self._heeded.is_set() or self._cancel.is_set() or not self._is_cancelled():
            return
        self._cancel.set()
        threading.Thread(target=self._end_work, name="cancel-watch", daemon=True).start()

    def _end_work(self) -> None:
        """Children at once, the process when its work has not looked in time."""
        end_children()
        if not self._heeded.wait(CANCEL_GRACE_SECONDS):
            self._hand_back()

    def _watch(self) -> None:
        while not self._changed.wait(max(self._valid_until - time.monotonic(), 0.01)):
            if time.monotonic() > self._valid_until:
                self.lose("the lease ran out before it could be renewed")
        if self._lost.is_set() and not self._stopped.wait(GRACE_SECONDS):
            self._exit_process()
