"""The checkpointer of one drive, behind the fence.

LangGraph's own savers, unchanged, on connections that say under which epoch they write. What is added: every call first
asks whether the lease is still held, and the tables carry the trigger that refuses an older epoch.

* Postgres: a pool that belongs to the drive, with `onward.fence` and the search_path as start-up options (they survive
  a reconnection; `SET` would leak). The pool gives reconnection, not parallelism: a saver holds one lock.
* SQLite: a connection on which `onward_fence()` is registered; one that lacks it cannot write at all.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Any

# The serializer would otherwise import and call whatever a checkpoint row names (CVE-2026-28277). Read at import.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.base import CheckpointTuple as Saved
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from onward_ledger.database import Database, PostgresDatabase, statement
from onward_ledger.database.postgres import PostgresTransaction, check_alive, connection_string
from onward_ledger.database.sqlite import SqliteTransaction, connect
from runs.errors import ServiceUnreachable
from runs.holder import BEHIND_POOLER
from runs.store import JSON_COLUMNS, POSTGRES_ENGINE, SQLITE_ENGINE, PostgresStore, SqliteStore, Store, driver_name

_SETUP_PATIENCE_SECONDS = 60.0
_SETUP_POLL_SECONDS = 0.05

Check = Callable[[], None]
Saver = BaseCheckpointSaver[Any]
Pool = ConnectionPool[Connection[dict[str, Any]]]


def serializer() -> JsonPlusSerializer:
    """A serializer that revives nothing but LangGraph's own types, whatever the environment said at import."""
    return JsonPlusSerializer(allowed_msgpack_modules=None, allowed_json_modules=None)


def _nothing() -> None:
    return None


class _Guard:
    """Before every call that reads the head or writes: is the lease still held? Behind each checkpoint: told."""

    check: Check
    on_saved: Callable[[], None]

    def get_tuple(self, config: RunnableConfig) -> Saved | None:
        """See BaseCheckpointSaver."""
        self.check()
        return super().get_tuple(config)  # pyright: ignore[reportAttributeAccessIssue] - mixed into a saver

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See BaseCheckpointSaver."""
        self.check()
        saved = super().put(config, checkpoint, metadata, new_versions)  # pyright: ignore[reportAttributeAccessIssue]
        self.on_saved()
        return saved

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See BaseCheckpointSaver."""
        self.check()
        super().put_writes(config, writes, task_id, task_path)  # pyright: ignore[reportAttributeAccessIssue]

    # For ainvoke. In the loop's own thread: a millisecond each, and so they commit in the order of their calls.

    async def aget_tuple(self, config: RunnableConfig) -> Saved | None:
        """See BaseCheckpointSaver."""
        return self.get_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See BaseCheckpointSaver."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See BaseCheckpointSaver."""
        self.put_writes(config, writes, task_id, task_path)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[Saved]:
        """See BaseCheckpointSaver."""
        for each in self.list(config, **options):  # pyright: ignore[reportAttributeAccessIssue]
            yield each


class FencedPostgresSaver(_Guard, PostgresSaver):
    """PostgresSaver that asks for the lease first."""

    def __init__(self, pool: Pool, check: Check, on_saved: Callable[[], None] = _nothing) -> None:
        super().__init__(pool, serde=serializer())
        self.check, self.on_saved = check, on_saved


class FencedSqliteSaver(_Guard, SqliteSaver):
    """SqliteSaver that asks for the lease first, and whose failed calls leave nothing behind."""

    def __init__(self, connection: sqlite3.Connection, check: Check, on_saved: Callable[[], None] = _nothing) -> None:
        super().__init__(connection, serde=serializer())
        self.check, self.on_saved = check, on_saved

    @contextmanager
    def cursor(self, transaction: bool = True) -> Generator[sqlite3.Cursor]:
        """All or nothing: the saver commits also after an error, and half of a task's writes look like all of them."""
        with super().cursor(transaction=False) as cursor:
            try:
                yield cursor
            except BaseException:
                self.conn.rollback()
                raise
            if transaction:
                self.conn.commit()


def set_up(store: Store) -> None:
    """Bring our schema and the checkpointer's tables to this version, every one of them behind the fence.

    Safe in many processes at once; touches nothing where all is in place. Raises the errors of
    `onward_ledger.database`, and ServiceUnreachable when another process does not come to an end with it.
    """
    with closing(store.database("onward set-up")) as database:
        set_up_through(database, store)


def set_up_through(database: Database, store: Store) -> None:
    """The same, through a database of the store that the caller goes on with."""
    if isinstance(store, PostgresStore):
        assert isinstance(database, PostgresDatabase)
        with database.connection() as connection:
            if _postgres_is_ready(connection, database.version):
                return
        database.migrate()
        with database.connection() as connection:
            _set_up_postgres(connection, database.version)
    else:
        assert isinstance(store, SqliteStore)
        database.migrate()
        _set_up_sqlite(store)


