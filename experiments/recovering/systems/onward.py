"""Onward: two workers as `onward worker --graph` starts them, and the ledger as a service beside them."""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from contextlib import closing
from pathlib import Path
from string import Template
from typing import Any, ClassVar

import psutil
import psycopg
from pydantic import SecretStr

from experiments.errors import NotRun
from experiments.recovering.children import Child, bound, start, start_worker
from experiments.recovering.plan import Target
from experiments.recovering.systems.system import System, WentOn
from onward_ledger.action import Status
from onward_ledger.client import LedgerClient
from onward_ledger.objects import Objects
from runs import local_ledger, registry
from runs.foreign.specs import GraphSpec, spec_of
from runs.registry import FOREIGN, NewRun
from runs.settings import Settings
from runs.store import open_store

_ENDS = ("succeeded", "failed", "cancelled", "waiting_human")
# A project of somebody's, in a folder of its own; what it imports is installed, as far as Onward is concerned.
AGENT = "from experiments.recovering.workers.onward_graph import graph\n\n__all__ = ['graph']\n"

# Whatever is written to the checkpoints is told behind the commit: by which run and epoch.
_OBSERVER = """
create schema recovering;
create function recovering.told() returns trigger language plpgsql as $$
begin
    perform pg_notify('recovering', current_setting('onward.fence', true));
    return null;
end $$;
create trigger told after insert or update on onward.checkpoints
    for each row execute function recovering.told();
"""

# The first receipt of the epoch; and the end of the run, where nothing was left to do but that.
_RECORDED = """
select
    (select extract(epoch from min(e.recorded_at))::float8
     from onward_ledger.action_events e join onward_ledger.actions a using (action_id)
     where a.run_id::text = %(run_id)s and e.epoch = %(epoch)s and e.to_status = 'SUCCEEDED'),
    (select extract(epoch from finished_at)::float8 from onward.runs where run_id = %(run_id)s)
"""
_TRAIL = """
select extract(epoch from created_at)::float8 as at, kind || coalesce(' ' || step, '') || ' @' || coalesce(epoch, 0)
from onward.events where run_id = %(run_id)s and created_at > to_timestamp(%(killed_at)s)
union all
select extract(epoch from e.at)::float8, 'hint ' || e.type::text
from onward.procrastinate_events e join onward.procrastinate_jobs j on j.id = e.job_id
where j.args ->> 'run_id' = %(run_id)s and e.at > to_timestamp(%(killed_at)s)
order by 1
"""


