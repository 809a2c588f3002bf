"""psycopg against a real server: each exchange is told once, by what it sends; what exchanges nothing is not told."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg_pool import ConnectionPool

from tests.support.watched import Passed, watched_here


@pytest.fixture
def passed(database_url: str) -> Iterator[Passed]:
    """What is passed from here on: the database of the test is there already."""
    with watched_here() as passed:
        yield passed


def both(*labels: str) -> list[str]:
    return [f"{side} {label}" for label in labels for side in ("before", "after")]


def real(passed: Passed) -> list[str]:
    """What a recording keeps: without what was begun and taken back."""
    ended = {(boundary.label, boundary.occurrence) for boundary in passed if boundary.side == "after"}
    return [f"{b.side} {b.label}" for b in passed if (b.label, b.occurrence) in ended]


def test_each_exchange_of_a_transaction_is_told_once(passed: Passed, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("create table t (a int)")
        connection.execute("insert into t values (%s)", (1,))
        connection.commit()
        assert connection.execute("select a from t").fetchall() == [(1,)]
        connection.rollback()
        connection.execute("update t set a = 2")
    done = ("create table t (a int)", "insert into t", "commit", "select from t", "rollback", "update t", "commit")
    assert real(passed) == both("connect to Postgres", *done)


def test_a_wait_that_exchanges_nothing_is_taken_back(passed: Passed, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        passed.clear()
        connection.commit()  # no transaction is open
        connection.rollback()
    assert "before commit" in passed.words  # it was asked for
    assert real(passed) == []
    assert [boundary for boundary in passed if boundary.side == "after"] == []


def test_a_block_of_a_transaction(passed: Passed, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        passed.clear()
        with connection.transaction():
            connection.execute("create table t (a int)")
        with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
            connection.execute("insert into t values (1 / 0)")
    assert real(passed) == both(
        *("begin", "create table t (a int)", "end of transaction"),
        *("begin", "insert into t", "end of transaction"),  # an error of the server is an exchange too
    )


def test_a_pipeline_ends_with_an_exchange_of_its_own(passed: Passed, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table t (a int)")
        passed.clear()
        with connection.pipeline(), connection.cursor() as cursor:
            cursor.execute("insert into t values (1)")
            cursor.execute("insert into t values (2)")
        assert real(passed) == both("insert into t", "insert into t", "exit pipeline")
        passed.clear()
        with connection.pipeline() as pipeline:
            first = connection.execute("select a from t where a = 1")
            pipeline.sync()
            assert first.fetchone() == (1,)
    assert passed.labels[:2] == ["select from t", "sync pipeline"]
    assert set(passed.labels[2:]) <= {"answer of a pipeline", "exit pipeline"}  # they may have come with the sync


def test_an_async_connection(passed: Passed, database_url: str) -> None:
    async def work() -> list[tuple[int]]:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await connection.execute("create table t (a int)")
            await connection.commit()
            async with connection.pipeline():
                await connection.execute("insert into t values (1)")
            await connection.commit()
            await connection.commit()
            return await (await connection.execute("select a from t")).fetchall()

    assert asyncio.run(work()) == [(1,)]
    assert passed.labels == [
        *("connect to Postgres", "create table t (a int)", "commit"),
        *("insert into t", "exit pipeline", "commit"),
        *("select from t", "commit"),  # the second commit in a row exchanged nothing
    ]


def test_connections_of_a_pool_are_opened_in_its_threads(passed: Passed, database_url: str) -> None:
    with ConnectionPool(database_url, min_size=1, max_size=1, open=False) as pool:
        pool.wait(30)
        with pool.connection() as connection:
            connection.execute("select 1")
    connects = [boundary for boundary in passed if boundary.label == "connect to Postgres"]
    assert [(boundary.role, boundary.side) for boundary in connects] == [("pool", "before"), ("pool", "after")]


def test_a_checkpoint_of_langgraph_is_durable_at_the_exit_of_its_pipeline(passed: Passed, database_url: str) -> None:
    with PostgresSaver.from_conn_string(database_url) as saver:
        saver.setup()
    with PostgresSaver.from_conn_string(database_url, pipeline=False) as saver:
        passed.clear()
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(config, empty_checkpoint(), {}, {})
        told = real(passed)
    assert told[-1] == "after exit pipeline"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from checkpoints").fetchone() == (1,)


WRITES = {
    "commit": """
connection = psycopg.connect(url)
connection.execute("insert into t values (1)")
connection.commit()
""",
    "exit pipeline": """
connection = psycopg.connect(url, autocommit=True)
with connection.pipeline():
    connection.execute("insert into t values (1)")
""",
}


@pytest.mark.parametrize("label", WRITES)
def test_who_dies_before_it_has_written_nothing_and_who_dies_after_it_has(label: str, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table t (a int)")
        for side, rows in (("before", 0), ("after", 1)):
            program = f"""
import os, psycopg
from pathlib import Path
from experiments import choke
from experiments.boundaries import Boundary, Watch
from experiments.nemesis import Fault, armed
from experiments.story import Story
url = {database_url!r}
fault = Fault(at=Boundary(role="main", label={label!r}, side={side!r}), how="kill")
choke.install_all(Watch(armed(fault, Story(Path(os.devnull)))))
{WRITES[label]}"""
            done = subprocess.run([sys.executable, "-c", program], env=os.environ.copy())
            assert done.returncode == -9
            assert connection.execute("select count(*) from t").fetchone() == (rows,)
