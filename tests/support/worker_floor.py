"""Real `onward worker` processes over one database, and runs for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from graph.versions import CURRENT
from onward_ledger.client import LedgerClient
from onward_ledger.objects import Objects
from runs import local_ledger, registry
from runs.registry import NewRun, Run
from runs.settings import Settings
from runs.store import open_store
from tests.support.cli_world import PATIENCE_SECONDS, ROOT, is_gone

MODEL = "tests.support.told_analyst:analyst"
TABLE = "region,revenue\nNorth,10\nSouth,20\nNorth,5\n"


def until(holds: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until something is so; what it is."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it did not come to {what}"
        time.sleep(0.01)
    return found


class Floor:
    """Workers of one database and one ONWARD_HOME."""

    def __init__(self, folder: Path, dsn: str, lease_seconds: float) -> None:
        self.folder = folder
        self.told = folder / "told"
        self.told.mkdir()
        self.source = folder / "sales.csv"
        self.source.write_text(TABLE)
        self.lease_seconds = lease_seconds
        self.settings = Settings(
            home=folder / "home", store="postgres", principal="alice", database_url=dsn, lease_seconds=lease_seconds
        )
        self.workers: list[subprocess.Popen[str]] = []
        self.log = folder / "workers.log"

    # --- workers ------------------------------------------------------------------------------------------------------

    def start(self, concurrency: int = 3) -> subprocess.Popen[str]:
        """Start a worker; `ready` waits for it."""
        with self.log.open("a") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "runs.cli", "worker", "--concurrency", str(concurrency), "--output", "json"],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.workers.append(worker)
        return worker

    def ready(self, worker: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait until a worker says that it is ready, which is all that it says on stdout; what it says."""
        assert worker.stdout is not None
        text = ""
        with worker.stdout as said:
            while not text.endswith("}\n"):
                line = said.readline()
                assert line, self.log.read_text()
                text += line
        return json.loads(text)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "LEDGER_", "PG"))}
        return kept | {
            "ONWARD_HOME": str(self.settings.home),
            "DATABASE_URL": str(self.settings.database_url),
            "ONWARD_PRINCIPAL": "alice",
            "ONWARD_LEASE_SECONDS": str(self.lease_seconds),
            "ONWARD_TEST_TOLD": str(self.told),
        }

    def keep(self, count: int) -> None:
        """Have so many workers: start what is missing, at once, and wait until all are ready."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for worker in [self.start() for _ in range(count - len(self.workers))]:
            self.ready(worker)

    def worker_of(self, pid: int) -> subprocess.Popen[str]:
        """The worker of a driver's process: the parent of its fork server."""
        server = psutil.Process(pid).parent()
        assert server is not None
        return next(worker for worker in self.workers if worker.pid == server.ppid())

    def close(self) -> None:
        """Kill what runs, by pid, and stop the ledger that the workers have started."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
        command = [sys.executable, "-m", "runs.cli", "down", "--force"]
        subprocess.run(command, cwd=ROOT, env=self._environment(), capture_output=True, check=False, timeout=60)

    # --- runs ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def database(self) -> Iterator[Any]:
        """The database of the runs."""
        with closing(open_store(self.settings).database("onward test")) as opened:
            yield opened

    @contextmanager
    def ledger(self) -> Iterator[LedgerClient]:
        """The ledger that the workers use."""
        with closing(local_ledger.connect(self.settings)) as client:
            yield client

    def queue(self, *, told: str | None = None, version: str = CURRENT) -> str:
        """A new run, its publication approved, and what its drivers are told to do; its id."""
        new = NewRun(
            owner="alice",
            workflow_version=version,
            store="postgres",
            ledger=local_ledger.ledger_id(self.settings),
            asks=("total revenue",),
            model=MODEL,
            deadline_at=None,
        )
        with self.ledger() as ledger, self.database() as database:
            # The trigger hints at once, so what the drivers are told, and the grant, must be there before.
            run_id = registry.create(database, Objects(self.settings.objects_url), self.source, new).run_id
            if told is not None:
                (self.told / run_id).write_text(told)
            expires_at = datetime.now(UTC) + timedelta(hours=1)
            ledger.grant(run_id, kind="report.publish", expires_at=expires_at)
        return run_id

    def run(self, run_id: str) -> Run:
        """The row as it stands."""
        with self.database() as database:
            return registry.get(database, run_id)

    def events(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """Its events of a kind, in order: epoch, step, data, created_at."""
        with self.database() as database:
            rows = database.read("events_after", run_id=run_id, after=0, limit=1000)
        return [row for row in rows if row["kind"] == kind]

    def steps(self, run_id: str) -> list[str]:
        """The steps that began, in order, over all epochs."""
        return [str(event["step"]) for event in self.events(run_id, "step_started")]

    def ends(self, run_id: str, status: str = "succeeded") -> Run:
        """Wait for the end of a run, which must be this one."""
        run = until(lambda: (found := self.run(run_id)).finished and found, f"the end of {run_id}")
        assert run.status == status, (run.reason, run.message, self.log.read_text()[-2000:])
        return run

    def held(self, run_id: str) -> int:
        """Wait until a driver is where it was told to hold; its pid."""
        mark = self.told / f"{run_id} at"
        until(lambda: mark.exists() and mark.read_text(), "the step where it is held")
        return int(mark.read_text())

    def let_go(self, run_id: str) -> None:
        """Let whoever is held go on, and nobody be held again."""
        (self.told / f"{run_id} go").touch()

    def forget(self, run_id: str) -> None:
        """What drivers were told of this run, from now on no more."""
        (self.told / run_id).unlink()


def gone(pid: int, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for the end of a process."""
    until(lambda: is_gone(pid), f"the end of process {pid}", seconds)


def stop(pid: int) -> None:
    """SIGSTOP, and wait until it is stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "a stopped process")
