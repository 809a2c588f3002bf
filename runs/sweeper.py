"""The sweeper beside each worker: it reads rows and gives hints again, so that a lost hint or a lost driver is found.

    many times a second    driven runs whose driver is gone or hangs       a hint, and the look noted in the lease row
    every second or so     queued runs whose hint was lost, page by page   a hint
    every second or so     this worker's own key and row                   taken again after a lost connection

It decides nothing about a run and never touches another's lock. All sweepers together look about as often, however many
workers there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import psycopg

from onward_ledger.database import DatabaseError, statement
from onward_ledger.database.postgres import PostgresTransaction
from runs.errors import RunError
from runs.holder import PostgresHolder
from runs.rounds import DATABASE, Troubles, rounds
from runs.store import POSTGRES_ENGINE, PostgresStore

# How long a driver that is gone may go unnoticed, at the first look; for each worker as many times longer.
LOOK_SECONDS = 0.05
MOST_WORKERS_COUNTED = 10
SLOW_SECONDS = 1.0
# Behind the death of a driver of our own: its session ends within milliseconds.
SOON_SECONDS = 0.01
SOON_LOOKS = 12
PAGE = 500


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
    """Runs in a thread of its own from `start` to `stop`. `mend` is called when the database did not answer."""

    def __init__(
        self,
        store: PostgresStore,
        holder: PostgresHolder,
        versions: list[str],
        troubles: Troubles,
        mend: Callable[[], None],
    ) -> None:
        self._database = store.database("onward sweeper")
        self._holder = holder
        self._versions = versions
        self._troubles = troubles
        self._mend = mend
        self._stopped, self._wanted = threading.Event(), threading.Event()
        self._soon = 0
        self._after = ""
        self._pace = LOOK_SECONDS
        self._slow, self._keep = _Every(seconds=SLOW_SECONDS), _Every(seconds=SLOW_SECONDS)
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
        with closing(self._database):
            rounds(DATABASE, self._round, stopped=self._stopped, wait=self._wait, troubles=self._troubles)

    def _wait(self) -> None:
        if self._soon > 0:
            self._soon -= 1
            self._stopped.wait(SOON_SECONDS)
            return
        self._wanted.wait(self._pace)
        self._wanted.clear()

    def _round(self) -> None:
        try:
            self._look(time.monotonic())
        except (DatabaseError, RunError, psycopg.Error):
            self._mend()
            raise

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
