"""A fence for a stock PostgresSaver: of two processes that drive one thread, only the newer one writes checkpoints.

    from onward_ledger.langgraph import fence

    fence.install(conninfo)                        # once, behind the checkpointer's setup()
    epoch = fence.take(conninfo, thread_id)        # whoever begins to drive, or takes over
    with PostgresSaver.from_conn_string(fence.fenced(conninfo, thread_id, epoch)) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke(input, {"configurable": {"thread_id": thread_id}}, durability="sync")

LangGraph itself has no lock: a process that was stopped and wakes behind its replacement forks the thread, and its late
checkpoint becomes the head. Here the tables refuse it (SQLSTATE `REFUSED`). Threads that nobody took pass untouched.

The epoch belongs to `{"configurable": {"onward_epoch": epoch}}` too, where an EffectGuard guards the tools.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from onward_ledger.database.postgres import connection_string
from onward_ledger.database.statements import load_statements
from onward_ledger.errors import BadRequest, Conflict

REFUSED = "OW001"  # the SQLSTATE of a refused write

_SQL = load_statements(Path(__file__).parent)
# A take-over that waits longer than this is kept waiting by a driver that hangs in the middle of a write.
_BLOCKED_MS = 100
# What it waits for at most: then something else than an earlier driver holds the row.
PATIENCE_SECONDS = 5.0

Connection = psycopg.Connection[dict[str, Any]]


def install(conninfo: str) -> None:
    """Put the fence on the checkpointer's tables that this connection string finds, and mend what is missing of it.

    Safe in many processes at once, and beside running drivers where all is in place. Behind an upgrade of the
    checkpointer it is called again. Raises BadRequest before the checkpointer's own set-up, and psycopg's errors.
    """
    with _connected(conninfo, "onward fence") as connection:
        schema = _schema_of(connection)
        if not _unfenced(connection):
            return  # making a trigger waits for every open transaction on the table
        with connection.transaction():
            _ask(connection, "lock_install", schema=schema)
            connection.execute(_SQL["make_fence"])
            for table in _unfenced(connection):
                connection.execute(
                    sql.SQL(
                        "create or replace trigger onward_fence before insert or update or delete on {} "
                        "for each row execute function onward_fence_hold()"
                    ).format(sql.Identifier(table))
                )


def take(conninfo: str, thread_id: str, *, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Take the thread for the caller: its new epoch, 1 for the first. From then on every older epoch is refused.

    A former driver that hangs in the middle of a write is cut off: its session is terminated, and the write is lost.
    Raises BadRequest where the fence is missing, Conflict when something else keeps the thread's epoch locked for
    longer than `patience_seconds`, and psycopg's errors.
    """
    with _connected(conninfo, "onward fence") as connection:
        _schema_of(connection)
        if unfenced := _unfenced(connection):
            raise BadRequest(f"There is no fence on {', '.join(unfenced)}. Call fence.install first.")
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                with connection.transaction():
                    _ask(connection, "limit_lock_wait", milliseconds=_BLOCKED_MS)
                    (taken,) = _ask(connection, "take", thread_id=thread_id)
                return int(taken["epoch"])
            except psycopg.errors.LockNotAvailable as error:
                if time.monotonic() > deadline:
                    raise Conflict(
                        f"Another session keeps the epoch of thread {thread_id} locked in an open transaction, and it "
                        "is no driver whose session this role may end. See pg_stat_activity."
                    ) from error
                _ask(connection, "terminate_blockers", application_name=_driver_name(thread_id))


def fenced(conninfo: str, thread_id: str, epoch: int) -> str:
    """The connection string whose connections write for this thread and epoch, and for nothing else.

    For `PostgresSaver.from_conn_string`, a ConnectionPool, or their async forms. What it says is a start-up option, so
    it holds for every connection that a pool makes anew; the application name tells a take-over whose session it is.
    """
    return connection_string(conninfo, _driver_name(thread_id), {"onward.fence": f"{thread_id}:{epoch}"})


def _driver_name(thread_id: str) -> str:
    """The application name of a thread's drivers, of whatever epoch (at most 63 bytes)."""
    return f"onward fence {hashlib.sha256(thread_id.encode()).hexdigest()[:40]}"


def _connected(conninfo: str, application_name: str) -> Connection:
    return Connection.connect(
        connection_string(conninfo, application_name, {}),
        autocommit=True,
        prepare_threshold=None,
        row_factory=dict_row,
    )


def _schema_of(connection: Connection) -> str:
    (place,) = _ask(connection, "place")
    if place["schema"] is None:
        raise BadRequest("There are no checkpoint tables here. Call the checkpointer's setup() first.")
    return str(place["schema"])


def _unfenced(connection: Connection) -> list[str]:
    return [str(row["name"]) for row in _ask(connection, "unfenced")]


def _ask(connection: Connection, name: str, **params: object) -> list[dict[str, Any]]:
    return connection.execute(_SQL[name], params or None).fetchall()
