"""Golden checkpoints: runs of a released workflow version, as they lay in the database on the day of its release.

One file per version and store, `golden/<version>/<store>.json.gz`, made by `python -m tests.migration.make_golden` and
never made again for a version that was released. It holds three runs on the same input: one that waits for an approval,
one that was stopped in the middle of its analysis, and one that has ended.

    about      when and with which packages it was made
    digest     the digest of the report that each of the runs ends with
    runs       their ids: waiting, analyzing, finished
    objects    every object of theirs by key, in base64
    tables     Postgres: the rows of every table of ours, by schema and table; bytea as hexadecimal
    files      SQLite: the files themselves, in base64
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from onward_ledger.objects import Objects
from onward_ledger.store import open_store as open_ledger_store
from runs.checkpoints import set_up
from runs.local_ledger import ledger_id
from runs.settings import Settings
from runs.store import PostgresStore

StoreKind = Literal["postgres", "sqlite"]

GOLDEN = Path(__file__).parent / "golden"
STORES: tuple[StoreKind, ...] = ("postgres", "sqlite")
SCHEMAS = ("onward", "onward_ledger")
FILES = ("onward.sqlite", "ledger.sqlite")

# What every installation has of its own: the numbers of its schema, and the queue, whose jobs are hints.
_NOT_OURS = ("schema_version", "checkpoint_migrations", "procrastinate_%")

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Golden:
    """The runs of one golden file, in a place of their own."""

    settings: Settings
    runs: Mapping[str, str]
    digest: str


def path_of(version: str, store: StoreKind) -> Path:
    """Where the golden file lies."""
    return GOLDEN / version / f"{store}.json.gz"


def write(version: str, store: StoreKind, content: Json) -> Path:
    """Write a golden file; the same content makes the same bytes."""
    path = path_of(version, store)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def dump(settings: Settings) -> Json:
    """Everything that lies in this installation: objects, and rows or files."""
    objects = Objects(settings.objects_url)
    content: Json = {"objects": {key: _text(objects.read(key)) for key in objects.keys("")}}
    if settings.store == "sqlite":
        return content | {"files": {name: _text((settings.home / name).read_bytes()) for name in FILES}}
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        tables = {f"{schema}.{table}": _rows(connection, schema, table) for schema, table in _tables(connection)}
    return content | {"tables": {name: rows for name, rows in tables.items() if rows}}


def load(version: str, settings: Settings) -> Golden:
    """Put a golden file's runs into an installation in which nothing is yet, as if it had been moved there."""
    content = json.loads(gzip.decompress(path_of(version, settings.store).read_bytes()))
    for key, data in content["objects"].items():
        Objects(settings.objects_url).put_once(key, base64.b64decode(data))
    if settings.store == "sqlite":
        _load_files(settings, content["files"])
    else:
        _load_tables(settings, content["tables"])
    return Golden(settings=settings, runs=content["runs"], digest=content["digest"])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _tables(connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    return connection.execute(
        "select table_schema, table_name from information_schema.tables "
        "where table_schema = any (%s) and table_type = 'BASE TABLE' and not table_name like any (%s) order by 1, 2",
        (list(SCHEMAS), list(_NOT_OURS)),
    ).fetchall()


def _rows(connection: psycopg.Connection[Any], schema: str, table: str) -> list[Json]:
    name = sql.Identifier(schema, table)
    found = connection.execute(sql.SQL("select to_jsonb(t) from {} t order by t::text").format(name)).fetchall()
    return [row for (row,) in found]


def _load_tables(settings: Settings, tables: Mapping[str, list[Json]]) -> None:
    """Rows as they were, into the tables as they are now: what was added to a table since has its default."""
    assert settings.database_url is not None
    set_up(PostgresStore(settings.database_url))
    with closing(open_ledger_store(settings.database_url).database) as ledger:
        ledger.migrate()
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("set session_replication_role = replica")  # neither triggers nor the order of tables matter
        for name, rows in tables.items():
            _insert(connection, *name.split("."), rows)
        connection.execute(
            "update onward.runs set objects = %s, ledger = %s",
            (Objects(settings.objects_url).url, ledger_id(settings)),
        )


def _insert(connection: psycopg.Connection[Any], schema: str, table: str, rows: list[Json]) -> None:
    name, columns = sql.Identifier(schema, table), sql.SQL(", ").join(map(sql.Identifier, rows[0]))
    connection.execute(sql.SQL("delete from {}").format(name))
    connection.execute(
        sql.SQL(
            "insert into {name} ({columns}) overriding system value "
            "select {columns} from jsonb_populate_recordset(null::{name}, %s)"
        ).format(name=name, columns=columns),
        (Jsonb(rows),),
    )
    found = connection.execute(
        "select column_name from information_schema.columns "
        "where table_schema = %s and table_name = %s and is_identity = 'YES'",
        (schema, table),
    ).fetchall()
    for (column,) in found:  # the numbers go on behind those that were given
        connection.execute(
            sql.SQL("select setval(pg_get_serial_sequence(%s, %s), (select max({}) from {}))").format(
                sql.Identifier(column), name
            ),
            (f"{schema}.{table}", column),
        )


def _load_files(settings: Settings, files: Mapping[str, str]) -> None:
    import sqlite3

    for name, data in files.items():
        (settings.home / name).write_bytes(base64.b64decode(data))
    with closing(sqlite3.connect(settings.sqlite_path)) as connection:
        connection.execute("update runs set objects = ?", (Objects(settings.objects_url).url,))
        connection.commit()
