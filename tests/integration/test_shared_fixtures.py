"""The databases that tests get: their own, and gone afterwards."""

import contextlib

import psycopg
import pytest

MADE: list[str] = []


def names(server: str) -> set[str]:
    with psycopg.connect(server) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()}


def name_of(url: str) -> str:
    return url.split("/")[3].split("?")[0]


@pytest.mark.parametrize("turn", [1, 2])
def test_a_database_is_empty_and_differs_from_the_last(turn, database_url, postgres_server, request):
    assert name_of(database_url) in names(postgres_server)
    assert not set(MADE) & names(postgres_server)
    MADE.append(name_of(database_url))
    # Still connected when the database is dropped: that has to go by force.
    connection = psycopg.connect(database_url, autocommit=True)
    request.addfinalizer(connection.close)
    connection.execute("CREATE TABLE only_here (n int)")


def test_a_template_is_prepared_once(database_template, new_database):
    prepared = []

    def prepare(url: str) -> None:
        prepared.append(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE from_template (n int)")

    first = new_database(database_template("template_of_this_test", prepare))
    second = new_database(database_template("template_of_this_test", prepare))
    assert len(prepared) == 1
    assert first != second
    for url in (first, second):
        with contextlib.closing(psycopg.connect(url)) as connection:
            assert connection.execute("SELECT count(*) FROM from_template").fetchone() == (0,)
