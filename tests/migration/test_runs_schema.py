"""The runs' schema: made once, upgraded by numbered migrations, refused when newer; the same tables on both engines."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from onward_ledger.database import PostgresDatabase, SchemaTooNew, SqliteDatabase
from onward_ledger.database.statements import load_schema
from runs.checkpoints import set_up
from runs.store import SQL, PostgresStore, SqliteStore

pytest_plugins = ("tests.support.runs_fixtures",)

FIRST = Path(__file__).parent / "runs"


def migrate(store):
    with closing(store.database()) as database:
        database.migrate()


@pytest.fixture(params=["postgres", "sqlite"])
def empty_store(request, tmp_path):
    """A store in which nothing is."""
    if request.param == "postgres":
        return PostgresStore(request.getfixturevalue("database_url"))
    return SqliteStore(tmp_path / "onward.sqlite", tmp_path / "locks")


def describe(store):
    """Every object of the schema with its definition."""
    if store.kind == "sqlite":
        with closing(sqlite3.connect(store.path)) as connection:
            return sorted(connection.execute("select type, name, sql from sqlite_master").fetchall(), key=str)
    with psycopg.connect(store.dsn) as connection:
        parts = [
            "select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns "
            "where table_schema = 'onward'",
            "select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint "
            "where connamespace = 'onward'::regnamespace",
            "select indexname, indexdef from pg_indexes where schemaname = 'onward'",
            "select proname, pg_get_functiondef(oid) from pg_proc where pronamespace = 'onward'::regnamespace",
            "select viewname, definition from pg_views where schemaname = 'onward'",
            "select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
        ]
        return [sorted(connection.execute(part).fetchall(), key=str) for part in parts]


def test_set_up_twice_changes_nothing(empty_store):
    set_up(empty_store)
    first = describe(empty_store)
    set_up(empty_store)
    assert describe(empty_store) == first


def normalised(text):
    """Without comments and layout: SQLite keeps the text of a statement, and an added column has its own."""
    text = re.sub(r"--.*?(\\n|$)", "", str(text)).replace("\\n", " ")
    return re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", text)).strip()


def first_version(store, tmp_path):
    """A database as the first version made it."""
    folder = tmp_path / f"{store.kind}_1"
    folder.mkdir()
    (folder / "schema.sql").write_text((FIRST / f"{store.kind}_1.sql").read_text())
    if store.kind == "postgres":
        return PostgresDatabase(store.dsn, schema=store.schema, folder=folder, application_name="test")
    return SqliteDatabase(store.path, folder=folder, json_columns=frozenset())


def test_the_schema_is_the_sum_of_its_migrations(empty_store, tmp_path, request):
    version, _, migrations = load_schema(SQL / empty_store.kind)
    assert sorted(migrations) == list(range(2, version + 1))
    with closing(first_version(empty_store, tmp_path)) as old:
        old.migrate()
    migrate(empty_store)
    upgraded = describe(empty_store)
    if empty_store.kind == "postgres":
        with psycopg.connect(empty_store.dsn, autocommit=True) as connection:
            connection.execute("drop schema onward cascade")
    else:
        empty_store.path.unlink()
    migrate(empty_store)
    assert [normalised(part) for part in upgraded] == [normalised(part) for part in describe(empty_store)]


def test_a_newer_schema_is_refused_and_left_alone(empty_store):
    migrate(empty_store)
    if empty_store.kind == "postgres":
        with psycopg.connect(empty_store.dsn) as connection:
            connection.execute("update onward.schema_version set version = 99")
    else:
        with closing(sqlite3.connect(empty_store.path)) as connection:
            connection.execute("pragma user_version = 99")
    before = describe(empty_store)
    with pytest.raises(SchemaTooNew, match="version 99"):
        set_up(empty_store)
    assert describe(empty_store) == before


def columns(schema: str) -> dict[str, list[str]]:
    """Tables and their columns, as a schema file says."""
    found = {}
    column = re.compile(r"([a-z_]+)\s+(text|integer|bigint|real|run_status|jsonb|timestamptz|double)")
    for name, body in re.findall(r"create table (\w+) \((.*?)\n\)", schema, re.DOTALL):
        lines = [line.strip() for line in re.sub(r"--.*", "", body).splitlines()]
        found[name] = [match.group(1) for line in lines if (match := column.match(line))]
    return found


def test_both_engines_have_the_same_tables_and_columns():
    postgres, sqlite = (columns((SQL / engine / "schema.sql").read_text()) for engine in ("postgres", "sqlite"))
    assert postgres == sqlite
    assert sorted(postgres) == [
        "answers",
        "barred",
        "cursors",
        "events",
        "holders",
        "leases",
        "runs",
        "workers",
    ]
    assert len(postgres["runs"]) == 34


def test_no_statement_asks_the_wrong_clock():
    """`now()` stands still in a transaction, and tests could not set it."""
    for file in Path(SQL).rglob("*.sql"):
        text = re.sub(r"--.*", "", file.read_text())
        assert not re.search(r"(?<!onward_)\bnow\(\)|current_timestamp", text), file
