"""Real processes from a fork server.

Importing LangGraph takes three seconds, and every case needs fresh processes. So one process imports everything once
(`experiments.preload`) and does nothing else: it has no connection and holds no data. Each process of a case is
forked from it. What such a process does, and how it dies, is its own: `os._exit` and SIGKILL end it like any other.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import psutil

from experiments.errors import NotRun
from experiments.story import END, Process, Story, errors_of
from tools.process import die_with_parent

PRELOADED = "experiments.preload"

# A process that neither ends nor dies within this time is stopped, and its case proves nothing.
LONGEST_SECONDS = 60.0
LOOK_EVERY_SECONDS = 0.005

Work = Callable[..., str]


class Running:
    """One process of a case, from its start to its end."""

    def __init__(self, process: BaseProcess, told: Path, lock: threading.Lock) -> None:
        self._process = process
        self._lock = lock
        self._killed_late = False
        self._ended = False
        self.told = told

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet; a stopped process lives."""
        # Between its exit code and the end of its pipe there is a moment in which the pipe says nothing.
        return not self._ended and not self.ends_within(0)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end, at most so long."""
        return bool(connection.wait([self._process.sentinel], seconds))

    def wait(self, seconds: float = LONGEST_SECONDS) -> Process:
        """Wait for its end; its story. One that takes longer is killed and has no exit code."""
        if not self.ends_within(seconds):
            self._killed_late = True
            self.kill()
        with self._lock:
            self._process.join()
            self._ended = True
            return Process.read(self.told, None if self._killed_late else self._process.exitcode)

    def wait_until_stopped(self, seconds: float = LONGEST_SECONDS) -> bool:
        """Wait until a fault has stopped it; False when it ended instead, or nothing happened."""
        process, deadline = psutil.Process(self.pid), time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if process.status() == psutil.STATUS_STOPPED:
                    return True
            except psutil.NoSuchProcess:
                return False
            if not self.alive:
                return False
            time.sleep(LOOK_EVERY_SECONDS)
        return False

    def stop(self) -> None:
        """SIGSTOP: it falls silent where it is."""
        if self.alive:
            os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        if self.alive:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; a stopped process dies of it too."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.alive:
            os.kill(self.pid, signal.SIGTERM)


class ForkServer:
    """Starts processes. `work(story, *arguments)` runs in each; what it returns is the last line of its story.

    May be used by several threads. Leaving the context kills what still runs.
    """

    def __init__(self, preloaded: str = PRELOADED) -> None:
        self._preloaded = preloaded
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([preloaded])
        forkserver.ensure_running()  # returns at once: it imports while the services of the experiment start
        self._running: set[Running] = set()
        self._closed = False
        # multiprocessing reads an exit code once, by whoever asks first; two threads at once would lose it.
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Start nothing any more, and kill what runs."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.kill()

    def warm_up(self, folder: Path) -> None:
        """Wait until the fork server has imported; a mistake in an import shows here, not as a slow case."""
        started = self.run(_imported, folder / "warm-up", self._preloaded)
        if started.exit_code != 0 or started.end != "ready":
            raise NotRun.because("fork server", errors_of(folder / "warm-up"))

    def start(self, work: Work, told: Path, *arguments: Any) -> Running:
        """Start `work` in a process of its own; its story goes to the file `told`."""
        with self._lock:
            if self._closed:
                raise NotRun("The experiment was stopped.")
            process = self._context.Process(target=_work, args=(work, told, arguments))
            with _no_main_module():
                process.start()
            running = Running(process, told, self._lock)
            self._running = {other for other in self._running if other.alive} | {running}
            return running

    def run(self, work: Work, told: Path, *arguments: Any, seconds: float = LONGEST_SECONDS) -> Process:
        """Run `work` in a process of its own until that ends; its story."""
        return self.start(work, told, *arguments).wait(seconds)


@contextmanager
def _no_main_module() -> Generator[None]:
    """Hide the command that runs the experiment from multiprocessing, which would import it anew in every process.

    What a process does is always a function of a module, so nothing of it is needed there.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(work: Work, told: Path, arguments: tuple[Any, ...]) -> None:
    """The whole life of a process of a case."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the experiment, which then stops this process
    die_with_parent(os.getppid())  # the fork server, which ends with the experiment
    _let_the_fork_server_end()
    errors = os.open(errors_of(told), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    story = Story(told)
    story.tell(END + work(story, *arguments))
    sys.stdout.flush()


def _let_the_fork_server_end() -> None:
    """Close what this process holds of the experiment's life line.

    The fork server ends when nobody holds the other end any more. multiprocessing hands it to every process, so that a
    killed experiment would leave a ledger that waits for the fork server's end, and a fork server that waits for its.
    """
    server: Any = forkserver._forkserver  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def _imported(story: Story, preloaded: str) -> str:
    """Be there with every import done. What the fork server could not import fails here with its reason."""
    if preloaded not in sys.modules:
        importlib.import_module(preloaded)
        raise ImportError(f"The fork server has not imported {preloaded}, and this process has.")
    return "ready"
