"""The stand: five hosts with Postgres, the ledger, the sink and two workers, started and in the end removed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from experiments.hosts import leftovers
from experiments.hosts.network import Host, Network, new_token
from experiments.hosts.postgres import Server
from experiments.hosts.services import LEDGER_PORT, ledger_on, sink_on
from experiments.hosts.size import CONCURRENCY, LEASE_SECONDS, WORKERS
from experiments.hosts.skew import Clock
from experiments.hosts.worker import Worker, home_of
from experiments.oracle import Oracle
from onward_ledger.client import LedgerClient
from onward_ledger.database import Database
from runs.checkpoints import set_up
from runs.settings import Settings
from runs.store import open_store


@dataclass(frozen=True, kw_only=True)
class Stand:
    """What cases work with. `settings`, `database` and `client` are the experiment's own way to everything."""

    folder: Path
    server: Server
    ledger_host: Host
    sink: Oracle
    worker_hosts: tuple[Host, ...]
    settings: Settings
    database: Database
    client: LedgerClient

    def worker(self, host: Host, *, dsn: str | None = None, clock: Clock | None = None) -> Worker:
        """A worker for a host, to be started; `dsn`: another way to the database."""
        changes = {"home": home_of(self.folder, host), "database_url": dsn or self.settings.database_url}
        return Worker(host, self.settings.model_copy(update=changes), CONCURRENCY, clock)

    @property
    def ledger_port(self) -> int:
        """Where the ledger listens."""
        return LEDGER_PORT


@contextmanager
def open_stand() -> Generator[Stand]:
    """Start everything but the workers; remove all of it in the end, and first what killed experiments left."""
    leftovers.remove_abandoned()
    token = new_token()
    with ExitStack() as stack:
        folder = stack.enter_context(leftovers.folder_of(token))
        network = stack.enter_context(Network(token))
        hosts = [network.host(f"worker-{number}") for number in range(1, WORKERS + 1)]
        database_host, ledger_host, sink_host = (network.host(name) for name in ("database", "ledger", "sink"))
        server = stack.enter_context(Server(database_host, network.range, folder / leftovers.DISK))
        sink = stack.enter_context(sink_on(sink_host, folder))
        settings = _settings(folder, server.dsn, f"http://{ledger_host.address}:{LEDGER_PORT}")
        store = open_store(settings)
        set_up(store)
        stack.enter_context(ledger_on(ledger_host, folder, server.dsn, settings.objects_url, _token(folder), sink))
        assert settings.ledger_url is not None
        assert settings.ledger_token is not None
        client = LedgerClient(
            settings.ledger_url, settings.ledger_token.get_secret_value(), principal=settings.principal
        )
        yield Stand(
            folder=folder,
            server=server,
            ledger_host=ledger_host,
            sink=sink,
            worker_hosts=tuple(hosts),
            settings=settings,
            database=stack.enter_context(closing(store.database("onward experiment"))),
            client=stack.enter_context(closing(client)),
        )


def _token(folder: Path) -> Path:
    return folder / "ledger.token"


def _settings(folder: Path, dsn: str, ledger_url: str) -> Settings:
    home = folder / "home"
    home.mkdir(mode=0o700)
    token = secrets.token_urlsafe(24)
    with os.fdopen(os.open(_token(folder), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(token)
    return Settings(
        home=home,
        store="postgres",
        principal="experiment",
        database_url=dsn,
        ledger_database_url=dsn,
        objects=(home / "objects").as_uri(),
        ledger_url=ledger_url,
        ledger_token=SecretStr(token),
        lease_seconds=LEASE_SECONDS,
    )
