"""Is a ledger instance still there? Each process holds something that the system takes away when it dies.

Postgres: a session advisory lock on a connection of its own; others look it up in pg_locks. SQLite: a lock on a file
beside the database, which also lets one service run at a time. Who is gone is then a question in SQL
(`gone_in_flight`). An instance that is taken for gone while it lives (its connection was cut) does no harm: its action
becomes UNKNOWN, which grants no second send, and its late answer is accepted.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from pathlib import Path
from typing import Protocol

import psycopg

from onward_ledger.database import Unreachable
from onward_ledger.errors import Conflict

# How often a Postgres instance looks whether its session, and with it its lock, is still there.
SESSION_CHECK_SECONDS = 1.0


class Liveness(Protocol):
    """What a living instance holds."""

    lock_key: int

    def hold(self) -> None:
        """Take it; raise Conflict when another service has it."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


class SessionLock:
    """A session advisory lock, taken again on a new connection when the old one is lost."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self.lock_key = secrets.randbelow(2**62) + 1
        self._connection: psycopg.Connection | None = None
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="ledger-liveness", daemon=True)

    def hold(self) -> None:
        """Take the lock, and watch over it in a thread; Unreachable when Postgres does not answer."""
        try:
            self._connection = self._connect()
        except psycopg.OperationalError as error:
            raise Unreachable(f"Postgres does not answer: {str(error).splitlines()[0]}.") from error
        self._watcher.start()

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        # The key is random in 62 bits, so it is free; after a reconnection the old session may still be ending.
        connection.execute("select pg_advisory_lock(%s)", (self.lock_key,))
        return connection

    def _watch(self) -> None:
        while not self._stopped.wait(SESSION_CHECK_SECONDS):
            try:
                if self._connection is None:
                    self._connection = self._connect()
                self._connection.execute("")
            except psycopg.Error:
                self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def release(self) -> None:
        """Stop watching and end the session."""
        self._stopped.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self._drop()


class FileLock:
    """A lock on `<database>.lock`, which the system frees when the process ends, however it ends."""

    lock_key = 0

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Take the lock; a SQLite ledger has one service at a time."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Conflict(
                f"Another ledger service has the SQLite file {self._path.with_suffix('')} open. "
                "A SQLite ledger has one service at a time: use that one, stop it, or use Postgres."
            ) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Free the lock. The file stays: deleting it would let two processes lock two files of the same name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
