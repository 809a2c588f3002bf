"""The databases behind named statements: what a failure leaves, and what it is called."""

import sqlite3
from pathlib import Path

import psycopg
import psycopg_pool
import pytest

from onward_ledger.action import Status
from onward_ledger.database import PostgresDatabase, SqliteDatabase, Unreachable
from tests.support.ledger import open_bed, shared_database


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "schema.sql").write_text(
        "create table parent (id integer primary key);\n"
        "create table child (parent integer references parent deferrable initially deferred, note text);\n"
    )
    (folder / "statements.sql").write_text(
        "-- name: add_orphan\ninsert into child (parent) values (7)\n"
        "-- name: add_note\ninsert into child (note) values (:note)\n"
        "-- name: children\nselect * from child\n"
    )
    return folder


@pytest.fixture
def database(tmp_path, folder):
    database = SqliteDatabase(tmp_path / "x.db", folder=folder, json_columns=frozenset())
    database.migrate()
    yield database
    database.close()


def children(database):
    with database.reading() as tx:
        return tx.all("children")


def test_a_commit_that_fails_is_rolled_back_and_the_next_one_works(database):
    with pytest.raises(sqlite3.IntegrityError), database.transaction() as tx:
        tx.run("add_orphan")
    assert children(database) == []
    with database.transaction() as tx:
        tx.run("add_note", note="x")
    assert len(children(database)) == 1


def test_a_full_disk_is_unreachable_and_leaves_nothing_half_done(database):
    """SQLite says the same when the file may not grow as when the disk is full."""
    database._connection.execute("pragma max_page_count = 6")
    with pytest.raises(Unreachable, match="full"), database.transaction() as tx:
        for _ in range(100):
            tx.run("add_note", note="x" * 1000)
    assert children(database) == []
    database._connection.execute("pragma max_page_count = 1000000")
    with database.transaction() as tx:
        tx.run("add_note", note="x")
    assert len(children(database)) == 1


def test_another_writer_is_told_as_such(database, tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "x.db", isolation_level=None) as other:
        other.execute("begin immediate")
        database._connection.execute("pragma busy_timeout = 20")
        with pytest.raises(Unreachable, match="locked"), database.transaction():
            pass
        assert children(database) == [], "a reader waits for no writer"
        database.migrate()  # nor does one that finds the schema as it should be
    other.close()


def test_a_file_that_is_no_database_is_unreachable(tmp_path, folder):
    (tmp_path / "no.db").write_bytes(b"this is a text, and long enough to be looked at" * 40)
    with pytest.raises(Unreachable, match="not a database"):
        SqliteDatabase(tmp_path / "no.db", folder=folder, json_columns=frozenset())


def test_a_dead_connection_is_replaced_at_once(request, tmp_path, monkeypatch):
    """The pool's own check would wait a second after each dead connection."""
    monkeypatch.setattr(psycopg_pool.pool, "sleep", lambda seconds: pytest.fail(f"the pool waits {seconds} s"))
    with open_bed("postgres", request, tmp_path) as bed:
        bed.put(bed.intent("before"))
        with psycopg.connect(shared_database(request), autocommit=True) as admin:
            admin.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where application_name = 'onward-ledger' and datname = current_database()"
            )
        assert bed.put(bed.intent("after")).status is Status.SUCCEEDED


def test_a_postgres_that_is_not_there_is_unreachable(tmp_path, folder):
    database = PostgresDatabase("postgresql://127.0.0.1:9/x", schema="s", folder=folder, application_name="t")
    database._pool.timeout = 0.2
    with pytest.raises(Unreachable, match="does not answer"):
        database.now()
    database.close()
