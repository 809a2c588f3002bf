"""Runs at an even pace, and how many there are: in a thread of its own, since a database that is away makes wait."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import psycopg

from experiments.soaking.place import Place
from onward_ledger.database import DatabaseError
from onward_ledger.errors import LedgerError
from runs.errors import RunError

POLL_SECONDS = 0.1

_COUNTS = """select count(*), count(*) filter (where finished_at is not null),
                    count(*) filter (where status = 'waiting_human') from onward.runs"""

# Runs; those that have ended; those that wait for a person.
Counts = tuple[int, int, int]


class Feeder:
    """Begins `runs` runs in `seconds`, from `start` to `stop`. `counts` is None while the database is away."""

    def __init__(self, place: Place, runs: int, seconds: float) -> None:
        self._place = place
        self._runs = runs
        self._seconds = seconds
        self._began = time.monotonic()
        self._fed = 0
        self._feeding, self._stopped = True, threading.Event()
        self._looking: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._work, name="feeder", daemon=True)
        self.counts: Counts | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop_feeding(self) -> None:
        """Begin no more runs; go on counting."""
        self._feeding = False

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join(timeout=30)

    def _work(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            if self._feeding:
                self._feed()
            self.counts = self._count()
        if self._looking is not None:
            self._looking.close()

    def _feed(self) -> None:
        """One run, if one is due. Where nobody can say whether it was written, one more is begun."""
        due = min(self._runs, int(self._runs * (time.monotonic() - self._began) / self._seconds) + 1)
        with suppress(DatabaseError, RunError, LedgerError, psycopg.Error):
            while self._fed < due and self._feeding and not self._stopped.is_set():
                self._place.begin_run()
                self._fed += 1

    def _count(self) -> Counts | None:
        try:
            if self._looking is None or self._looking.closed:
                self._looking = psycopg.connect(self._place.dsn, autocommit=True, connect_timeout=5)
            return self._looking.execute(_COUNTS).fetchone()
        except psycopg.Error:
            if self._looking is not None:
                self._looking.close()
            return None
