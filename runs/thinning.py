"""Thinning the histories of runs that nobody drives: of each only the checkpoint stays from which it goes on.

A run that waits for weeks keeps the whole way to where it waits. What it needs is its last checkpoint, that one's
pending writes and the values that it refers to. On Postgres LangGraph's own `prune(strategy="keep_latest")` knows what
that is, also in subgraphs; for SQLite the same rule stands in `sql/sqlite/engine/thinning.sql`.

The run row and the lease row are locked meanwhile, so no driver begins; a run that is driven, or that somebody holds,
is passed over. A thinned run goes on as before, and can be forked from its last checkpoint only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from onward_ledger.database import Database, Row, Transaction, Unreachable
from onward_ledger.database.postgres import connection_string
from onward_ledger.database.sqlite import SqliteTransaction
from onward_ledger.database.statements import load_statements
from runs.checkpoints import fence, fenced_sqlite, serializer
from runs.retention import PAGE, Kept
from runs.store import JSON_COLUMNS, SQL, SQLITE_ENGINE, PostgresStore, SqliteStore, Store


@dataclass(frozen=True, kw_only=True)
class Thinned:
    """A run whose history went, or would. `checkpoints`: how many; a look may say fewer than then go."""

    run_id: str
    status: str
    checkpoints: int


@dataclass(frozen=True, kw_only=True)
class Thinning:
    """What one call thinned, or would. `more`: the limit was reached before the end."""

    thinned: tuple[Thinned, ...] = ()
    kept: tuple[Kept, ...] = ()
    more: bool = False


class _Deltas(Exception):
    """The graph rebuilds values from older checkpoints."""


def thin_idle(store: Store, database: Database, before: datetime, *, limit: int, apply: bool) -> Thinning:
    """Thin runs that wait, are queued or have ended, and that nothing has changed since that instant."""
    thinned: list[Thinned] = []
    kept: list[Kept] = []
    for idle in _idle_runs(database, before):
        if len(thinned) >= limit:
            return Thinning(thinned=tuple(thinned), kept=tuple(kept), more=True)
        run_id: str = idle["run_id"]
        try:
            gone = _thin(store, database, run_id, before) if apply else idle["checkpoints"] - idle["heads"]
        except _Deltas:
            kept.append(Kept(run_id=run_id, reason="deltas"))
            continue
        if gone is None:
            kept.append(Kept(run_id=run_id, reason="in_use"))
        else:
            thinned.append(Thinned(run_id=run_id, status=idle["status"], checkpoints=gone))
    return Thinning(thinned=tuple(thinned), kept=tuple(kept))


def _idle_runs(database: Database, before: datetime) -> Iterator[Row]:
    if not database.read("has_checkpoint_tables")[0]["found"]:
        return
    after = ""
    while page := database.read("idle_runs", before=before, after_id=after, limit=PAGE):
        yield from page
        after = page[-1]["run_id"]


def _thin(store: Store, database: Database, run_id: str, before: datetime) -> int | None:
    """How many checkpoints went. None: the run is not idle any more, or somebody holds it."""
    if isinstance(store, PostgresStore):
        return _thin_postgres(store, database, run_id, before)
    assert isinstance(store, SqliteStore)
    return _thin_sqlite(store, run_id, before)


def _locked_epoch(tx: Transaction, run_id: str, before: datetime) -> int | None:
    """Run row, then lease row; the epoch, which a run with checkpoints has."""
    if tx.one("lock_idle_run", run_id=run_id, before=before) is None:
        return None
    lease = tx.one("lock_idle_lease", run_id=run_id)
    return lease["epoch"] if lease is not None else None


def _count(tx: Transaction, run_id: str) -> int:
    row = tx.one("count_checkpoints", run_id=run_id)
    assert row is not None
    return row["checkpoints"]


def _thin_postgres(store: PostgresStore, database: Database, run_id: str, before: datetime) -> int | None:
    """The checkpointer thins in a transaction of its own, while this one keeps every driver away."""
    with database.transaction() as tx:
        epoch = _locked_epoch(tx, run_id, before)
        if epoch is None:
            return None
        there = _count(tx, run_id)
        options = {"search_path": store.schema, "onward.fence": fence(run_id, epoch)}
        try:
            with psycopg.Connection[dict[str, Any]].connect(
                connection_string(store.dsn, f"onward thinning of {run_id}", options),
                autocommit=True,
                row_factory=dict_row,
            ) as connection:
                PostgresSaver(connection, serde=serializer()).prune([run_id], strategy="keep_latest")
        except NotImplementedError as error:
            raise _Deltas from error
        except psycopg.OperationalError as error:
            raise Unreachable(f"The checkpoints of run {run_id} could not be thinned: {error}") from error
        return there - _count(tx, run_id)


def _thin_sqlite(store: SqliteStore, run_id: str, before: datetime) -> int | None:
    with closing(fenced_sqlite(store, None)) as looking:
        epoch = SqliteTransaction(looking, load_statements(SQL / "sqlite"), JSON_COLUMNS).one("epoch_of", run_id=run_id)
    if epoch is None:
        return None
    with closing(fenced_sqlite(store, fence(run_id, epoch["epoch"]))) as connection:
        connection.execute("begin immediate")
        tx = SqliteTransaction(connection, {**load_statements(SQL / "sqlite"), **SQLITE_ENGINE}, JSON_COLUMNS)
        if _locked_epoch(tx, run_id, before) != epoch["epoch"]:
            return None  # closing the connection rolls back
        if tx.all("uses_deltas", run_id=run_id)[0]["found"]:
            raise _Deltas
        tx.run("thin_writes", run_id=run_id)
        gone = tx.run("thin_checkpoints", run_id=run_id)
        tx.run("forget_parents", run_id=run_id)
        connection.commit()
        return gone
