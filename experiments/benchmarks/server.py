"""Looking at the Postgres server from outside: how much it wrote, how often it committed, what is in its tables."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]

DURABILITY = ("fsync", "synchronous_commit", "full_page_writes")


def _value(connection: Connection, statement: sql.SQL | sql.Composed) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def wal_position(connection: Connection) -> int:
    """Bytes of write-ahead log so far, flushed or not."""
    return int(_value(connection, sql.SQL("select pg_current_wal_insert_lsn() - '0/0'")))


def transactions(connection: Connection) -> int:
    """Transactions so far that wrote or locked something; exact at once, as the server's statistics are not.

    It is the next transaction number, and looking takes none.
    """
    return int(_value(connection, sql.SQL("select pg_snapshot_xmax(pg_current_snapshot())::text")))


def rows(connection: Connection) -> dict[str, int]:
    """Rows of every table of ours and of plain LangGraph's, by `schema.table`."""
    tables = connection.execute(
        "select table_schema, table_name from information_schema.tables"
        " where table_type = 'BASE TABLE' and table_schema in ('onward', 'onward_ledger', 'plain') order by 1, 2"
    ).fetchall()
    return {
        f"{schema}.{table}": int(
            _value(connection, sql.SQL("select count(*) from {}").format(sql.Identifier(schema, table)))
        )
        for schema, table in tables
    }


def durability(connection: Connection) -> dict[str, str]:
    """Version, and what stands between a commit and the disk."""
    shown = {name: _value(connection, sql.SQL("show {}").format(sql.Identifier(name))) for name in DURABILITY}
    return {"postgres": str(_value(connection, sql.SQL("show server_version"))), **shown}
