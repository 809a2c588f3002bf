"""Nothing but one plain SELECT runs, and two fences say so: the syntax tree, and DuckDB's locked configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import psutil
import pytest

from tools import query_rules, query_run
from tools.errors import QueryError
from tools.query import QueryServer, TableFile


@pytest.fixture(scope="module")
def server() -> Iterator[QueryServer]:
    with QueryServer() as queries:
        yield queries


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder with files that a query would like to read."""
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (tmp_path / "secret.json").write_text('[{"a": 1}]')
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "secret.parquet")
    return tmp_path


FORBIDDEN = {
    "read_csv": "SELECT * FROM read_csv('{at}/secret.csv')",
    "read_csv in a subquery": "SELECT (SELECT count(*) FROM read_csv_auto('{at}/secret.csv'))",
    "sniff_csv": "SELECT * FROM sniff_csv('{at}/secret.csv')",
    "read_parquet": "SELECT * FROM read_parquet('{at}/secret.parquet')",
    "parquet_metadata": "SELECT * FROM parquet_metadata('{at}/secret.parquet')",
    "read_json": "SELECT * FROM read_json('{at}/secret.json')",
    "read_text": "SELECT * FROM read_text('{at}/secret.csv')",
    "read_blob": "SELECT * FROM read_blob('{at}/secret.csv')",
    "read_duckdb": "SELECT * FROM read_duckdb('{at}/secret.csv')",
    "glob": "SELECT * FROM glob('/*')",
    "file as a table": "SELECT * FROM '{at}/secret.csv'",
    "query": "SELECT * FROM query('SELECT * FROM ''{at}/secret.csv''')",
    "query_table": "SELECT * FROM query_table('{at}/secret.csv')",
    "serialized": "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "pointer": "SELECT * FROM arrow_scan(1::POINTER, 1::POINTER, 1::POINTER)",
    "python": "SELECT * FROM python_map_function(1)",
    "logging": "SELECT * FROM enable_logging(storage='file', storage_path='{at}/out')",
    "external resource": "SELECT * FROM create_external_resource('x')",
    "settings": "SELECT * FROM duckdb_settings()",
    "secrets": "SELECT * FROM which_secret('s3://x', 's3')",
    "pragma function": "SELECT * FROM pragma_table_info('Sales')",
    "insert in a select": 'WITH x AS (INSERT INTO "Sales" SELECT * FROM "Sales" RETURNING 1) SELECT * FROM x',
    "delete in a select": 'WITH x AS (DELETE FROM "Sales" RETURNING 1) SELECT * FROM x',
    "copy to": "COPY \"Sales\" TO '{at}/out'",
    "copy query to": "COPY (SELECT 1) TO '{at}/out' (FORMAT parquet)",
    "copy from": "COPY \"Sales\" FROM '{at}/secret.csv'",
    "attach": "ATTACH '{at}/out' AS other",
    "detach": "DETACH memory",
    "use": "USE memory",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "pragma": "PRAGMA database_list",
    "set": "SET threads = 8",
    "set variable": "SET VARIABLE x = 1",
    "reset": "RESET lock_configuration",
    "call": "CALL pragma_version()",
    "export": "EXPORT DATABASE '{at}/out'",
    "import": "IMPORT DATABASE '{at}/out'",
    "create function": "CREATE FUNCTION f(x) AS x + 1",
    "create macro": "CREATE MACRO f(x) AS TABLE SELECT * FROM read_csv(x)",
    "create table": "CREATE TABLE t AS SELECT 1",
    "create view": "CREATE VIEW v AS SELECT 1",
    "create secret": "CREATE SECRET (TYPE s3)",
    "drop": 'DROP TABLE "Sales"',
    "alter": 'ALTER TABLE "Sales" RENAME TO x',
    "insert": 'INSERT INTO "Sales" (pieces) VALUES (1)',
    "update": 'UPDATE "Sales" SET pieces = 0',
    "delete": 'DELETE FROM "Sales"',
    "begin": "BEGIN",
    "checkpoint": "CHECKPOINT",
    "vacuum": "VACUUM",
    "explain": "EXPLAIN ANALYZE SELECT 1",
    "prepare": "PREPARE p AS SELECT 1",
    "execute": "EXECUTE p",
    "two statements": "SELECT 1; SELECT 2",
    "a second statement": "SELECT 1; COPY (SELECT 1) TO '{at}/out'",
    "setting, then select": "SET enable_external_access = true; SELECT 1",
    "nothing": "",
    "a comment": "-- SELECT 1",
    "clock": "SELECT now()",
    "clock word": "SELECT current_date",
    "clock, hidden": "SELECT age(DATE '2024-01-01')",
    "chance": "SELECT random()",
    "sample": "SELECT * FROM Sales USING SAMPLE 1",
    "waiting": "SELECT sleep_ms(100000)",
    "current_setting": "SELECT current_setting('secret_directory')",
    "write_log": "SELECT write_log('x')",
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_everything_but_one_plain_select_is_refused(server, secret, name):
    sales = TableFile(sheet="Sales", path=secret / "secret.parquet")
    before = sorted(secret.iterdir())
    with pytest.raises(QueryError) as caught:
        server.run([sales], FORBIDDEN[name].format(at=secret))
    assert caught.value.kind == "refused"
    assert caught.value.message
    assert sorted(secret.iterdir()) == before


# What reaches for files, settings or extensions, given to DuckDB itself, past the rules on the syntax tree.
REACHING = """
    read_csv; read_csv in a subquery; sniff_csv; read_parquet; parquet_metadata; read_json; read_text; read_blob; glob
    file as a table; query; logging; copy query to; copy from; attach; install; load; set; reset; export; import
    setting, then select
"""
REACHING_NAMES = [name.strip() for line in REACHING.strip().splitlines() for name in line.split(";")]


@pytest.fixture
def confined(secret: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with query_run.connect(1 << 28) as connection:
        query_run.load(connection, "Sales", str(secret / "secret.parquet"))
        query_run.confine(connection)
        yield connection


@pytest.mark.parametrize("name", REACHING_NAMES)
def test_the_locked_database_refuses_too(confined, secret, name):
    before = sorted(secret.iterdir())
    with pytest.raises(duckdb.Error):
        confined.execute(FORBIDDEN[name].format(at=secret)).fetchall()
    assert sorted(secret.iterdir()) == before


def test_python_variables_are_no_tables(confined):
    frame = pl.DataFrame({"a": [1]})
    with pytest.raises(duckdb.CatalogException):
        confined.execute("SELECT * FROM frame")
    with duckdb.connect() as open_to_python, pytest.raises(duckdb.InvalidInputException, match="Python object 'frame'"):
        open_to_python.execute("SELECT * FROM frame")  # found, only not readable without pyarrow
    assert frame.height == 1


def test_the_same_reading_works_before_the_lock(secret):
    """The refusals above are the lock's doing: an open connection reads the very same files."""
    with query_run.connect(1 << 28) as connection:
        for name in ("read_csv", "read_parquet", "read_json", "read_text", "glob", "file as a table"):
            assert connection.execute(FORBIDDEN[name].format(at=secret)).fetchall()


def test_environment_variables_cannot_be_read(server):
    with pytest.raises(QueryError, match="getenv does not exist"):  # DuckDB's own shell has it, the library has not
        server.run([], "SELECT getenv('PATH')")


def test_half_a_character_is_refused_before_anything_is_sent(server):
    with pytest.raises(QueryError, match="not valid Unicode") as caught:
        server.run([], "SELECT '\ud800'")
    assert caught.value.kind == "refused"
    assert server.run([], "SELECT '\U0001f600\x00'").rows == (("\U0001f600\x00",),)


def test_credentials_do_not_reach_the_server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not for foreign SQL")
    with QueryServer() as queries:
        queries.start()
        environment = psutil.Process(queries.pid).environ()
    assert environment["TZ"] == "UTC"
    assert "OPENAI_API_KEY" not in environment


def test_the_rules_know_every_function_that_this_duckdb_calls_volatile():
    with duckdb.connect() as connection:
        volatile = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
        names = {name for (name,) in connection.execute(volatile).fetchall()}
    assert "random" in names
    assert names - query_rules.UNREPEATABLE == {"error"}
