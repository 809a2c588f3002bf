"""A lane: one world of its own for cases, with its database, its objects, its ledger and its settings.

Cases of one lane share these and differ in their runs. What a fault may destroy for everybody (the ledger's process),
and what a planted defect changes, gets a lane of its own.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from experiments.errors import NotRun
from experiments.nemesis import Fault
from experiments.observed_ledger import LedgerSpec, serve_observed
from experiments.oracle import Oracle
from experiments.processes import ForkServer, Running
from experiments.relay import Relay
from experiments.story import Process, Story, errors_of
from onward_ledger.client import LedgerClient
from onward_ledger.database import Database
from runs import local_ledger
from runs.settings import Settings, StoreKind
from runs.store import open_store

START_SECONDS = 30.0
STOP_SECONDS = 5.0
FINISH_SECONDS = 20.0
LOOK_EVERY_SECONDS = 0.005

# A driver that dies is noticed at once; this bounds what is waited for where only time can tell.
LEASE_SECONDS = 5.0


class LedgerService:
    """The ledger of a lane. A process of it that dies is started again at once, behind the same address."""

    def __init__(self, forks: ForkServer, spec: LedgerSpec, relay: Relay, folder: Path) -> None:
        self._forks = forks
        self._relay = relay
        self._folder = folder
        self._lock = threading.Lock()
        self._stopping = False
        self._number = 0
        self.spec = spec
        self.running: Running | None = None
        self._listening: Running | None = None
        self.stories: list[Path] = []
        self.killed: list[Path] = []

    def start(self, fault: Fault | None = None, recording: Path | None = None) -> Running:
        """Start a process of the service and wait until it listens; with a fault it may die before that."""
        with self._lock:
            self._number += 1
            number = self._number
        told = self._folder / f"ledger {number}.txt"
        ready = self._folder / f"ledger {number}.ready"
        running = self._forks.start(serve_observed, told, self.spec, ready, fault, recording)
        self.stories.append(told)
        self.running = running
        threading.Thread(target=self._watch_over, args=(running, ready), name="ledger-watch", daemon=True).start()
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists() and running.alive:
            if time.monotonic() > deadline:
                raise NotRun.because("ledger", errors_of(told))
            time.sleep(LOOK_EVERY_SECONDS)
        if ready.exists():
            self._relay.target = int(json.loads(ready.read_text(encoding="utf-8"))["url"].rpartition(":")[2])
            self._listening = running  # last: whoever waits for this goes through the relay at once
        elif fault is None:
            raise NotRun.because("ledger", errors_of(told))
        return running

    def _watch_over(self, running: Running, ready: Path) -> None:
        """Start the service again when this process of it dies."""
        while not running.ends_within(1.0):
            pass
        if not self._stopping and running is self.running:
            self._relay.target = None
            with contextlib.suppress(NotRun):  # the whole experiment ends; who waits for this ledger says so
                self.start()

    def restart(self, fault: Fault | None = None, recording: Path | None = None) -> Running:
        """End the process that serves now, and start one with a fault or a recording."""
        serving, self.running = self.running, None
        self._relay.target = None
        if serving is not None:
            serving.kill()
            serving.wait()
        return self.start(fault, recording)

    def kill(self) -> None:
        """SIGKILL to the process that serves now; the next one is on its way."""
        serving = self.running
        if serving is not None and serving.alive:
            self.killed.append(serving.told)
            serving.kill()
            serving.ends_within(STOP_SECONDS)  # so that whoever waits for the next one does not take this one for it

    def killed_since(self, count: int) -> tuple[Process, ...]:
        """The stories of the processes that `kill` hit, behind the first so many."""
        return tuple(Process.read(told, -signal.SIGKILL) for told in self.killed[count:])

    def refusals(self, run_id: str, since: int) -> tuple[str, ...]:
        """The codes of what the service refused in a run, by its processes behind the first so many."""
        said = [line for told in self.stories[since:] for line in Process.read(told, 0).refused]
        return tuple(line.removesuffix(f" {run_id}") for line in said if line.endswith(run_id))

    def replace(self) -> None:
        """Start another process of the service beside the one that has fallen silent, and send everybody there."""
        self._relay.target = None
        self.running = None
        self.start()

    def wait_until_back(self) -> None:
        """Wait until the process that is to serve now listens, also when the one before it has just died."""
        deadline = time.monotonic() + START_SECONDS
        while self.running is None or self.running is not self._listening or not self.running.alive:
            if time.monotonic() > deadline:
                raise NotRun("The ledger of the experiment was not started again.")
            time.sleep(LOOK_EVERY_SECONDS)

    def retire(self, running: Running) -> None:
        """End a process that nobody is sent to any more; what it has in hand it finishes."""
        running.terminate()
        running.wait(FINISH_SECONDS)

    def stop(self) -> None:
        """Stop it cleanly; one that does not stop, or is stopped by a signal, is killed."""
        self._stopping = True
        self._relay.target = None
        if self.running is not None:
            self.running.terminate()
            self.running.wait(STOP_SECONDS)
            self.running = None


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What a case needs. `plain_dsn` is where the control keeps its checkpoints: a connection string, or a file.

    `database` and `client` are the experiment's own way to the runs and to the ledger; drivers have theirs.
    """

    folder: Path
    settings: Settings
    plain_dsn: str
    oracle: Oracle
    forks: ForkServer
    ledger: LedgerService
    database: Database
    client: LedgerClient
    planted: str | None

    @property
    def stories(self) -> Path:
        """Where the processes of the cases write."""
        return self.folder / "stories"

    def with_lease(self, seconds: float) -> Lane:
        """The same lane, whose drivers take shorter leases."""
        return replace(self, settings=self.settings.model_copy(update={"lease_seconds": seconds}))


