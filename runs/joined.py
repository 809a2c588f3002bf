"""Checkpoints and rows in one commit.

A driver writes a checkpoint, then says so in the run's row, and whoever comes after a kill in between finds its way by
the checkpoint. Where the row says how a checkpoint is to be read (which workflow version, whether the run exists at
all), there must be no in-between. Runs and checkpoints lie in one schema or file, so a transaction can hold both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from langgraph.checkpoint.base import CheckpointTuple as Saved
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from onward_ledger.database import Transaction
from onward_ledger.database.postgres import PostgresTransaction
from onward_ledger.database.sqlite import SqliteTransaction
from runs.checkpoints import Saver, serializer
from runs.store import POSTGRES_ENGINE


@contextmanager
def saver_in(tx: Transaction, holds: str | None = None) -> Generator[Saver]:
    """The checkpointer on the transaction's own connection: what it writes comes and goes with the rows.

    `holds` is what it writes for (`runs.checkpoints.fence`), an epoch that this transaction has taken; None for a
    thread that no driver has had, and for reading.
    """
    if isinstance(tx, PostgresTransaction):
        tx.with_statements(POSTGRES_ENGINE).one("hold_fence_here", fence=holds or "")
        yield PostgresSaver(tx.connection, serde=serializer())
        return
    assert isinstance(tx, SqliteTransaction)
    tx.connection.create_function("onward_fence", -1, lambda: holds)
    try:
        yield _JoinedSqliteSaver(tx.connection)
    finally:
        tx.connection.create_function("onward_fence", -1, None)  # without it no checkpoint can be written


class _JoinedSqliteSaver(SqliteSaver):
    """SqliteSaver that leaves the commit to whoever has begun."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, serde=serializer())
        self.is_setup = True  # its set-up would commit

    @contextmanager
    def cursor(self, transaction: bool = True) -> Generator[sqlite3.Cursor]:
        """See SqliteSaver."""
        with super().cursor(transaction=False) as cursor:
            yield cursor


def head_of(saver: Saver, run_id: str) -> Saved | None:
    """The newest checkpoint of a run; None for one that has not begun."""
    return saver.get_tuple({"configurable": {"thread_id": run_id, "checkpoint_ns": ""}})
