"""The sweeper beside each worker: it reads rows and gives hints again, so that a lost hint or a lost driver is found.

    many times a second    driven runs whose driver is gone or hangs       a hint, and the look noted in the lease row
    every second or so     queued runs whose hint was lost, page by page   a hint
    every second or so     the ledger's feed of decisions                  waiting runs are queued
    every second or so     this worker's own key and row                   taken again after a lost connection

It decides nothing about a run and never touches another's lock. All sweepers together look about as often, however many
workers there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import psycopg

from onward_ledger.client import LedgerClient
from onward_ledger.database import DatabaseError, statement
from onward_ledger.database.postgres import PostgresTransaction
from onward_ledger.errors import LedgerError
from runs import registry
from runs.errors import RunError
from runs.holder import PostgresHolder
from runs.registry import Status
from runs.store import POSTGRES_ENGINE, PostgresStore
from runs.wake import wake_if_decided

# How long a driver that is gone may go unnoticed, at the first look; for each worker as many times longer.
LOOK_SECONDS = 0.05
MOST_WORKERS_COUNTED = 10
SLOW_SECONDS = 1.0
# Behind the death of a driver of our own: its session ends within milliseconds.
SOON_SECONDS = 0.01
SOON_LOOKS = 12
PAGE = 500
FEED = "ledger"
FEED_PAGE = 100


@dataclass(kw_only=True)
class _Every:
    """Says when something is due again."""

    seconds: float
    due_at: float = 0.0

    def due(self, now: float) -> bool:
        if now < self.due_at:
            return False
        self.due_at = now + self.seconds
        return True


class Sweeper:
    """Runs in a thread of its own from `start` to `stop`.

    `open_ledger` opens a client of the ledger. `on_trouble` is told when the database or the ledger does not answer,
    once each time, and when it does again (None). `mend` is called each time that the database did not answer.
    """

    def __init__(
        self,
        store: PostgresStore,
        holder: PostgresHolder,
        versions: list[str],
        open_ledger: Callable[[], LedgerClient],
        on_trouble: Callable[[str, Exception | None], None],
        mend: Callable[[], None],
    ) -> None:
        self._database = store.database("onward sweeper")
        self._holder = holder
        self._versions = versions
        self._open_ledger = open_ledger
        self._on_trouble = on_trouble
        self._mend = mend
        self._ledger: LedgerClient | None = None
        self._stopped, self._wanted = threading.Event(), threading.Event()
        self._soon = 0
        self._after = ""
        self._pace = LOOK_SECONDS
        self._troubles: set[str] = set()
        self._slow, self._feed, self._keep = (_Every(seconds=SLOW_SECONDS) for _ in range(3))
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the thread is waited for."""
        self._stopped.set()
        self._wanted.set()
        self._thread.join(timeout=10)

    def look_soon(self) -> None:
        """A driver of ours has just died: look at once, and a few times more."""
        self._soon = SOON_LOOKS
        self._wanted.set()

    def _run(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(closing(self._database))
            stack.callback(self._drop_ledger)
            while not self._stopped.is_set():
                began = time.monotonic()
                self._trying("database", partial(self._look, began))
                if self._feed.due(began):
                    self._trying("ledger", self._follow_decisions)
                self._wait()

    def _wait(self) -> None:
        if self._soon > 0:
            self._soon -= 1
            self._stopped.wait(SOON_SECONDS)
            return
        self._wanted.wait(self._pace)
        self._wanted.clear()

    def _trying(self, what: str, work: Callable[[], None]) -> None:
        """Trouble passes: the next look tries again."""
        try:
            work()
        except (DatabaseError, LedgerError, RunError, psycopg.Error) as error:
            if what not in self._troubles:
                self._troubles.add(what)
                self._on_trouble(what, error)
            if what == "database":
                self._mend()
            self._stopped.wait(SLOW_SECONDS / 2)
        else:
            if what in self._troubles:
                self._troubles.discard(what)
                self._on_trouble(what, None)

    def _look(self, now: float) -> None:
        with self._database.connection() as connection:
            engine = PostgresTransaction(connection, POSTGRES_ENGINE)
            engine.all("hint_takeable", versions=self._versions)
            if self._slow.due(now):
                engine.all("hint_released", versions=self._versions)
                self._look_at_a_page(engine)
        if self._keep.due(now):
            self._keep_row()

    def _look_at_a_page(self, engine: PostgresTransaction) -> None:
        row = engine.one("hint_unhinted", versions=self._versions, after=self._after, limit=PAGE)
        self._after = row["last"] if row is not None and row["last"] is not None else ""

    def _keep_row(self) -> None:
        self._holder.keep_key()
        self._database.at_once(statement("see_worker", holder_id=self._holder.holder_id))
        living = len(self._database.read("workers"))
        self._pace = LOOK_SECONDS * max(1, min(living, MOST_WORKERS_COUNTED) / 2)

    def _follow_decisions(self) -> None:
        """Queue waiting runs whose decision or resolution nobody told them of."""
        if self._ledger is None:
            self._ledger = self._open_ledger()
        try:
            self._follow(self._ledger)
        except LedgerError:
            self._drop_ledger()
            raise

    def _follow(self, ledger: LedgerClient) -> None:
        row = next(iter(self._database.read("cursor", feed=FEED)), None)
        after = row["position"] if row is not None else 0
        while True:
            feed = ledger.decisions(after, limit=FEED_PAGE)
            for run_id in dict.fromkeys(item.run_id for item in feed.items):
                self._wake(ledger, run_id)
            if feed.cursor <= after:
                return
            after = feed.cursor
            self._database.at_once(statement("move_cursor", feed=FEED, position=after))

    def _wake(self, ledger: LedgerClient, run_id: str) -> None:
        """The ledger serves others too: what is no run of ours is passed over."""
        rows = self._database.read("run", run_id=run_id)
        if rows and rows[0]["status"] == Status.WAITING_HUMAN:
            wake_if_decided(self._database, ledger, registry.Run.from_row(rows[0]))

    def _drop_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
