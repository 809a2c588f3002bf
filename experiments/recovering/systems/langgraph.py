"""Plain LangGraph: see experiments.recovering.workers.langgraph."""

from __future__ import annotations

import socket
import uuid

from experiments.recovering.children import Child, start_worker
from experiments.recovering.systems.system import NAMES, System


class LangGraph(System):
    """Nobody resumes by itself, so somebody calls the other process right behind the kill."""

    name = "LangGraph, called at once"
    settings = (
        "stock PostgresSaver, durability sync; two processes; nobody resumes a thread by itself, so somebody is there "
        "who has its id and calls the other process right behind the kill"
    )
    packages = ("langgraph", "langgraph-checkpoint-postgres")
    patience_seconds = 30.0

    def prepare(self) -> None:
        """A database with its tables."""
        from langgraph.checkpoint.postgres import PostgresSaver

        self._dsn = self.place.database("langgraph_" + uuid.uuid4().hex[:8])
        with PostgresSaver.from_conn_string(self._dsn) as saver:
            saver.setup()

    def start(self, name: str) -> Child:
        """See System."""
        settings = {"dsn": self._dsn, "address": str(self.folder / name)}
        return start_worker(name, "langgraph", self.folder, self.place.environment, settings)

    def submit(self) -> str:
        """Call it for the first time."""
        run_id = str(uuid.uuid4())
        self._call(NAMES[0], run_id)
        return run_id

    def killed(self, run_id: str, pid: int) -> None:
        """Call it again, elsewhere."""
        self._call(next(name for name in NAMES if name != self.child_of(pid)), run_id)

    def _call(self, name: str, run_id: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as calling:
            calling.sendto(run_id.encode(), str(self.folder / name))

    def ended(self, run_id: str) -> str | None:
        """Whether a call has come to the end."""
        return "completed" if (self.folder / f"{run_id}.ended").exists() else None

    def close(self) -> None:
        """See System."""
