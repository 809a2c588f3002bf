"""One cell's world: a database, an API, services that can be killed, and drivers that ask for one effect.

Each driver is a take-over: it announces the next epoch, then asks. What it is told does not matter for the cell; what
counts is what the record says in the end, and what the world has.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import conninfo, sql

from experiments.errors import NotRun
from experiments.fake_api import FakeApi
from experiments.guaranteed.rows import Row, config_of
from experiments.guaranteed.service import Moment, Orders, serve
from experiments.processes import ForkServer, Running
from experiments.story import Process, errors_of
from onward_ledger.action import FINAL, Action, ActionKey, Status
from onward_ledger.client import LedgerClient
from onward_ledger.errors import LedgerError
from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers.listing import report_digest

TOKEN = "the token of the experiment"  # noqa: S105 - everything it opens is on loopback and gone in a minute
START_SECONDS = 30.0
LONGEST_SECONDS = 20.0
LOOK_EVERY_SECONDS = 0.01
PATIENCE_SECONDS = 0.5  # of one driver, while somebody else performs it

# So long a case goes on asking about what is UNKNOWN: beyond every window and lifetime of kinds.toml.
SETTLE_SECONDS = 4.0


class NotStruck(Exception):
    """The fault did not happen: the cell proves nothing."""


@dataclass
class Server:
    """A Postgres server. `kill` and `start` are for servers that nobody else uses."""

    dsn: str
    kill: Callable[[], None]
    start: Callable[[], str]


@dataclass(kw_only=True)
class Service:
    """One process of the ledger, and where it listens."""

    running: Running
    ready: dict[str, Any]

    def client(self) -> LedgerClient:
        """A driver's client: it does not wait long for others."""
        return LedgerClient(
            self.ready["url"], TOKEN, principal="anna", timeout_seconds=8, patience_seconds=PATIENCE_SECONDS
        )

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.running.kill()
        self.running.ends_within(LONGEST_SECONDS)