class Onward(System):
    """Both workers on this machine, with their defaults."""

    name = "Onward"
    settings = (
        "two of `onward worker --graph` with their defaults, the same LangGraph graph; the effect by the ledger, as a "
        "queryable kind without resending"
    )
    packages = ("langgraph", "langgraph-checkpoint-postgres", "procrastinate", "psycopg")
    patience_seconds = 60.0
    ours = True

    hosts: ClassVar[dict[str, str]] = {}

    def prepare(self) -> None:
        """A database, the ledger with the kind of the effect, all tables, and who listens for checkpoints."""
        from runs.assembly import parts_for
        from runs.drain import Drain

        self._graph = self._project()
        dsn = self.place.database("onward_" + uuid.uuid4().hex[:8])
        home = self.folder / "home"
        home.mkdir(mode=0o700)
        objects = (home / "objects").as_uri()
        url, token = self._start_ledger(dsn, objects)
        self._settings = Settings(
            home=home,
            store="postgres",
            principal="experiment",
            database_url=dsn,
            objects=objects,
            ledger_url=url,
            ledger_token=SecretStr(token),
        )
        self._environment = {
            **self.place.environment,
            "ONWARD_HOME": str(home),
            "DATABASE_URL": dsn,
            "ONWARD_OBJECTS": objects,
            "ONWARD_LEDGER_URL": url,
            "ONWARD_LEDGER_TOKEN": token,
        }
        with parts_for(self._settings, Drain()):
            pass  # makes the tables
        self._input = self.folder / "input.json"
        self._input.write_text(json.dumps({"done": []}), encoding="utf-8")
        self._ledger = LedgerClient(url, token, principal="experiment")
        self._database = open_store(self._settings).database("onward experiment")
        self._looking: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self._looking.execute(_OBSERVER)
        self._checkpoints = Checkpoints(dsn)
        self._wait_for_an_older_server()

    def _wait_for_an_older_server(self) -> None:
        """A server frees all locks when it starts, so for one lease time afterwards an absent lock says nothing.

        That is another fault than these kills, and this server has only just been started.
        """
        row = self._looking.execute(
            "select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8"
        ).fetchone()
        assert row is not None
        time.sleep(max(self._settings.lease_seconds + 1.0 - row[0], 0.0))

    def _project(self) -> GraphSpec:
        project = self.folder / "project"
        project.mkdir()
        (project / "agent.py").write_text(AGENT, encoding="utf-8")
        return spec_of("agent.py:graph", folder=project)

    def _start_ledger(self, dsn: str, objects: str) -> tuple[str, str]:
        config, token_file = self.folder / "ledger.toml", self.folder / "ledger.token"
        template = Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8")
        config.write_text(Template(template).substitute(url=self.place.sink.url), encoding="utf-8")
        ready = self.folder / "ledger.ready"
        command = [sys.executable, "-m", "onward_ledger", "serve", "--store", dsn, "--objects", objects, "--port", "0"]
        command += ["--token-file", str(token_file), "--ready-file", str(ready), "--config", str(config)]
        self._ledger_process = start("ledger", bound(command), self.folder, {}, ready=ready)
        url = json.loads(self._ledger_process.wait_until_ready())["url"]
        return str(url), token_file.read_text(encoding="utf-8").strip()

    def ready(self) -> None:
        """See System. What a worker's processes said of themselves is in a file of the home, which is removed."""
        try:
            super().ready()
        except NotRun as error:
            log = self._settings.home / "drivers.log"
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.exists() else ""
            raise NotRun(f"{error} Its processes said: {said.strip() or 'nothing'}") from error

    def start(self, name: str) -> Child:
        """See System. The name of its host is another one where both pretend to be apart."""
        environment = dict(self._environment)
        if name in self.hosts:
            environment["ONWARD_HOST"] = self.hosts[name]
        settings = {"graph": self._graph.text}
        return start_worker(name, "onward", self.folder, environment, settings, says="concurrency")

    def submit(self) -> str:
        """Write the row down; the hint for the workers goes with it."""
        new = NewRun(
            kind=FOREIGN,
            owner="experiment",
            workflow_version=self._graph.version,
            params={"graph": {"spec": self._graph.text, "folder": str(self._graph.folder)}},
            store="postgres",
            ledger=local_ledger.ledger_id(self._settings),
        )
        return registry.create(self._database, Objects(self._settings.objects_url), self._input, new).run_id

    def ended(self, run_id: str) -> str | None:
        """The run's status, where it is an end or nobody but a person can go on."""
        row = self._looking.execute("select status::text from onward.runs where run_id = %s", (run_id,)).fetchone()
        return row[0] if row is not None and row[0] in _ENDS else None

    def victim(self, pid: int, target: Target) -> int:
        """The driver itself, or the worker that it is of."""
        if target == "driver":
            return pid
        workers = {child.pid for child in self.workers.values()}
        found = next((parent.pid for parent in psutil.Process(pid).parents() if parent.pid in workers), None)
        if found is None:
            raise NotRun(f"{self.name}: the process {pid} ran a step, and is of none of its workers.")
        return found

    def went_on(self, run_id: str, killed_at: float) -> WentOn:
        """The claim behind the kill, and the first checkpoint or receipt of its epoch."""
        claimed = self._looking.execute(
            "select epoch, extract(epoch from created_at)::float8, data ->> 'why' from onward.events"
            " where run_id = %s and kind = 'claimed' and created_at > to_timestamp(%s) order by seq limit 1",
            (run_id, killed_at),
        ).fetchone()
        if claimed is None:
            return WentOn(claimed_at=None, recorded_at=None)
        epoch, claimed_at, why = claimed
        others = self._looking.execute(_RECORDED, {"run_id": run_id, "epoch": epoch, "killed_at": killed_at}).fetchone()
        assert others is not None
        recorded = [at for at in (self._checkpoints.first(run_id, epoch), *others) if at is not None]
        first = min(recorded, default=None)
        return WentOn(claimed_at=claimed_at, recorded_at=first, why=why, trail=self._trail(run_id, killed_at))

    def _trail(self, run_id: str, killed_at: float) -> tuple[tuple[float, str], ...]:
        """The run's events and its hints in the queue since the kill, in order."""
        rows = self._looking.execute(_TRAIL, {"run_id": run_id, "killed_at": killed_at}).fetchall()
        return tuple((float(at), str(what)) for at, what in rows)

    def unknown(self, run_id: str) -> int:
        """By the ledger."""
        return sum(action.status is Status.UNKNOWN for action in self._ledger.actions(run_id))

    def effects(self, run_id: str) -> int:
        """The marker is the action's id."""
        from experiments.recovering.workers.onward_graph import key

        return len(self.place.sink.effects(marker=key(run_id).action_id))

    def close(self) -> None:
        """See System."""
        for name in ("_checkpoints", "_looking", "_database", "_ledger"):
            if hasattr(self, name):
                with closing(getattr(self, name)):
                    pass
        for child in self.workers.values():
            child.kill()
        if hasattr(self, "_ledger_process"):
            self._ledger_process.end()


class OnwardApart(Onward):
    """The workers say that they are on two machines, so neither asks its table of processes for the other."""

    name = "Onward, two machines"
    settings = "as before, with another ONWARD_HOST for each worker: as if they were on two machines"
    hosts: ClassVar[dict[str, str]] = {"one": "machine-one", "two": "machine-two"}


class Checkpoints:
    """When the first checkpoint of an epoch was there for others: its commit told it, and this process heard it."""

    def __init__(self, dsn: str) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self._connection.execute("listen recovering")
        self._first: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="checkpoints", daemon=True)
        self._thread.start()

    def first(self, run_id: str, epoch: int) -> float | None:
        """Unix seconds; None when there was none."""
        return self._first.get(f"{run_id}:{epoch}")

    def close(self) -> None:
        """Stop listening."""
        self._stopped.set()
        self._thread.join()
        self._connection.close()

    def _listen(self) -> None:
        while not self._stopped.is_set():
            for notice in self._connection.notifies(timeout=0.5, stop_after=1):
                self._first.setdefault(notice.payload, time.time())
