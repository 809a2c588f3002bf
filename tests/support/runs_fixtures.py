"""Fixtures of the tests of runs: each test gets a store of its own, Postgres and SQLite alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onward_ledger.objects import Objects
from runs.checkpoints import set_up
from runs.store import PostgresStore, SqliteStore
from tests.support.runs_processes import CONTEXT, LedgerManager
from tests.support.runs_world import MemoryLedger

TEMPLATE = "onward_runs_template"


@pytest.fixture(params=["postgres", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store that is set up."""
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def postgres_store(request: pytest.FixtureRequest, postgres_server: str, database_template: Any) -> PostgresStore:
    """A Postgres store that is set up, in a database of its own.

    A module with `SHARES_A_DATABASE = True` says that its tests mind only their own runs; that is faster.
    """

    def prepare(url: str) -> None:
        set_up(PostgresStore(url))

    if getattr(request.module, "SHARES_A_DATABASE", False):
        name = database_template(f"{TEMPLATE}_shared", prepare)
        return PostgresStore(postgres_server.replace("/postgres?", f"/{name}?", 1))
    return PostgresStore(request.getfixturevalue("new_database")(database_template(TEMPLATE, prepare)))


@pytest.fixture
def sqlite_store(tmp_path: Path) -> SqliteStore:
    """A SQLite store that is set up, in a file of its own."""
    found = SqliteStore(tmp_path / "onward.sqlite", tmp_path / "locks")
    set_up(found)
    return found


@pytest.fixture
def database(store: Any) -> Iterator[Any]:
    """A database of the store."""
    with closing(store.database("test")) as opened:
        yield opened


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """An object store in a folder."""
    return Objects((tmp_path / "objects").as_uri())


@pytest.fixture
def ledger() -> MemoryLedger:
    """A ledger in memory."""
    return MemoryLedger()


@pytest.fixture
def served_ledger() -> Iterator[Any]:
    """A ledger in a process of its own, for tests with several processes."""
    with LedgerManager(ctx=CONTEXT) as manager:
        yield manager.Ledger()  # type: ignore[attr-defined]
