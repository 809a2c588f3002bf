"""Plain LangGraph: see experiments.recovering.workers.langgraph."""

from __future__ import annotations

import uuid

from experiments.recovering.children import Child, start_worker
from experiments.recovering.systems.system import System


class LangGraph(System):
    """Nobody resumes by itself, so somebody calls right behind the kill, with a process of his own."""

    name = "LangGraph"
    settings = (
        "stock PostgresSaver, durability sync; nobody resumes a thread by itself, so somebody is there to call it "
        "again, in a new process, right behind the kill"
    )
    packages = ("langgraph", "langgraph-checkpoint-postgres")
    patience_seconds = 30.0

    def prepare(self) -> None:
        """A database with its tables."""
        from langgraph.checkpoint.postgres import PostgresSaver

        self._dsn = self.place.database("langgraph_" + uuid.uuid4().hex[:8])
        self._calls: dict[str, Child] = {}
        with PostgresSaver.from_conn_string(self._dsn) as saver:
            saver.setup()

    def ready(self) -> None:
        """There are no workers."""

    def start(self, name: str) -> Child:
        """A process that drives the thread with this id."""
        settings = {"dsn": self._dsn, "run_id": name}
        return start_worker(name, "langgraph", self.folder, self.place.environment, settings)

    def submit(self) -> str:
        """Call it for the first time."""
        run_id = str(uuid.uuid4())
        self._calls[run_id] = self.start(run_id)
        return run_id

    def killed(self, run_id: str, pid: int) -> None:
        """Call it again."""
        self._calls[run_id].kill()
        self._calls[run_id] = self.start(run_id)

    def ended(self, run_id: str) -> str | None:
        """Whether the last call has come back."""
        code = self._calls[run_id].process.poll()
        return None if code is None or code < 0 else f"exit {code}"

    def close(self) -> None:
        """See System."""
        for child in getattr(self, "_calls", {}).values():
            child.kill()
