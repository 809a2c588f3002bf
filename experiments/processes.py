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
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from experiments.errors import NotRun
from experiments.story import END, Process, Story

PRELOADED = "experiments.preload"

# A process that neither ends nor dies within this time is stopped, and its case proves nothing.
LONGEST_SECONDS = 60.0

Work = Callable[..., str]


class ForkServer:
    """Starts processes. `work(story, *arguments)` runs in each; what it returns is the last line of its story."""

    def __init__(self) -> None:
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOADED])

    def warm_up(self, folder: Path) -> None:
        """Start the fork server and let it import; a mistake in an import shows here, not as a slow case."""
        started = self.run(_imported, folder / "warm-up")
        if started.exit_code != 0 or started.end != "ready":
            raise NotRun.because("fork server", folder / "warm-up.err")

    def run(self, work: Work, told: Path, *arguments: Any) -> Process:
        """Run `work` in a process of its own until that ends; its story, which stays in the file `told`."""
        process = self._context.Process(target=_work, args=(work, told, arguments))
        process.start()
        try:
            process.join(LONGEST_SECONDS)
        finally:
            if process.is_alive():
                process.kill()
                process.join()
                told.with_suffix(".stopped").touch()
        stopped = told.with_suffix(".stopped").exists()
        return Process.read(told, None if stopped else process.exitcode)


def _work(work: Work, told: Path, arguments: tuple[Any, ...]) -> None:
    """The whole life of a process of a case."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the experiment, which then stops this process
    errors = os.open(told.with_suffix(".err"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
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
