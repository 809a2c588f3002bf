"""Where everything runs: Postgres, the sink of effects and the receiver of marks, in a temporary home of their own.

Nothing of the user's is touched. The sink is a process of its own with a fsynced log, and is never killed. The server
is the one that the product starts for whoever has none.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from experiments.benchmarks.services import Services, services
from experiments.fake_api import FakeApi
from experiments.recovering import marks, work
from experiments.recovering.marks import Marks
from runs.settings import Settings


@dataclass(frozen=True)
class Place:
    """What all systems share."""

    services: Services
    sink: FakeApi
    marks: Marks

    @property
    def folder(self) -> Path:
        """The temporary folder."""
        return self.services.folder

    @property
    def settings(self) -> Settings:
        """Of the product's home in it."""
        return self.services.settings

    @cached_property
    def environment(self) -> dict[str, str]:
        """What a process has to know to do the work."""
        return {marks.ADDRESS: str(self.marks.address), work.SINK: self.sink.url, "PYTHONUNBUFFERED": "1"}

    def database(self, name: str) -> str:
        """A database of its own for one system; its connection string."""
        dsn = self.services.dsn
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return conninfo.make_conninfo(dsn, dbname=name)

    def folder_of(self, system: str) -> Path:
        """A folder of its own for one system."""
        folder = self.folder / system.replace(" ", "-").replace(",", "")
        folder.mkdir(parents=True)
        return folder


@contextmanager
def place() -> Generator[Place]:
    """Start all of it, and stop and remove it in the end."""
    with ExitStack() as stack:
        found = stack.enter_context(services())
        sink = FakeApi(found.folder)
        stack.enter_context(sink)
        receiver = stack.enter_context(Marks(found.folder / "marks"))
        yield Place(found, sink, receiver)
