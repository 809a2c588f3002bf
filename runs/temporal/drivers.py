"""The driver processes of a worker, forked from a server that has imported everything, as those of `onward worker` are.

Each is a process of its own, and ends with its worker, however that one ends. Activities run on threads, so starting
and reaping are done one at a time: `multiprocessing` reaps whatever has ended when it starts something.
"""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from onward_ledger.database import DatabaseError
from onward_ledger.errors import LedgerError
from runs.crew import be_driver
from runs.errors import RunError, ServiceUnreachable
from runs.forking import fork_context
from runs.settings import Settings


class ForkedDriver:
    """See `runs.temporal.tending.Driver`."""

    def __init__(self, process: ForkServerProcess, lock: threading.Lock, log: Path) -> None:
        assert process.pid is not None
        self.pid: int = process.pid
        self._process = process
        self._lock = lock
        self._log = log
        self._code: int | None = None

    def has_ended(self, within_seconds: float) -> bool:
        """See Driver.has_ended."""
        if not self._reaped():
            wait([self._process.sentinel], within_seconds)
        return self._reaped()

    def _reaped(self) -> bool:
        with self._lock:
            if self._code is None:
                self._code = self._process.exitcode
            return self._code is not None

    def drain(self) -> None:
        """See Driver.drain."""
        self._process.terminate()

    def kill(self) -> None:
        """See Driver.kill."""
        self._process.kill()

    @property
    def exit_code(self) -> int:
        """See Driver.exit_code."""
        assert self._code is not None
        return self._code

    @property
    def told(self) -> str:
        """See Driver.told."""
        return f"The driver (process {self.pid}) ended with exit code {self.exit_code}; {self._log} says more."

    def close(self) -> None:
        """See Driver.close."""
        if not self._reaped():
            self.kill()
        while not self.has_ended(within_seconds=1.0):
            pass
        with self._lock:
            self._process.close()


class Drivers:
    """Starts drivers with one set of settings. `graph`: whose graphs they drive, if not ours."""

    def __init__(self, settings: Settings, graph: str | None = None) -> None:
        self._settings = settings
        self._graph = graph
        self._log = settings.home / "drivers.log"
        self._lock = threading.Lock()
        self._context = fork_context()
        self._life, self._ours = self._context.Pipe(duplex=False)

    def warm_up(self) -> None:
        """Start the fork server, and let a first fork see whether a drive could begin. Raises ServiceUnreachable."""
        answer, asked = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_be_first, args=(self._settings, asked), name="first")
        process.start()
        asked.close()
        try:
            trouble = answer.recv()
        except EOFError:
            trouble = "The first process of this worker ended without a word."
        process.join()
        if trouble:
            raise ServiceUnreachable(trouble)

    def start(self, run_id: str) -> ForkedDriver:
        """A driver for this run."""
        with self._lock:
            process = self._context.Process(
                target=be_driver,
                args=(run_id, self._settings, self._life, self._log, self._graph),
                name=f"driver {run_id}",
            )
            process.start()
        return ForkedDriver(process, self._lock, self._log)

    def close(self) -> None:
        """Close the life line: what is left of the drivers ends."""
        self._ours.close()
        self._life.close()


def _be_first(settings: Settings, answer: Connection[Any, Any]) -> None:
    """The whole life of the fork that looks."""
    from runs.assembly import parts_for
    from runs.drain import Drain

    try:
        with parts_for(settings, Drain()):
            answer.send("")
    except (RunError, DatabaseError, LedgerError) as error:
        answer.send(str(error))
