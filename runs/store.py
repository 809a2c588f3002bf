"""The two stores that runs can live in, behind the same few operations.

A store hands out databases (named statements on runs, events and leases), opens holders, and clears the way for a
take-over. Which engine it is, only this module and `runs.checkpoints` know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import psycopg

from onward_ledger.database import Database, DatabaseError, PostgresDatabase, SqliteDatabase, Transaction
from onward_ledger.database.postgres import PostgresTransaction
from onward_ledger.database.sqlite import SqliteTransaction, instant_from_text, instant_text
from onward_ledger.database.statements import load_statements
from runs.errors import StateChanged
from runs.holder import (
    Holder,
    PostgresHolder,
    SqliteHolder,
    host_name,
    is_stopped,
    kill_process,
    lock_is_held,
    registering,
)
from runs.registry import Run
from runs.settings import Settings, StoreKind

SCHEMA = "onward"
SQL = Path(__file__).parent / "sql"
POSTGRES_ENGINE = load_statements(SQL / "postgres" / "engine")
SQLITE_ENGINE = load_statements(SQL / "sqlite" / "engine")
JSON_COLUMNS = frozenset({"asks", "params", "data", "allowed_kinds", "versions", "value"})

# A transaction of a rightful take-over that waits longer than this is kept waiting by the old driver's backend.
BLOCKED_SECONDS = 0.1
# The same for any other session of ours: a driver that fell silent in the middle of its own claim, a stopped command.
# Each of our transactions on a run's row takes milliseconds.
OURS_BLOCKED_SECONDS = 1.0
# The same for a SQLite file, where other runs' writers are waited for too: longer than their commits take.
FILE_BLOCKED_SECONDS = 1.0
# What it waits for at most: then something else than the old driver holds the row.
LONGEST_LOCK_WAIT_MS = 5000


class Store(Protocol):
    """Where runs live."""

    kind: StoreKind
    second_look_seconds: float
    """A holder that is absent on two looks this far apart is gone."""

    def database(self, application_name: str = "onward") -> Database:
        """A new database of named statements; the caller closes it."""
        ...

    def open_holder(self, kind: str, run: Run | None = None, database: Database | None = None) -> Holder:
        """Register this process as one that drives, and take its key.

        `run`: what it is going to drive, and `database`: through what. Its sessions go by the driver's name from then
        on, so that a take-over knows whose they are.
        """
        ...

    def taking_over(self, database: Database, run: Run) -> AbstractContextManager[Transaction]:
        """A context manager around one transaction: `with store.taking_over(database, run) as tx`.

        The run's driver may be replaced, as `run` says. What it still holds in the database is taken from it when it
        keeps the transaction waiting.
        """
        ...


def driver_name(run_id: str, holder_id: int) -> str:
    """The application name of a driver's connections: by it a take-over knows whose they are (at most 63 bytes)."""
    return f"onward {run_id} h{holder_id}"


class PostgresStore:
    """Runs in the schema `onward` of a Postgres database. `clock` overrides the database's clock in tests."""

    kind: StoreKind = "postgres"
    second_look_seconds = 0.15  # one look at pg_locks is not a snapshot of the lock table

    def __init__(self, dsn: str, *, clock: datetime | None = None, schema: str = SCHEMA) -> None:
        self.dsn = dsn
        self.schema = schema
        self._clock = clock

    def database(self, application_name: str = "onward") -> PostgresDatabase:
        """See Store.database."""
        return PostgresDatabase(
            self.dsn,
            schema=self.schema,
            folder=SQL / "postgres",
            application_name=application_name,
            clock=self._clock,
            max_connections=4,
        )

    def open_holder(self, kind: str, run: Run | None = None, database: Database | None = None) -> PostgresHolder:
        """See Store.open_holder."""
        with ExitStack() as stack:
            if database is None:
                database = stack.enter_context(closing(self.database()))
            assert isinstance(database, PostgresDatabase)
            holder = PostgresHolder(database, kind, load_statements(SQL / "postgres"), POSTGRES_ENGINE)
            if run is not None:
                database.rename(driver_name(run.run_id, holder.holder_id))
            return holder

    @contextmanager
    def taking_over(self, database: Database, run: Run) -> Generator[Transaction]:
        """See Store.taking_over. Terminates the backends of the old driver that block; of our others, silent ones."""
        assert isinstance(database, PostgresDatabase)
        name = driver_name(run.run_id, run.holder_id or 0)
        done = threading.Event()
        with database.transaction() as tx:
            tx.with_statements(POSTGRES_ENGINE).send("limit_lock_wait", milliseconds=LONGEST_LOCK_WAIT_MS)
            pid = tx.connection.info.backend_pid
            clearer = threading.Thread(
                target=_clear_the_way, args=(database, pid, name, done), name="claim-clearer", daemon=True
            )
            clearer.start()
            try:
                yield tx
            except psycopg.errors.LockNotAvailable as error:
                raise StateChanged(
                    f"Another session keeps the run {run.run_id} locked in an open transaction. "
                    "End that transaction (see pg_stat_activity), then try again."
                ) from error
            finally:
                done.set()
                clearer.join()


