"""Where everything runs: a temporary home with the product's own local Postgres and ledger, and the API beside it.

Nothing of the user's is touched. Postgres and the ledger are started, and started again, by whoever needs them: that is
what the product does for a user without servers. The API is a process of its own with a fsynced log, and never killed.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from experiments.benchmarks.services import leave_environment, services
from experiments.fake_api import FakeApi
from experiments.soaking.steps import STEP_SECONDS, VERSION
from onward_ledger.client import LedgerClient
from onward_ledger.objects import Objects
from runs import local_ledger, registry
from runs.registry import NewRun
from runs.settings import Settings
from runs.store import PostgresStore, open_store

CONFIG = "ONWARD_LEDGER_CONFIG"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What everybody works with."""

    folder: Path
    settings: Settings
    store: PostgresStore
    sink: FakeApi
    input: Path
    step_seconds: float

    @property
    def dsn(self) -> str:
        """The server's address; it stays when the server is started again."""
        return self.store.dsn

    @property
    def environment(self) -> dict[str, str]:
        """What a worker has to know."""
        return {
            "ONWARD_HOME": str(self.settings.home),
            "ONWARD_PRINCIPAL": self.settings.principal,
            "ONWARD_LEASE_SECONDS": str(self.settings.lease_seconds),
            CONFIG: os.environ[CONFIG],
            STEP_SECONDS: str(self.step_seconds),
            "PYTHONUNBUFFERED": "1",
        }

    def ledger(self) -> LedgerClient:
        """A client of the ledger, which is started where it does not run; the caller closes it."""
        return local_ledger.connect(self.settings)

    def begin_run(self) -> str:
        """A run as `onward run FILE --queue` makes it."""
        new = NewRun(
            owner=self.settings.principal,
            workflow_version=VERSION,
            store=self.settings.store,
            ledger=local_ledger.ledger_id(self.settings),
        )
        with closing(self.store.database("onward experiment")) as database:
            return registry.create(database, Objects(self.settings.objects_url), self.input, new).run_id


@contextmanager
def place(lease_seconds: float, step_seconds: float = 0.0) -> Generator[Place]:
    """Start all of it, tables included; stop and remove it in the end."""
    from runs.assembly import parts_for
    from runs.drain import Drain
    from runs.queue_tables import set_up_queue

    leave_environment()
    with ExitStack() as stack:
        found = stack.enter_context(services())
        sink = FakeApi(found.folder)
        stack.enter_context(sink)
        config = found.folder / "kinds.toml"
        template = Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8")
        config.write_text(Template(template).substitute(url=sink.url), encoding="utf-8")
        os.environ[CONFIG] = str(config)
        stack.callback(os.environ.pop, CONFIG, None)
        settings = Settings(home=found.home, store="postgres", principal="experiment", lease_seconds=lease_seconds)
        with parts_for(settings, Drain()), closing(open_store(settings).database()) as database:
            set_up_queue(database)  # pyright: ignore[reportArgumentType] - the store is Postgres
        store = open_store(settings)
        assert isinstance(store, PostgresStore)
        source = found.folder / "input.csv"
        source.write_text("month,revenue\n1,2\n", encoding="utf-8")
        yield Place(
            folder=found.folder, settings=settings, store=store, sink=sink, input=source, step_seconds=step_seconds
        )
