"""Local PostgreSQL servers that several files of tests use."""

import shutil

import psycopg
import pytest

from runs.local_postgres import ensure, status, stop


@pytest.fixture(scope="session")
def shared_local_home(tmp_path_factory):
    """An ONWARD_HOME with one database, for the tests that leave it whole; initdb is the slow part."""
    home = tmp_path_factory.mktemp("shared") / "home"
    ensure(home)
    yield home
    stop(home)
    for folder in (*status(home).outside, home):
        shutil.rmtree(folder)


@pytest.fixture
def local_home(shared_local_home):
    """The shared home with its server running and one empty table."""
    with psycopg.connect(ensure(shared_local_home), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept (n int)")
    return shared_local_home


@pytest.fixture
def stopped_home(shared_local_home):
    """The shared home with a database that has been used, and whose server does not run."""
    stop(shared_local_home)
    return shared_local_home
