"""`onward worker` on a host of its own, with a data folder of its own; nothing shared but what the product says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from experiments.cluster import ROOT
from experiments.errors import NotRun
from experiments.hosts.network import Host
from experiments.hosts.skew import Clock
from runs.settings import Settings

START_SECONDS = 180.0  # a bound on a busy machine, not a wait
STOP_SECONDS = 15.0


class _Words:
    """What one process says on stdout: a first line when it is ready; the others are read, so that it never waits."""

    def __init__(self) -> None:
        self.said = threading.Event()
        self.first_line = b""

    def listen(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                self.first_line = self.first_line or line
                self.said.set()
        self.said.set()


class Worker:
    """One worker process and the drivers that it starts. Usable as a context manager."""

    def __init__(self, host: Host, settings: Settings, concurrency: int, clock: Clock | None = None) -> None:
        self.host = host
        self.concurrency = concurrency
        self.log = settings.home.with_suffix(".log")
        self._settings = settings
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._words = _Words()

    def __enter__(self) -> Worker:
        self._settings.home.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", "runs.cli", "worker", "--concurrency", self.concurrency, "--output", "json"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.host.inside(command),
                cwd=ROOT,
                env={**os.environ, **environment(self._settings), **(self._clock.environment if self._clock else {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the experiment
            )
        assert self._process.stdout is not None
        self._words = _Words()
        threading.Thread(target=self._words.listen, args=(self._process.stdout,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until_ready(self) -> None:
        """Wait for its first line. NotRun when it does not come."""
        if not self._words.said.wait(START_SECONDS) or not self._words.first_line.startswith(b"{"):
            raise NotRun.because(f"worker on {self.host.name}", self.log)

    @property
    def alive(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: its drivers end with it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """Start it once more, and wait until it is ready."""
        self.__enter__()
        self.wait_until_ready()

    def stop(self) -> None:
        """Ask it to end; one that does not is killed, and what it started with it."""
        if self._process is None:
            return
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def environment(settings: Settings) -> dict[str, str]:
    """The variables that say the same as these settings."""
    assert settings.database_url is not None
    assert settings.objects is not None
    assert settings.ledger_url is not None
    assert settings.ledger_token is not None
    return {
        "ONWARD_HOME": str(settings.home),
        "ONWARD_PRINCIPAL": settings.principal,
        "DATABASE_URL": settings.database_url,
        "ONWARD_OBJECTS": settings.objects,
        "ONWARD_LEDGER_URL": settings.ledger_url,
        "ONWARD_LEDGER_TOKEN": settings.ledger_token.get_secret_value(),
        "ONWARD_LEASE_SECONDS": str(settings.lease_seconds),
        "PYTHONUNBUFFERED": "1",
    }


def home_of(folder: Path, host: Host) -> Path:
    """The data folder of a host's worker."""
    return folder / f"home-{host.name}"