@dataclass(kw_only=True)
class Stand:
    """Opened with `with`; `case` is a name of this cell, for files and for the database."""

    row: Row
    case: str
    folder: Path
    server: Server
    forks: ForkServer
    key_lifetime_seconds: float
    services: list[Service] = field(default_factory=list[Service])
    epoch: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, self.case))
        self.key = ActionKey(self.run_id, "pay", "effect")
        self.api = FakeApi(self.folder)
        self.objects = Objects(str(self.folder / "objects"))
        self.request: tuple[str, dict[str, Any]] = ("customers/8815", {"amount": 4999})

    def __enter__(self) -> Self:
        name = f"case_{uuid.uuid5(uuid.NAMESPACE_URL, self.case).hex[:16]}"
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {} template made").format(sql.Identifier(name)))
        self._database = name
        self.api.start()
        (self.folder / "ledger.toml").write_text(config_of(self.api.url, self.key_lifetime_seconds), encoding="utf-8")
        if not self.row.sends:
            self._approve_publication()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.services:
            each.kill()
        self.api.stop()
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.server.dsn, autocommit=True) as server:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(self._database)))

    @property
    def dsn(self) -> str:
        """This case's database, wherever its server listens now."""
        return conninfo.make_conninfo(self.server.dsn, dbname=self._database)

    # --- services and drivers -----------------------------------------------------------------------------------------

    def service(self, end_at: Moment | None = None) -> Service:
        """Start a process of the ledger and wait until it listens."""
        number = len(self.services) + 1
        told, ready = self.folder / f"service {number}.txt", self.folder / f"service {number}.ready"
        orders = Orders(
            store=self.dsn,
            objects=str(self.folder / "objects"),
            config=self.folder / "ledger.toml",
            token=TOKEN,
            ready_file=ready,
            kind=self.row.kind,
            end_at=end_at,
            planted=self.row.planted,
        )
        running = self.forks.start(serve, told, orders)
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if not running.alive or time.monotonic() > deadline:
                raise NotRun.because("service", errors_of(told))
            time.sleep(LOOK_EVERY_SECONDS)
        service = Service(running=running, ready=json.loads(ready.read_text(encoding="utf-8")))
        self.services.append(service)
        return service

    def ask(self, service: Service) -> Action | LedgerError:
        """A driver takes over and asks for the effect; the record, or why there was no answer."""
        self.epoch += 1
        with service.client() as client:
            return self._asked(client, self.epoch)

    def asking(self, service: Service, *, same_epoch: bool = False) -> threading.Thread:
        """The same in a thread. With `same_epoch` it is the same driver, whose request is there twice."""
        if not same_epoch:
            self.epoch += 1
        epoch = self.epoch

        def work() -> None:
            with service.client() as client:
                self._asked(client, epoch)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def _asked(self, client: LedgerClient, epoch: int) -> Action | LedgerError:
        try:
            client.fence(self.run_id, epoch, holder=f"driver {epoch}")
            return client.perform(self.key, self.row.kind, lambda: self.request, epoch=epoch, pinned=False)
        except LedgerError as error:
            return error

    def settle(self) -> Action:
        """What becomes of it when all is well again: drivers come back until it is settled, or for a while."""
        self.api.control(heal=True)
        alive = next((each for each in self.services if each.running.alive), None)
        service = alive or self.service()
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            answer = self.ask(service)
            settled = isinstance(answer, Action) and answer.status in FINAL
            if settled or time.monotonic() > deadline:
                return self._record(service)
            time.sleep(0.1)

    def _record(self, service: Service) -> Action:
        with service.client() as client:
            return client.action(self.key.action_id)

    # --- what happened ------------------------------------------------------------------------------------------------

    def effects(self) -> int:
        """How often the effect is in the world."""
        if self.row.sends:
            return len(self.api.effects(marker=self.key.action_id))
        with psycopg.connect(self.dsn, options="-c search_path=onward_ledger") as connection:
            found = connection.execute(
                "select count(*) from publications where action_id = %s", (self.key.action_id,)
            ).fetchone()
        assert found is not None
        return int(found[0])

    def must_have_ended(self, service: Service) -> None:
        """NotStruck unless the process came to the moment at which it was to end."""
        if not service.running.ends_within(LONGEST_SECONDS) or not Process.read(service.running.told, None).crash:
            raise NotStruck("The service did not come to the moment at which it was to end.")

    def must_have_struck(self, fault: str) -> None:
        """NotStruck unless the API did this to a request for this effect."""
        if fault not in self.api.fired():
            raise NotStruck(f"The API never came to {fault!r}.")

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until something is so; NotStruck when it does not come to that."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise NotStruck(f"It did not come to {what}.")
            time.sleep(LOOK_EVERY_SECONDS)

    def status_is(self, *wanted: Status) -> Callable[[], bool]:
        """A condition on the record, read with the first living service."""

        def holds() -> bool:
            alive = next((each for each in self.services if each.running.alive), None)
            if alive is None:
                return False
            try:
                return self._record(alive).status in wanted
            except LedgerError:
                return False

        return holds

    def _approve_publication(self) -> None:
        """A draft is saved and its publication approved: what is left is the effect."""
        data = b"# Report"
        staged = self.objects.put_once(f"runs/{self.run_id}/{digest_of(data)}", data)
        item = {"name": "report.md", "digest": staged.digest, "size": staged.size, "media_type": "text/markdown"}
        folder = f"drafts/{self.run_id}/1"
        draft = {"digest": report_digest([item]), "objects": [item | {"source": staged.key}]}
        self.epoch += 1
        service = self.service()
        with service.client() as client:
            client.fence(self.run_id, self.epoch, holder="the first driver")
            client.perform(
                ActionKey(self.run_id, "draft", "draft"), "draft.save", lambda: (folder, draft), epoch=self.epoch
            )
            listed = [item | {"key": f"{folder}/report.md"}]
            self.request = (
                "reports/sales",
                {"title": "Sales", "note": "", "digest": draft["digest"], "objects": listed},
            )
            proposed = client.propose(self.key, self.row.kind, lambda: self.request, epoch=self.epoch)
            client.decide(proposed.action_id, "approve", request_hash=proposed.request_hash)
        service.kill()
