"""So many workers; each is started again when it has ended, as a supervisor would."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

import psutil

from experiments.errors import NotRun
from experiments.recovering.children import Child, start
from experiments.soaking.place import Place

READY = "concurrency"
READY_SECONDS = 120.0
STOP_SECONDS = 20.0


class Workers:
    """Belongs to the main thread: Linux ends a child with the thread that started it."""

    def __init__(self, place: Place, count: int, concurrency: int = 1) -> None:
        self._place = place
        self._concurrency = concurrency
        self._starts = 0
        self.slots: list[Child] = [self._start() for _ in range(count)]
        self.restarts = 0

    def _start(self) -> Child:
        self._starts += 1
        command = [sys.executable, "-m", "experiments.soaking.worker", str(os.getpid())]
        command += ["--concurrency", str(self._concurrency)]
        folder = self._place.folder
        return start(f"worker-{self._starts}", command, folder, self._place.environment, says=READY)

    def more(self, count: int) -> None:
        """Start so many more."""
        self.slots += [self._start() for _ in range(count)]

    def keep(self) -> None:
        """Start those again that have ended."""
        for number, child in enumerate(self.slots):
            if not child.alive:
                child.end()
                self.slots[number] = self._start()
                self.restarts += 1

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until each has said that it is ready. Raises NotRun with its last words."""
        deadline = time.monotonic() + seconds
        for child in self.slots:
            child.wait_until_ready(max(1.0, deadline - time.monotonic()))

    def drivers(self) -> list[psutil.Process]:
        """The processes that drive runs now: children of the workers' fork servers."""
        found: list[psutil.Process] = []
        for server in self.fork_servers():
            with suppress(psutil.Error):
                found += server.children()
        return found

    def fork_servers(self) -> list[psutil.Process]:
        """One for each worker that has got so far."""
        found: list[psutil.Process] = []
        for child in self.slots:
            with suppress(psutil.Error):
                found += [p for p in psutil.Process(child.pid).children() if "forkserver" in " ".join(p.cmdline())]
        return found

    def stop(self, count: int | None = None) -> None:
        """Ask the last so many to end, or all; kill those that do not."""
        going = self.slots[len(self.slots) - count :] if count is not None else self.slots
        self.slots = self.slots[: len(self.slots) - len(going)]
        for child in going:
            if child.alive:
                with suppress(ProcessLookupError):
                    child.process.send_signal(signal.SIGTERM)
        for child in going:
            child.end(signal.SIGTERM, STOP_SECONDS)


def refuse_dead(workers: Workers) -> None:
    """Raise NotRun when a worker that nobody killed has ended."""
    for child in workers.slots:
        if not child.alive:
            raise NotRun.because(child.name, child.said)