def _make_tables(forks: ForkServer, folder: Path, settings: Settings, plain_dsn: str) -> None:
    """Once, in a process of its own: the first case of a lane then passes the same boundaries as all others."""
    made = forks.run(make_tables, folder / "tables.txt", settings, plain_dsn)
    if made.end != "made":
        raise NotRun.because("set-up of the tables", errors_of(folder / "tables.txt"))


def make_tables(story: Story, settings: Settings, plain_dsn: str) -> str:
    """Make the tables of the runs and of both checkpointers, the product's and the control's."""
    from experiments.baselines.plain import open_plain_saver
    from runs.checkpoints import set_up

    set_up(open_store(settings))
    with open_plain_saver(settings.store, plain_dsn):
        return "made"


@contextmanager
def open_lane(
    folder: Path,
    forks: ForkServer,
    oracle: Oracle,
    dsn: str | None,
    plain_dsn: str,
    *,
    planted: str | None = None,
    plain_provider: bool = False,
    deadline_seconds: float | None = None,
    grace_seconds: float | None = None,
    config: Path | None = None,
) -> Generator[Lane]:
    """Start the lane's ledger over this database (None: SQLite files in the folder), and stop it in the end."""
    home = folder / "home"
    home.mkdir(mode=0o700, parents=True)
    (folder / "stories").mkdir()
    token = secrets.token_urlsafe(24)
    token_file = folder / "ledger.token"
    token_file.write_text(token, encoding="utf-8")
    token_file.chmod(0o600)
    store: StoreKind = "sqlite" if dsn is None else "postgres"
    with Relay() as relay:
        settings = Settings(
            home=home,
            store=store,
            principal="experiment",
            database_url=dsn,
            ledger_database_url=dsn,
            objects=(home / "objects").as_uri(),
            ledger_url=relay.url,
            ledger_token=SecretStr(token),
            lease_seconds=LEASE_SECONDS,
        )
        spec = LedgerSpec(
            store=dsn or f"sqlite:///{settings.ledger_sqlite_path}",
            objects=settings.objects_url,
            token_file=token_file,
            oracle=oracle,
            planted=planted,
            plain_provider=plain_provider,
            deadline_seconds=deadline_seconds,
            grace_seconds=grace_seconds,
            config=config,
        )
        ledger = LedgerService(forks, spec, relay, folder)
        with contextlib.ExitStack() as stack:
            stack.callback(ledger.stop)
            ledger.start()
            database = stack.enter_context(contextlib.closing(open_store(settings).database("onward experiment")))
            _make_tables(forks, folder, settings, plain_dsn)
            yield Lane(
                folder=folder,
                settings=settings,
                plain_dsn=plain_dsn,
                oracle=oracle,
                forks=forks,
                ledger=ledger,
                database=database,
                client=stack.enter_context(local_ledger.connect(settings)),
                planted=planted,
            )
