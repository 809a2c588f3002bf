"""DBOS without its Conductor: see experiments.recovering.workers.dbos."""

from __future__ import annotations

import time
import uuid
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from experiments.recovering.children import Child, start_worker
from experiments.recovering.systems.system import System

_ENDS = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
SETTLE_SECONDS = 30.0


class DbosSame(System):
    """Whoever runs it starts the killed executor again at once, under its own id."""

    name = "DBOS, same executor"
    settings = (
        "a workflow of five steps from a queue; two executors; without Conductor an executor recovers what is its own "
        "when it starts, and the killed one is started again at once"
    )
    packages = ("dbos",)
    patience_seconds = 60.0

    def prepare(self) -> None:
        """A database; DBOS makes its tables when the first executor starts."""
        name = "dbos_" + uuid.uuid4().hex[:8]
        self._dsn = self.place.database(name)
        self._url = _url(self._dsn)
        self._connection: psycopg.Connection[Any] = psycopg.connect(self._dsn, autocommit=True)
        self._client: Any = None

    def start(self, name: str) -> Child:
        """See System."""
        settings = {"url": self._url, "executor_id": name}
        child = start_worker(name, "dbos", self.folder, self.place.environment, settings)
        if self._client is None:
            child.wait_until_ready()  # it makes the tables, and two at once might not
        return child

    def submit(self) -> str:
        """Enqueue the workflow under an id of ours."""
        from dbos import DBOSClient, EnqueueOptions

        if self._client is None:
            self._client = DBOSClient(system_database_url=self._url)
        run_id = str(uuid.uuid4())
        options = EnqueueOptions(workflow_name="five_steps", queue_name="work", workflow_id=run_id, app_version="1")
        self._client.enqueue(options, run_id)
        return run_id

    def ended(self, run_id: str) -> str | None:
        """The status of the workflow."""
        row = self._connection.execute(
            "select status from dbos.workflow_status where workflow_uuid = %s", (run_id,)
        ).fetchone()
        return row[0] if row is not None and row[0] in _ENDS else None

    def killed(self, run_id: str, pid: int) -> None:
        """Start the killed executor again."""
        name = self.child_of(pid)
        self.workers[name].kill()
        self.workers[name] = self.start(name)

    def close(self) -> None:
        """See System."""
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._client is not None:
            self._client.destroy()


class DbosOther(DbosSame):
    """The killed executor stays away; the other one is there, and has nothing else to do."""

    name = "DBOS, other executor"
    settings = "as before, but the killed executor is not started again; the other one is up, with nothing to do"
    patience_seconds = 15.0

    def killed(self, run_id: str, pid: int) -> None:
        """Nobody starts it."""

    def settle(self, run_id: str) -> None:
        """Start the killed executor after all, and let it finish the run."""
        self.ready()
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.ended(run_id) is None and time.monotonic() < deadline:
            time.sleep(0.05)


def _url(dsn: str) -> str:
    """The same address as SQLAlchemy writes it."""
    from sqlalchemy import URL

    known = conninfo_to_dict(dsn)
    made = URL.create(
        "postgresql+psycopg",
        username=str(known["user"]),
        database=str(known["dbname"]),
        query={"host": str(known["host"]), "port": str(known.get("port", "5432"))},
    )
    return made.render_as_string(hide_password=False)
