"""Plain Procrastinate: see experiments.recovering.workers.procrastinate."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

import psycopg

from experiments.recovering.children import Child, start_worker
from experiments.recovering.systems.system import System

_ENDS = ("succeeded", "failed", "cancelled", "aborted")


class Procrastinate(System):
    """Everything as documented: a heartbeat every 10 seconds, and a worker is stalled 30 seconds after its last one."""

    name = "Procrastinate"
    settings = (
        "one job for the work; documented defaults (a worker is stalled 30 s after its last heartbeat); beside each "
        "worker a loop retries the jobs of stalled workers once a second"
    )
    packages = ("procrastinate",)
    patience_seconds = 90.0

    stalled_after_seconds: ClassVar[float | None] = None
    worker: ClassVar[dict[str, Any]] = {}

    def prepare(self) -> None:
        """A database with its tables."""
        from procrastinate import SyncPsycopgConnector

        from experiments.recovering.workers import procrastinate as worker

        self._dsn = self.place.database("procrastinate_" + uuid.uuid4().hex[:8])
        self._app = worker.application(SyncPsycopgConnector(conninfo=self._dsn))
        self._task = worker.TASK
        self._connection: psycopg.Connection[Any] = psycopg.connect(self._dsn, autocommit=True)
        self._app.open()
        self._app.schema_manager.apply_schema()

    def start(self, name: str) -> Child:
        """See System."""
        settings = {"dsn": self._dsn, "stalled_after_seconds": self.stalled_after_seconds, "worker": self.worker}
        return start_worker(name, "procrastinate", self.folder, self.place.environment, settings)

    def submit(self) -> str:
        """Defer the job."""
        run_id = str(uuid.uuid4())
        self._app.tasks[self._task].defer(run_id=run_id)
        return run_id

    def ended(self, run_id: str) -> str | None:
        """The status of the job."""
        row = self._connection.execute(
            "select status::text from procrastinate_jobs where args ->> 'run_id' = %s", (run_id,)
        ).fetchone()
        return row[0] if row is not None and row[0] in _ENDS else None

    def close(self) -> None:
        """See System."""
        if hasattr(self, "_connection"):
            self._connection.close()
            self._app.close()


class ProcrastinateTuned(Procrastinate):
    """The same with everything as short as its documentation lets one set it within reason."""

    name = "Procrastinate, tuned"
    settings = (
        "as before with a heartbeat every second, a worker stalled 3 s after its last one, and jobs looked for twice a "
        "second"
    )
    patience_seconds = 45.0
    stalled_after_seconds = 3.0
    worker: ClassVar[dict[str, Any]] = {
        "update_heartbeat_interval": 1.0,
        "stalled_worker_timeout": 3.0,
        "fetch_job_polling_interval": 0.5,
    }
