"""The ledger's schema: new databases and upgraded ones are alike, newer ones are refused, both engines say the same.

`ledger/<engine>_1.sql` is the schema as version 1 shipped it. A change of schema.sql needs a migration, or this fails.
"""

import re
import uuid
from pathlib import Path

import psycopg
import pytest

import onward_ledger
from onward_ledger.database import PostgresDatabase, SchemaTooNew, SqliteDatabase
from onward_ledger.database.statements import load_schema, load_statements
from onward_ledger.store import open_store
from tests.support.ledger import shared_database

SQL = Path(onward_ledger.__file__).parent / "sql"
FIRST = Path(__file__).parent / "ledger"


def folder_of_version_1(engine: str, tmp_path: Path) -> Path:
    """The ledger's SQL as it was: the first schema, no migrations."""
    folder = tmp_path / f"{engine}_1"
    folder.mkdir()
    (folder / "schema.sql").write_text((FIRST / f"{engine}_1.sql").read_text())
    return folder


def sqlite_database(path: Path, folder: Path) -> SqliteDatabase:
    return SqliteDatabase(path, folder=folder, json_columns=frozenset())


def sqlite_objects(database: SqliteDatabase):
    rows = database._connection.execute("select type, name, tbl_name, sql from sqlite_master order by 1, 2").fetchall()
    columns = {
        name: database._connection.execute(f"pragma table_xinfo({name})").fetchall()
        for kind, name, _, _ in rows
        if kind in ("table", "view")
    }
    return [(kind, name, table, normalised(text)) for kind, name, table, text in rows], columns


def normalised(text: str | None) -> str:
    """Without comments and layout: SQLite keeps the text of a statement, and an added column has its own."""
    return re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", re.sub(r"--.*", "", text or ""))).strip()


def postgres_objects(url: str, schema: str):
    queries = {
        "columns": "select table_name, column_name, ordinal_position, data_type, udt_name, is_nullable, column_default,"
        " is_identity from information_schema.columns where table_schema = %(s)s order by 1, 3",
        "constraints": "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = %(s)s::regnamespace order by 1, 2",
        "indexes": "select tablename, indexname, indexdef from pg_indexes where schemaname = %(s)s order by 1, 2",
        "triggers": "select tgrelid::regclass::text, tgname, pg_get_triggerdef(t.oid) from pg_trigger t"
        " join pg_class c on c.oid = tgrelid where c.relnamespace = %(s)s::regnamespace and not tgisinternal"
        " order by 1, 2",
        "functions": "select proname, prosrc from pg_proc where pronamespace = %(s)s::regnamespace order by 1",
        "views": "select viewname, definition from pg_views where schemaname = %(s)s order by 1",
        "enums": "select typname, enumlabel from pg_enum join pg_type t on t.oid = enumtypid"
        " where typnamespace = %(s)s::regnamespace order by typname, enumsortorder",
    }
    with psycopg.connect(url, options=f"-c search_path={schema}") as connection:
        found = {name: connection.execute(query, {"s": schema}).fetchall() for name, query in queries.items()}
    return {name: [[str(cell).replace(schema, "S") for cell in row] for row in rows] for name, rows in found.items()}


def test_sqlite_made_new_and_upgraded_from_the_first_version_are_alike(tmp_path):
    first = sqlite_database(tmp_path / "old.db", folder_of_version_1("sqlite", tmp_path))
    first.migrate()
    first.close()
    found = []
    for name in ("old.db", "new.db"):
        database = sqlite_database(tmp_path / name, SQL / "sqlite")
        database.migrate()
        database.migrate()
        found.append(sqlite_objects(database))
        database.close()
    assert found[0] == found[1]
    assert {name for kind, name, _, _ in found[0][0] if kind == "table"} >= {
        "actions",
        "action_events",
        "fences",
        "feed",
    }


def test_postgres_made_new_and_upgraded_from_the_first_version_are_alike(request, tmp_path):
    url = shared_database(request)
    old, new = (f"ledger_{uuid.uuid4().hex[:12]}" for _ in range(2))
    first = PostgresDatabase(url, schema=old, folder=folder_of_version_1("postgres", tmp_path), application_name="test")
    first.migrate()
    first.close()
    found = []
    for schema in (old, new):
        opened = open_store(url, schema=schema)
        opened.database.migrate()
        opened.database.migrate()
        opened.database.close()
        found.append(postgres_objects(url, schema))
    assert found[0] == found[1]
    assert all(found[0].values()), "an empty list compares nothing"


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_database_of_a_newer_version_is_refused(request, tmp_path, engine):
    url = f"sqlite:///{tmp_path / 'ledger.db'}" if engine == "sqlite" else shared_database(request)
    schema = f"ledger_{uuid.uuid4().hex[:12]}"
    opened = open_store(url, schema=schema)
    opened.database.migrate()
    if engine == "sqlite":
        opened.database._connection.execute("pragma user_version = 99")
    else:
        with psycopg.connect(opened.database.conninfo) as connection:
            connection.execute("update schema_version set version = 99")
    with pytest.raises(SchemaTooNew, match="version 99"):
        opened.database.migrate()
    opened.database.close()


def test_nothing_lands_outside_the_ledgers_own_schema(request):
    url, schema = shared_database(request), f"ledger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url) as connection:
        count = "select count(*) from pg_class where relnamespace = 'public'::regnamespace"
        before = connection.execute(count).fetchone()
        connection.commit()
        opened = open_store(url, schema=schema)
        opened.database.migrate()
        opened.database.close()
        assert connection.execute(count).fetchone() == before


def test_both_engines_have_the_same_statements_with_the_same_parameters():
    postgres, sqlite = load_statements(SQL / "postgres"), load_statements(SQL / "sqlite")
    assert set(postgres) == set(sqlite)
    only_postgres = {("start_instance", "lock_key")}  # SQLite's liveness is the lock file
    for name in postgres:
        wanted = set(re.findall(r"%\((\w+)\)s", postgres[name]))
        found = set(re.findall(r"(?<![:\w]):([a-z_]+)", re.sub(r"--.*", "", sqlite[name])))
        assert wanted - {parameter for statement, parameter in only_postgres if statement == name} == found, name


def test_both_engines_have_the_same_files_and_version():
    names = [
        sorted(p.relative_to(SQL / engine) for p in (SQL / engine).rglob("*.sql")) for engine in ("postgres", "sqlite")
    ]
    assert names[0] == names[1]
    assert load_schema(SQL / "postgres")[0] == load_schema(SQL / "sqlite")[0]
