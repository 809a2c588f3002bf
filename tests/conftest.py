"""What tests share: one PostgreSQL server for the session, a fresh database for a test, a fresh ONWARD_HOME.

Everything is stopped and removed at the end; nothing survives the tests.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from runs import local_postgres

# Machines differ in speed: how long an example takes is no property of the code. What is slow shows in --durations.
settings.register_profile("onward", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("onward")

# Temporal is 70 MB to download, and not everybody's: its tests are collected where its group is installed, as in CI.
HAS_TEMPORAL = importlib.util.find_spec("temporalio") is not None
collect_ignore_glob = [] if HAS_TEMPORAL else ["*/test_temporal*.py", "unit/test_docs_engines.py"]


def pytest_report_header():
    return None if HAS_TEMPORAL else "Temporal's tests are left out; for them: uv sync --group engines"


CONFIGURED = ("DATABASE_URL", "LEDGER_DATABASE_URL", "PG_BIN")


def pytest_collection_modifyitems(config, items):
    """An ordinary user cannot start processes of another account: those tests are not selected."""
    if os.geteuid() == 0:
        return
    needs_root = [item for item in items if item.get_closest_marker("root")]
    config.hook.pytest_deselected(items=needs_root)
    items[:] = [item for item in items if item not in needs_root]


def forget_home(home: Path) -> None:
    """Stop the server of an ONWARD_HOME, and remove it with all that it has elsewhere."""
    local_postgres.stop(home)
    for folder in (*local_postgres.status(home).outside, home):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory) -> Iterator[str]:
    """The connection string of a server for this session; its database `postgres` belongs to nobody's test."""
    home = tmp_path_factory.mktemp("postgres_server")
    try:
        yield local_postgres.ensure(home)
    finally:
        forget_home(home)


@pytest.fixture(scope="session")
def database_template(postgres_server) -> Callable[[str, Callable[[str], None]], str]:
    """`database_template(name, prepare)`: a database that `prepare(url)` has filled once in this session.

    Returns the name, to be given to `new_database`, so that a test does not pay for migrations.
    """
    made: set[str] = set()

    def template(name: str, prepare: Callable[[str], None]) -> str:
        if name not in made:
            _execute(postgres_server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            prepare(_url_of(postgres_server, name))
            made.add(name)
        return name

    return template


@pytest.fixture
def new_database(postgres_server) -> Iterator[Callable[..., str]]:
    """`new_database(template="template1")`: the URL of a database that is dropped after the test."""
    made: list[sql.Identifier] = []

    def create(template: str = "template1") -> str:
        name = f"test_{uuid4().hex[:12]}"
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        _execute(postgres_server, copy)
        made.append(sql.Identifier(name))
        return _url_of(postgres_server, name)

    yield create
    for name in made:
        _execute(postgres_server, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


@pytest.fixture
def database_url(new_database) -> str:
    """The URL of an empty database of this test's own."""
    return new_database()


@pytest.fixture
def onward_home(tmp_path, monkeypatch) -> Iterator[Path]:
    """An ONWARD_HOME of this test's own, in the environment too; no other database is configured there."""
    for name in CONFIGURED:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "onward-home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("ONWARD_HOME", str(home))
    try:
        yield home
    finally:
        forget_home(home)


def _url_of(server: str, database: str) -> str:
    return server.replace("/postgres?", f"/{database}?", 1)


def _execute(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
