"""The holder: one driving process, and the proof that it lives.

On Postgres the proof is a session advisory lock on the connection that also sends heartbeats: it ends with the session,
and the session ends with the process, however that ends. On SQLite it is a lock on a file of the holder's own; the
operating system ends it with the process (a POSIX record lock: a forked child does not inherit it).

Both say so at once. They only give speed: what a process may still write is decided by the epoch.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, LiteralString, Protocol

import fasteners
import psutil
import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from onward_ledger.database import PostgresDatabase, SqliteDatabase, Unreachable, statement
from onward_ledger.database.postgres import PostgresTransaction
from runs.errors import ServiceUnreachable

# How long a holder that lost its connection tries to take its key back from its own dying session.
RETAKE_SECONDS = 5.0
_RETRY_SECONDS = 0.05

BEHIND_POOLER = (
    "The database is behind a connection pooler that does not keep sessions, so the fence against late writers cannot "
    "hold. Let DATABASE_URL point at Postgres itself, or at a pooler in session mode."
)

_REGISTERING = "registering-"

# A hung network must not hold a heartbeat longer than this.
_NETWORK_TIMEOUT_MS = 5000


class Holder(Protocol):
    """This process as one that drives."""

    holder_id: int

    def renew(self, run_id: str, epoch: int) -> bool:
        """One heartbeat: extend the lease. False when the epoch has moved; Unreachable when nothing is known."""
        ...

    def is_cancelled(self, run_id: str) -> bool:
        """Whether somebody asked to cancel the run; Unreachable when nothing is known."""
        ...

    def check_session(self) -> None:
        """Raise ServiceUnreachable when what shows this holder's life is not its own.

        Called while another connection has a transaction open: that one would have got the session behind the key from
        a pooler that keeps none.
        """
        ...

    def close(self) -> None:
        """Give the key back."""
        ...


@cache
def host_name() -> str:
    """The name of this machine, as drivers record it. Where several share a name but not their processes, set one."""
    return os.environ.get("ONWARD_HOST") or socket.gethostname()


def process_started(pid: int) -> float | None:
    """When a living process of this machine started, in seconds since 1970; None when there is none."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def is_that_process(pid: int, started: float) -> bool:
    """Whether the process that had this pid then is the one that has it now. psutil rounds, so: within a second."""
    now = process_started(pid)
    return now is not None and abs(now - started) < 1.0


def is_stopped(pid: int, started: float) -> bool:
    """Whether that very process lives and a signal has stopped it: it does nothing until another one wakes it."""
    if not is_that_process(pid, started):
        return False
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def kill_process(pid: int | None, started: float | None) -> None:
    """End a process for good, if it is still the one that is meant."""
    if pid is not None and started is not None and pid != os.getpid() and is_that_process(pid, started):
        with contextlib.suppress(psutil.Error):
            psutil.Process(pid).kill()


def _self_description(kind: str) -> dict[str, Any]:
    started = process_started(os.getpid())
    assert started is not None
    return {"kind": kind, "host": host_name(), "pid": os.getpid(), "process_started": started}


class PostgresHolder:
    """See Holder. Its connection is direct and its own: it holds the lock and sends the heartbeats."""

    def __init__(
        self,
        database: PostgresDatabase,
        kind: str,
        statements: Mapping[str, LiteralString],
        engine: Mapping[str, LiteralString],
    ) -> None:
        self._statements = statements
        self._engine = engine
        self._conninfo = database.conninfo
        (made,) = database.at_once(statement("insert_holder", **_self_description(kind)))
        assert made.row is not None
        self.holder_id: int = made.row["holder_id"]
        self._session: object = None
        self._connection = self._connect()

    def renew(self, run_id: str, epoch: int) -> bool:
        """See Holder.renew. After a lost connection the key is taken again first."""
        try:
            if self._connection.closed:
                self._connection = self._connect()
            tx = PostgresTransaction(self._connection, self._statements)
            return tx.run("renew_lease", run_id=run_id, epoch=epoch, holder_id=self.holder_id) == 1
        except psycopg.OperationalError as error:
            self._connection.close()
            raise Unreachable(f"The heartbeat did not reach Postgres: {error}") from error

    def is_cancelled(self, run_id: str) -> bool:
        """See Holder.is_cancelled."""
        try:
            if self._connection.closed:
                self._connection = self._connect()
            tx = PostgresTransaction(self._connection, self._statements)
            return tx.one("is_cancelled", run_id=run_id) is not None
        except psycopg.OperationalError as error:
            self._connection.close()
            raise Unreachable(f"The question did not reach Postgres: {error}") from error

    def keep_key(self) -> None:
        """Take the key again after a lost connection: for a holder that renews no lease. Raises Unreachable."""
        try:
            if self._connection.closed:
                self._connection = self._connect()
            self.session().one("backend_pid")
        except psycopg.OperationalError as error:
            self._connection.close()
            raise Unreachable(f"The session that shows this process's life was lost: {error}") from error

    def check_session(self) -> None:
        """See Holder.check_session. A pooler in transaction mode gives each transaction another server's session."""
        if self.session().one("backend_pid") != {"pid": self._session}:
            raise ServiceUnreachable(BEHIND_POOLER)

    def close(self) -> None:
        """See Holder.close."""
        self._connection.close()

    def session(self) -> PostgresTransaction:
        """The engine's statements on the holder's own connection, for checks at start."""
        return PostgresTransaction(self._connection, self._engine)

    def _connect(self) -> psycopg.Connection[dict[str, Any]]:
        connection = psycopg.Connection[dict[str, Any]].connect(
            make_conninfo(self._conninfo, tcp_user_timeout=_NETWORK_TIMEOUT_MS),
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=None,
        )
        try:
            self._take_key(PostgresTransaction(connection, self._engine))
        except BaseException:
            connection.close()
            raise
        return connection

    def _take_key(self, tx: PostgresTransaction) -> None:
        deadline = time.monotonic() + RETAKE_SECONDS
        while True:
            row = tx.one("try_holder_key", holder_id=self.holder_id)
            assert row is not None
            if row["locked"]:
                self._session = row["pid"]
                return
            if time.monotonic() > deadline:
                raise Unreachable("The key of this driver is held by another session, so its life cannot be shown.")
            tx.all("terminate_old_session", holder_id=self.holder_id)
            time.sleep(_RETRY_SECONDS)


