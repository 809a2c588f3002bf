"""Keeping a lease, and noticing that it is lost.

Two threads. One sends heartbeats. The other only watches the clock, since a heartbeat that hangs in the network cannot
notice anything: when the lease runs out unrenewed, or the epoch has moved, it sets a flag that every model, action and
saver call checks; two seconds later it ends the process, which is what happens to work that does not look at the flag.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from graph.context import LeaseLost
from onward_ledger.database import DatabaseError
from runs.errors import Exit
from runs.holder import Holder

# What work in progress may take to notice the flag and stop by itself.
GRACE_SECONDS = 2.0
_BEATS_PER_LEASE = 4
_RETRY_SECONDS = 0.2


def _exit_process() -> None:
    sys.stderr.flush()
    os._exit(Exit.CONFLICT)


class Heartbeat:
    """The lease of one drive, kept alive from `start` to `stop`. `check` may be called by any thread."""

    def __init__(
        self,
        holder: Holder,
        run_id: str,
        epoch: int,
        lease_seconds: float,
        *,
        exit_process: Callable[[], None] = _exit_process,
    ) -> None:
        self._holder = holder
        self._run_id = run_id
        self._epoch = epoch
        self._lease_seconds = lease_seconds
        self._exit_process = exit_process
        self._valid_until = time.monotonic() + lease_seconds
        self._lost = threading.Event()
        self._stopped = threading.Event()
        self._changed = threading.Event()  # lost or stopped
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
        self._changed.set()
        for thread in self._threads:
            thread.join(timeout=GRACE_SECONDS)

    def check(self) -> None:
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
        pause = 0.0
        while not self._stopped.wait(pause) and not self._lost.is_set():
            sent = time.monotonic()
            try:
                renewed = self._holder.renew(self._run_id, self._epoch)
            except DatabaseError:
                pause = _RETRY_SECONDS  # the watch decides when it has been too long
                continue
            if not renewed:
                self.lose("another driver has taken over")
            self._valid_until = sent + self._lease_seconds
            pause = self._lease_seconds / _BEATS_PER_LEASE

    def _watch(self) -> None:
        while not self._changed.wait(max(self._valid_until - time.monotonic(), 0.01)):
            if time.monotonic() > self._valid_until:
                self.lose("the lease ran out before it could be renewed")
        if self._lost.is_set() and not self._stopped.wait(GRACE_SECONDS):
            self._exit_process()
