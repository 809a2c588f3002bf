"""Real processes from a fork server.

Importing LangGraph takes three seconds, and every case needs fresh processes. So one process imports everything once
(`experiments.preload`) and does nothing else: it has no connection and has computed nothing. Each process of a case is
forked from it. What such a process does, and how it dies, is its own: `os._exit` and SIGKILL end it like any other.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from experiments.errors import NotRun
from experiments.story import END, Process, Story, errors_of

PRELOADED = "experiments.preload"

# A process that neither ends nor dies within this time is stopped, and its case proves nothing.
LONGEST_SECONDS = 60.0

Work = Callable[..., str]


class ForkServer:
    """Starts processes. `work(story, *arguments)` runs in each; what it returns is the last line of its story.

    May be used by several threads. Leaving the context kills what still runs.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOADED])
        forkserver.ensure_running()  # returns at once: it imports while the services of the experiment start
        self._running: set[BaseProcess] = set()
        self._closed = False
        # multiprocessing reads an exit code once, by whoever asks first; two threads at once would lose it.
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()

    def warm_up(self, folder: Path) -> None:
        """Wait until the fork server has imported; a mistake in an import shows here, not as a slow case."""
        started = self.run(_imported, folder / "warm-up")
        if started.exit_code != 0 or started.end != "ready":
            raise NotRun.because("fork server", errors_of(folder / "warm-up"))

    def run(self, work: Work, told: Path, *arguments: Any) -> Process:
        """Run `work` in a process of its own until that ends; its story, which stays in the file `told`."""
        with self._lock:
            if self._closed:
                raise NotRun("The experiment was stopped.")
            process = self._context.Process(target=_work, args=(work, told, arguments))
            process.start()
            self._running.add(process)
        ended = bool(connection.wait([process.sentinel], LONGEST_SECONDS))
        with self._lock:
            self._running.discard(process)
            if not ended:
                process.kill()
            process.join()
            return Process.read(told, process.exitcode if ended else None)


def _work(work: Work, told: Path, arguments: tuple[Any, ...]) -> None:
    """The whole life of a process of a case."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the experiment, which then stops this process
    errors = os.open(errors_of(told), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    story = Story(told)
    story.tell(END + work(story, *arguments))
    sys.stdout.flush()


def _imported(story: Story) -> str:
    """Be there with every import done. What the fork server could not import fails here with its reason."""
    if PRELOADED not in sys.modules:
        importlib.import_module(PRELOADED)
        raise ImportError(f"The fork server has not imported {PRELOADED}, and this process has.")
    return "ready"