class SqliteStore:
    """Runs in one SQLite file, for one machine. `clock` overrides the clock in tests."""

    kind: StoreKind = "sqlite"
    second_look_seconds = 0.0  # the operating system's word is enough

    def __init__(self, path: Path, locks: Path, *, clock: datetime | None = None) -> None:
        self.path = path
        self.locks = locks
        self._clock = clock

    def database(self, application_name: str = "onward") -> SqliteDatabase:
        """See Store.database. The name is for Postgres; a file has no sessions to tell apart."""
        functions = {
            "onward_later": _later,
            "onward_holder_alive": lambda holder_id: lock_is_held(self.locks, holder_id),  # pyright: ignore[reportUnknownLambdaType] - called by SQLite
        }
        return SqliteDatabase(
            self.path,
            folder=SQL / "sqlite",
            json_columns=JSON_COLUMNS,
            functions=functions,
            clock=self._clock,
        )

    def open_holder(self, kind: str, run: Run | None = None, database: Database | None = None) -> SqliteHolder:
        """See Store.open_holder. A holder has a connection of its own: heartbeats wait for no other transaction."""
        with _clearing_the_file(self, run):
            return SqliteHolder(self.database(), kind, self.locks)

    @contextmanager
    def taking_over(self, database: Database, run: Run) -> Generator[Transaction]:
        """See Store.taking_over."""
        with ExitStack() as stack:
            with _clearing_the_file(self, run):
                tx = stack.enter_context(database.transaction())
            yield tx


@contextmanager
def _clearing_the_file(store: SqliteStore, run: Run | None) -> Generator[None]:
    """Around something that waits for the file's write lock.

    A stopped process can hold that lock for ever, for every run, and there is no backend to terminate. So the process
    itself is ended: first the driver of this run, if its lease is over; then drivers that are stopped by a signal. On
    this machine, and only if it is still that very process.
    """
    done = threading.Event()

    def clear() -> None:
        if done.wait(FILE_BLOCKED_SECONDS):
            return
        if run is not None and _lease_is_over(run) and run.host == host_name():
            kill_process(run.pid, run.process_started)
        while not done.wait(FILE_BLOCKED_SECONDS):
            for pid, started in _stopped_drivers(store):
                kill_process(pid, started)

    clearer = threading.Thread(target=clear, name="claim-clearer", daemon=True)
    clearer.start()
    try:
        yield
    finally:
        done.set()
        clearer.join()


def _lease_is_over(run: Run) -> bool:
    return run.expires_at is not None and run.expires_at <= run.now_at


def _stopped_drivers(store: SqliteStore) -> list[tuple[int, float]]:
    """Those of the newest drivers of this machine that a signal has stopped, with whatever they hold. The newest may
    not have a row yet: it was stopped while it wrote it.
    """
    with closing(store.database()) as database, database.reading() as tx:
        engine = SqliteTransaction(tx.connection, SQLITE_ENGINE, JSON_COLUMNS)
        found = engine.all("newest_holders", host=host_name())
    known = [(row["pid"], row["process_started"]) for row in found]
    return [each for each in known + registering(store.locks) if is_stopped(*each)]


def _clear_the_way(database: PostgresDatabase, pid: int, name: str, done: threading.Event) -> None:
    began = time.monotonic()
    while not done.wait(BLOCKED_SECONDS):
        long = time.monotonic() - began >= OURS_BLOCKED_SECONDS
        with suppress(DatabaseError, psycopg.Error), database.connection() as connection:
            engine = PostgresTransaction(connection, POSTGRES_ENGINE)
            engine.all("terminate_blockers", pid=pid, application_name=name, long=long)


def _later(instant: str, seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return instant_text(instant_from_text(instant) + timedelta(seconds=seconds))


def open_store(settings: Settings) -> Store:
    """The store that the settings name; the local Postgres is started where it is needed and no URL is given."""
    if settings.store == "sqlite":
        return SqliteStore(settings.sqlite_path, settings.locks)
    if settings.database_url is not None:
        return PostgresStore(settings.database_url)
    from runs import local_postgres

    return PostgresStore(local_postgres.ensure(settings.home))
