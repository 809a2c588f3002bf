"""Every row of every table of a lane, before and after: what has changed, and who wrote it.

On Postgres a row is told by its table, its place and the transaction that made this version of it, so that a change
back to the same values is a change. A witness, a trigger on every table, writes down which session made each change,
in the same transaction. On SQLite a row is told by its number and its values; who wrote it nobody knows there.

Left out are tables that say nothing about any run: who drives at all, and where a queue or a look has come to.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from experiments.lane import Lane

SCHEMAS = ("onward", "onward_ledger")
NOT_OF_A_RUN = ("schema_version", "checkpoint_migrations", "holders", "workers", "cursors", "instances", "look_ups")
QUEUE = "procrastinate"

_WITNESS = """
create schema if not exists witness;
create table if not exists witness.written (
    number bigint generated always as identity, pid integer not null, relation text not null, what text not null);
create or replace function witness.write_down() returns trigger language plpgsql as $$
begin
    insert into witness.written (pid, relation, what) values (pg_backend_pid(), tg_table_name, lower(tg_op));
    return null;
end $$;
"""


@dataclass(frozen=True, kw_only=True, order=True)
class Row:
    """One version of one row. `shown` is its beginning, for who reads about it."""

    table: str
    version: str
    shown: str = ""


Rows = frozenset[Row]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What has become of one table."""

    table: str
    made: int
    gone: int
    example: str

    def __str__(self) -> str:
        return f"{self.table}: {self.made} row versions made, {self.gone} gone: {self.example}"


def changes(before: Rows, after: Rows) -> tuple[Change, ...]:
    """What differs, by table."""
    made, gone = after - before, before - after
    tables = sorted({row.table for row in made | gone})
    return tuple(
        Change(
            table=table,
            made=sum(row.table == table for row in made),
            gone=sum(row.table == table for row in gone),
            example=min(row for row in made | gone if row.table == table).shown,
        )
        for table in tables
    )


def read_rows(lane: Lane) -> Rows:
    """Every row that counts, of the runs and of the ledger."""
    if lane.settings.database_url is not None:
        return read_postgres(lane.settings.database_url, SCHEMAS)
    return read_sqlite(lane.settings.sqlite_path) | read_sqlite(lane.settings.ledger_sqlite_path)


# --- Postgres ---------------------------------------------------------------------------------------------------------


def read_postgres(dsn: str, schemas: Iterable[str]) -> Rows:
    """Every row that counts in these schemas, in one snapshot."""
    with psycopg.connect(dsn) as connection:
        connection.execute("set transaction isolation level repeatable read")
        found: set[Row] = set()
        for schema, table in _tables(connection, schemas):
            query = sql.SQL("select ctid::text || ' by ' || xmin::text, left(t::text, 160) from {}.{} t")
            for version, shown in connection.execute(query.format(sql.Identifier(schema), sql.Identifier(table))):
                found.add(Row(table=table, version=version, shown=shown))
    return frozenset(found)


def _tables(connection: psycopg.Connection[Any], schemas: Iterable[str]) -> list[tuple[str, str]]:
    found = connection.execute(
        "select schemaname, tablename from pg_tables where schemaname = any(%s) order by 1, 2", (list(schemas),)
    ).fetchall()
    return [(schema, table) for schema, table in found if table not in NOT_OF_A_RUN and not table.startswith(QUEUE)]


def call_witness(dsn: str) -> None:
    """Put the witness on every table that counts; safe to do again."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_WITNESS)
        for schema, table in _tables(connection, SCHEMAS):
            connection.execute(
                sql.SQL(
                    "create or replace trigger witness after insert or update or delete on {}.{} "
                    "for each row execute function witness.write_down()"
                ).format(sql.Identifier(schema), sql.Identifier(table))
            )


def written_by(dsn: str | None, pids: Collection[int]) -> Counter[str]:
    """What these sessions have written and committed so far, by table; nothing where there is no witness."""
    if dsn is None or not pids:
        return Counter()
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select relation, count(*) from witness.written where pid = any(%s) group by 1", (list(pids),)
        ).fetchall()
    return Counter({table: int(count) for table, count in found})


# --- SQLite -----------------------------------------------------------------------------------------------------------


def read_sqlite(path: Path) -> Rows:
    """Every row that counts in this file, in one snapshot."""
    with _reading(path) as connection:
        names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        kept = [name for name in names if name not in NOT_OF_A_RUN and not name.startswith("sqlite_")]
        return frozenset(
            Row(table=name, version=repr(row), shown=repr(row)[:160])
            for name in kept
            for row in connection.execute(f'select * from "{name}"').fetchall()  # noqa: S608 - the file's own table
        )


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.execute("begin")
        yield connection
