"""The feed of the ledger's decisions, beside each worker: waiting runs are queued whose decision nobody told them of.

Each worker reads it every second from where the last one stood. A thread of its own: a ledger that does not answer
keeps nobody from taking over runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from onward_ledger.client import LedgerClient
from onward_ledger.database import Database, statement
from onward_ledger.errors import LedgerError
from runs import registry
from runs.registry import Status
from runs.rounds import LEDGER, Troubles, rounds
from runs.wake import wake_if_decided

EVERY_SECONDS = 1.0
_FEED = "ledger"
_PAGE = 100


class Feed:
    """Runs in a thread of its own from `start` to `stop`. `open_ledger` opens a client of the ledger."""

    def __init__(self, database: Database, open_ledger: Callable[[], LedgerClient], troubles: Troubles) -> None:
        self._database = database
        self._open_ledger = open_ledger
        self._troubles = troubles
        self._ledger: LedgerClient | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the thread is waited for."""
        self._stopped.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        def wait() -> None:
            self._stopped.wait(EVERY_SECONDS)

        rounds(LEDGER, self._follow, stopped=self._stopped, wait=wait, troubles=self._troubles)
        self._drop_ledger()

    def _follow(self) -> None:
        if self._ledger is None:
            self._ledger = self._open_ledger()
        try:
            self._read_on(self._ledger)
        except LedgerError:
            self._drop_ledger()
            raise

    def _read_on(self, ledger: LedgerClient) -> None:
        row = next(iter(self._database.read("cursor", feed=_FEED)), None)
        after = row["position"] if row is not None else 0
        while not self._stopped.is_set():
            feed = ledger.decisions(after, limit=_PAGE)
            for run_id in dict.fromkeys(item.run_id for item in feed.items):
                self._wake(ledger, run_id)
            if feed.cursor <= after:
                return
            after = feed.cursor
            self._database.at_once(statement("move_cursor", feed=_FEED, position=after))

    def _wake(self, ledger: LedgerClient, run_id: str) -> None:
        """The ledger serves others too: what is no run of ours is passed over."""
        rows = self._database.read("run", run_id=run_id)
        if rows and rows[0]["status"] == Status.WAITING_HUMAN:
            wake_if_decided(self._database, ledger, registry.Run.from_row(rows[0]))

    def _drop_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