# Lock files held by this very process: a POSIX lock says nothing to its owner, and closing any descriptor of the file
# would drop it, so a process never looks at its own.
_own_locks: set[Path] = set()


class SqliteHolder:
    """See Holder. Owns the database that it is given."""

    def __init__(self, database: SqliteDatabase, kind: str, locks: Path) -> None:
        self._database = database
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _registering(locks), database.transaction() as tx:
            row = tx.one("insert_holder", **_self_description(kind))
        assert row is not None
        self.holder_id: int = row["holder_id"]
        self._path = _lock_path(locks, self.holder_id)
        self._lock = fasteners.InterProcessLock(self._path)
        locked = self._lock.acquire(blocking=False)
        assert locked, "the id is new, so nobody else can hold its lock"
        _own_locks.add(self._path)

    def renew(self, run_id: str, epoch: int) -> bool:
        """See Holder.renew."""
        with self._database.transaction() as tx:
            return tx.run("renew_lease", run_id=run_id, epoch=epoch, holder_id=self.holder_id) == 1

    def is_cancelled(self, run_id: str) -> bool:
        """See Holder.is_cancelled."""
        return bool(self._database.read("is_cancelled", run_id=run_id))

    def check_session(self) -> None:
        """See Holder.check_session: a file has no pooler."""

    def close(self) -> None:
        """See Holder.close. The id is never used again, so the file can go."""
        if self._path in _own_locks:
            _own_locks.discard(self._path)
            self._path.unlink(missing_ok=True)
            self._lock.release()
        self._database.close()


def lock_is_held(locks: Path, holder_id: object) -> bool:
    """Whether the holder with this id lives, by its lock file. The file of a dead one is removed."""
    if not isinstance(holder_id, int):
        return False
    path = _lock_path(locks, holder_id)
    if path in _own_locks:
        return True
    if not path.exists():
        return False
    lock = fasteners.InterProcessLock(path)
    if not lock.acquire(blocking=False):
        if lock.lockfile is not None:
            lock.lockfile.close()  # the library leaves it open
        return True
    path.unlink(missing_ok=True)
    lock.release()
    return False


@contextlib.contextmanager
def _registering(locks: Path) -> Generator[None]:
    """Around a holder's first write, in which it keeps the file locked and no row says yet who that is: a file does."""
    mine = locks / f"{_REGISTERING}{os.getpid()}-{process_started(os.getpid())}"
    mine.touch()
    try:
        yield
    finally:
        mine.unlink(missing_ok=True)


def registering(locks: Path) -> list[tuple[int, float]]:
    """Processes of this machine that are about to be holders: pid and when each started. Files of dead ones go."""
    found: list[tuple[int, float]] = []
    for path in locks.glob(f"{_REGISTERING}*"):
        pid, _, started = path.name.removeprefix(_REGISTERING).partition("-")
        if is_that_process(int(pid), float(started)):
            found.append((int(pid), float(started)))
        else:
            path.unlink(missing_ok=True)
    return found


def _lock_path(locks: Path, holder_id: int) -> Path:
    return locks / f"holder-{holder_id}.lock"