@contextmanager
def open_saver(
    store: Store, run_id: str, epoch: int, holder_id: int, check: Check, on_saved: Callable[[], None] = _nothing
) -> Generator[Saver]:
    """The checkpointer of one drive; `on_saved` is called behind each checkpoint.

    Raises ServiceUnreachable where its fence does not reach the database.
    """
    if isinstance(store, PostgresStore):
        with _postgres_pool(store, run_id, epoch, holder_id) as pool:
            _assert_fence_arrived(pool, store, fence(run_id, epoch))
            yield FencedPostgresSaver(pool, check, on_saved)
    else:
        assert isinstance(store, SqliteStore)
        with closing(fenced_sqlite(store, fence(run_id, epoch))) as connection:
            yield FencedSqliteSaver(connection, check, on_saved)


def fence(run_id: str, epoch: int) -> str:
    """What a connection says it writes for."""
    return f"{run_id}:{epoch}"


# --- Postgres -------------------------------------------------------------------------------------------------------


@contextmanager
def _postgres_pool(store: PostgresStore, run_id: str, epoch: int, holder_id: int) -> Generator[Pool]:
    options = {"search_path": store.schema, "onward.fence": fence(run_id, epoch)}
    pool = Pool(
        connection_string(store.dsn, driver_name(run_id, holder_id), options),
        min_size=0,
        max_size=2,
        open=False,
        timeout=10,
        kwargs={"autocommit": True, "prepare_threshold": None, "row_factory": dict_row},
        check=check_alive,
        name=f"checkpoints of {run_id}",
    )
    with pool:
        yield pool


def _assert_fence_arrived(pool: Pool, store: PostgresStore, expected: str) -> None:
    """A pooler may drop start-up options."""
    with pool.connection() as connection:
        # Without autocommit every checkpoint would be lost silently.
        assert connection.autocommit, "checkpoints need autocommit"
        found = PostgresTransaction(connection, POSTGRES_ENGINE).one("my_fence")
    if found != {"fence": expected, "schema": store.schema}:
        raise ServiceUnreachable(BEHIND_POOLER)


def _set_up_postgres(connection: Connection[dict[str, Any]], version: int) -> None:
    engine = PostgresTransaction(connection, POSTGRES_ENGINE)
    with setup_lock(engine):
        if not _postgres_is_ready(connection, version):
            PostgresSaver(connection).setup()
            engine.run("install_fence")


def _postgres_is_ready(connection: Connection[dict[str, Any]], version: int) -> bool:
    """Whether our schema, the checkpointer's and the fence are what this version makes of them: one question."""
    questions = (statement("schema_version"), statement("checkpoint_version"), statement("unfenced_tables"))
    try:
        ours, theirs, unfenced = PostgresTransaction(connection, POSTGRES_ENGINE).at_once(*questions)
    except psycopg.errors.UndefinedTable:  # before the first set-up
        return False
    newest = len(PostgresSaver.MIGRATIONS) - 1
    return (ours.row, theirs.row, unfenced.rows) == ({"version": version}, {"version": newest}, [])


@contextmanager
def setup_lock(engine: PostgresTransaction) -> Generator[None]:
    """One process at a time makes tables of others' (the checkpointer's, the queue's) in our schema."""
    _wait_for_setup_lock(engine)
    try:
        yield
    finally:
        engine.one("release_setup_lock")


def _wait_for_setup_lock(engine: PostgresTransaction) -> None:
    deadline = time.monotonic() + _SETUP_PATIENCE_SECONDS
    while True:
        row = engine.one("try_setup_lock")
        if row is not None and row["locked"]:
            return
        if time.monotonic() > deadline:
            raise ServiceUnreachable("Another process has been setting up the database for a minute. Try again.")
        time.sleep(_SETUP_POLL_SECONDS)


# --- SQLite ---------------------------------------------------------------------------------------------------------


def fenced_sqlite(store: SqliteStore, holds: str | None) -> sqlite3.Connection:
    """A connection for checkpoints that says what it writes for.

    Not in autocommit mode: the writes of a task are several rows, and half of them would pass for all of them.
    """
    connection = connect(store.path, {"onward_fence": lambda: holds})
    connection.isolation_level = "IMMEDIATE"
    return connection


def _set_up_sqlite(store: SqliteStore) -> None:
    with closing(fenced_sqlite(store, None)) as connection:
        engine = SqliteTransaction(connection, SQLITE_ENGINE, JSON_COLUMNS)
        SqliteSaver(connection).setup()
        if engine.all("unfenced_tables"):
            connection.execute("begin immediate")
            for name in sorted(SQLITE_ENGINE):
                if name.startswith("fence_"):
                    engine.run(name)
            connection.commit()
        assert not engine.all("unfenced_tables"), "a table with a thread_id has no fence"
