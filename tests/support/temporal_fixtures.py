"""Fixtures of the tests of Temporal: one dev server for a module, workers and a run for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs_world import new_run
from tests.support.temporal_world import Talk, Worker, WorkerProcess, dev_server


@pytest.fixture(scope="module")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a development server."""
    with dev_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


@pytest.fixture
def run(postgres_store: Any, database: Any, objects: Any, tmp_path: Path) -> Any:
    """A queued run."""
    return new_run(database, objects, tmp_path, store="postgres")


@pytest.fixture
def store(postgres_store: Any) -> Any:
    """Workers on several machines need Postgres."""
    return postgres_store


@pytest.fixture
def talk(temporal_address: str, run: Any) -> Talk:
    """What is said to Temporal about the run."""
    return Talk(temporal_address, run.run_id)


@pytest.fixture
def worker(temporal_address: str, store: Any, served_ledger: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`worker(name, **options)`: a worker; options are those of `driving`. All are ended with the test."""
    made: list[Worker] = []

    def start(name: str, **options: Any) -> Worker:
        made.append(Worker(name, temporal_address, store, served_ledger, tmp_path, options))
        return made[-1]

    yield start
    for one in made:
        one.ask_to_stop()
    for one in made:
        one.end()


@pytest.fixture
def worker_process(temporal_address: str, store: Any, served_ledger: Any, tmp_path: Path) -> Iterator[Any]:
    """The same, each a process of its own."""
    made: list[WorkerProcess] = []

    def start(name: str, **options: Any) -> WorkerProcess:
        made.append(WorkerProcess(name, temporal_address, store, served_ledger, tmp_path, options))
        return made[-1]

    yield start
    for one in made:
        if one.child.process.exitcode is None:
            one.child.kill()
