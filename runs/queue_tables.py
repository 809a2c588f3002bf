"""Procrastinate's tables, made in our schema where they are missing. The rest about the queue is `runs.dispatch`."""

from __future__ import annotations

from procrastinate.schema import SchemaManager

from onward_ledger.database import PostgresDatabase
from onward_ledger.database.postgres import PostgresTransaction
from runs.checkpoints import setup_lock
from runs.store import POSTGRES_ENGINE


def set_up_queue(database: PostgresDatabase) -> None:
    """Make the tables. Safe in many processes at once; from then on a queued run writes its own hint."""
    with database.connection() as connection:
        engine = PostgresTransaction(connection, POSTGRES_ENGINE)
        if _has_queue(engine):
            return
        with setup_lock(engine):
            if not _has_queue(engine):
                with connection.transaction():
                    connection.execute(SchemaManager.get_schema())


def _has_queue(engine: PostgresTransaction) -> bool:
    row = engine.one("has_queue")
    return row is not None and bool(row["found"])
