"""What the tests of removal by age look at: every row that names a run, and the ledger that removal asks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg

from onward_ledger.action import Status
from onward_ledger.values import Fence
from runs.retention import Place
from tests.support.runs_world import LEDGER_ID


class KeptLedger:
    """The part of a ledger that removal needs, over the records of another one."""

    def __init__(self, records: Any) -> None:
        self.records = records
        self.closed: list[str] = []

    def actions(self, run_id: str | None = None, status: Status | None = None, **_: Any) -> tuple[Any, ...]:
        assert run_id is not None
        return tuple(action for action in self.records.recorded(run_id) if action.status is status)

    def close_fence(self, run_id: str, *, reason: str, principal: str | None = None) -> Fence:
        self.closed.append(run_id)
        return Fence(run_id=run_id, epoch=1, closed_at=datetime.now(UTC), actions=tuple(self.records.recorded(run_id)))


def place_of(store: Any, database: Any, objects: Any, ledger: Any) -> Place:
    """What removal works with."""
    return Place(
        database=database, objects=objects, ledger=lambda: ledger, made_with=(store.kind, objects.url, LEDGER_ID)
    )


def rows_of(store: Any, run_id: str) -> dict[str, int]:
    """How many rows name the run, by table: every table with a column for a run's or a thread's id."""
    if store.kind == "sqlite":
        with closing(sqlite3.connect(store.path)) as connection:
            tables = connection.execute(
                "select t.name, c.name from sqlite_master t join pragma_table_info(t.name) c "
                "on c.name in ('run_id', 'thread_id', 'queueing_lock') where t.type = 'table'"
            ).fetchall()
            return {
                t: connection.execute(f"select count(*) from {t} where {c} = ?", [run_id]).fetchone()[0]
                for t, c in tables
            }
    with psycopg.connect(store.dsn) as connection:
        connection.execute("set search_path = onward")
        tables = connection.execute(
            "select table_name, column_name from information_schema.columns join information_schema.tables "
            "using (table_schema, table_name) where table_schema = 'onward' and table_type = 'BASE TABLE' "
            "and column_name in ('run_id', 'thread_id', 'queueing_lock')"
        ).fetchall()
        return {
            t: connection.execute(f"select count(*) from {t} where {c} = %s", [run_id]).fetchone()[0] for t, c in tables
        }  # pyright: ignore


def make_unknown(ledger: Any, run_id: str) -> str:
    """Let one recorded action of a run be UNKNOWN; its id."""
    action = ledger.put(run_id, "mail")
    ledger.actions[action.action_id] = replace(action, status=Status.UNKNOWN)
    return action.action_id
