"""`onward up`: Postgres, the ledger and workers under one supervisor.

    start    Postgres, then the ledger (where they are local), then the workers
    watch    whoever ends is started again: a worker after a pause that grows while it keeps ending, a service at once
    stop     the workers hand their runs back; then the ledger, then Postgres

It keeps nothing. When it is killed, its workers end with it (they read a pipe that only it holds) and their runs can be
taken over; Postgres and the ledger live on, and the next command finds them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import IO

from runs import local_ledger, local_postgres
from runs.errors import Exit, RunError
from runs.holder import process_started
from runs.settings import Settings

LOOK_SECONDS = 0.25
# A worker that ends at once again and again is started after these pauses; one that lived for a while, at once.
PAUSES_SECONDS = (0.0, 0.5, 2.0, 8.0, 30.0)
LIVED_SECONDS = 60.0

Tell = Callable[[str, str], None]
"""Tells a line of somebody's: (who, line)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """So many workers, so many runs in each, what a step may take to end, and whose graph, if not ours."""

    workers: int
    concurrency: int
    grace_seconds: float
    graph: str | None = None


@dataclass(kw_only=True)
class _Worker:
    name: str
    process: subprocess.Popen[str] | None = None
    began: float = 0.0
    ends: int = 0
    again_at: float = 0.0
    readers: list[threading.Thread] = field(default_factory=list[threading.Thread])


class Supervisor:
    """Runs in the main thread, from `run` until somebody asks to stop. `on_ready`: all workers have said they are."""

    def __init__(self, settings: Settings, options: Options, tell: Tell, on_ready: Callable[[], None]) -> None:
        self._settings = settings
        self._options = options
        self._tell = tell
        self._on_ready = on_ready
        self._workers = [_Worker(name=f"worker {n}") for n in range(1, options.workers + 1)]
        self._ready: set[str] = set()
        self._asked = 0
        self._postgres: int | None = None
        self._life, self._ours = os.pipe()

    def run(self) -> int:
        """The exit code. Raises what keeps the services from starting the first time."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._start_services()
            while not self._asked:
                self._look()
                time.sleep(LOOK_SECONDS)
        finally:
            self._end_workers()
            self._stop_services()
            os.close(self._ours)
            os.close(self._life)
            for number, handler in before.items():
                signal.signal(number, handler)
        return Exit.OK

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1

    # --- services -----------------------------------------------------------------------------------------------------

    def _start_services(self) -> None:
        if self._settings.database_url is None:
            self._ensure_postgres()
            self._tell("postgres", f"answers, process {self._postgres}")
        if self._settings.ledger_url is None:
            address = local_ledger.ensure(self._settings)
            self._tell("ledger", f"answers at {address.url}, process {address.pid}")

    def _ensure_postgres(self) -> None:
        local_postgres.ensure(self._settings.home)
        self._postgres = local_postgres.status(self._settings.home).pid

    def _keep_services(self) -> None:
        """What was started here is started again when it has gone."""
        settings = self._settings
        try:
            if settings.database_url is None and process_started(self._postgres or 0) is None:
                self._ensure_postgres()
                self._tell("postgres", f"was gone; it runs again, process {self._postgres}")
            if settings.ledger_url is None and local_ledger.is_gone(settings):
                address = local_ledger.ensure(settings)
                self._tell("ledger", f"was gone; it runs again, process {address.pid}")
        except (RunError, local_postgres.LocalPostgresError, OSError) as error:
            self._tell("onward", f"A service cannot be started, it is tried again: {error}")

    def _stop_services(self) -> None:
        settings = self._settings
        if settings.ledger_url is None and local_ledger.stop(settings):
            self._tell("ledger", "stopped")
        if settings.database_url is None and local_postgres.stop(settings.home):
            self._tell("postgres", "stopped")

    # --- workers ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._keep_services()
        now = time.monotonic()
        for worker in self._workers:
            if worker.process is not None and worker.process.poll() is not None:
                self._note_end(worker, worker.process.returncode, now)
            if worker.process is None and now >= worker.again_at:
                self._start(worker)

    def _note_end(self, worker: _Worker, code: int, now: float) -> None:
        worker.process = None
        worker.ends = 0 if now - worker.began >= LIVED_SECONDS else worker.ends + 1
        pause = PAUSES_SECONDS[min(worker.ends, len(PAUSES_SECONDS)) - 1] if worker.ends else 0.0
        worker.again_at = now + pause
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        again = f"again in {pause:g} seconds" if pause else "again at once"
        self._tell(worker.name, f"ended ({how}); {again}")

    def _start(self, worker: _Worker) -> None:
        options = self._options
        graph = () if options.graph is None else ("--graph", options.graph)
        worker.process = subprocess.Popen(
            [
                # A worker works where `onward up` was typed: graphs are named from there (-P: modules are not).
                *(sys.executable, "-P", "-m", "runs.cli", "worker", "--output", "json"),
                *("--store", self._settings.store),
                *("--concurrency", str(options.concurrency), "--grace", str(options.grace_seconds), *graph),
                *("--owner", str(os.getpid()), "--owner-pipe", str(self._life)),
            ],
            env={**os.environ, "ONWARD_HOME": str(self._settings.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=(self._life,),
            start_new_session=True,  # Ctrl-C is for the supervisor, which passes it on
        )
        worker.began = time.monotonic()
        assert worker.process.stdout is not None
        assert worker.process.stderr is not None
        worker.readers = [
            self._reader(worker, worker.process.stdout, self._heard_ready),
            self._reader(worker, worker.process.stderr, self._tell),
        ]

    def _reader(self, worker: _Worker, stream: IO[str], heard: Tell) -> threading.Thread:
        def read() -> None:
            with stream, contextlib.suppress(ValueError):
                for line in stream:
                    heard(worker.name, line.rstrip("\n"))

        thread = threading.Thread(target=read, name=worker.name, daemon=True)
        thread.start()
        return thread

    def _heard_ready(self, name: str, line: str) -> None:
        """A worker's one line of data: it is ready."""
        first = len(self._ready) < len(self._workers)
        self._ready.add(name)
        if first and len(self._ready) == len(self._workers):
            self._on_ready()

    def _end_workers(self) -> None:
        """They hand back what they drive, within their grace period; asked a second time, at once."""
        living = [worker.process for worker in self._workers if worker.process is not None]
        _send(living, signal.SIGTERM)
        deadline = time.monotonic() + self._options.grace_seconds + 5.0
        told = self._asked
        while any(process.poll() is None for process in living):
            if self._asked > max(told, 1) or time.monotonic() > deadline:
                _send(living, signal.SIGKILL)
                break
            time.sleep(LOOK_SECONDS / 5)
        for process in living:
            process.wait()
        for worker in self._workers:
            for reader in worker.readers:
                reader.join(timeout=2)


def _send(processes: list[subprocess.Popen[str]], number: signal.Signals) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)
