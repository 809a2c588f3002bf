"""Processes that are started here: each says when it is ready, ends with this process, and is killed by its pid."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.errors import NotRun

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 180.0
LOOK_EVERY_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Child:
    """A process; `said` is where its output goes, `ready` the file that it writes when it is ready.

    With `says` it writes no such file: it is ready when this is in its output.
    """

    name: str
    process: subprocess.Popen[bytes]
    said: Path
    ready: Path
    says: str | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def wait_until_ready(self, seconds: float = START_SECONDS) -> str:
        """Wait until it is ready; what it says then. NotRun when it ends instead, or takes longer."""
        deadline = time.monotonic() + seconds
        while not self._is_ready():
            if not self.alive or time.monotonic() > deadline:
                self.kill()
                raise NotRun.because(self.name, self.said)
            time.sleep(LOOK_EVERY_SECONDS)
        return (self.said if self.says is not None else self.ready).read_text(encoding="utf-8")

    def _is_ready(self) -> bool:
        if self.says is None:
            return self.ready.exists()
        return self.says in self.said.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM, seconds: float = 10.0) -> None:
        """Ask it to end; kill it when it takes longer."""
        if self.alive:
            self.process.send_signal(how)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


def start(
    name: str,
    command: list[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    ready: Path | None = None,
    says: str | None = None,
) -> Child:
    """Start a command from the repository's root. See Child for `ready` (else beside its output) and `says`."""
    assert threading.current_thread() is threading.main_thread(), "Linux ends a child with the thread that started it"
    said = folder / f"{name}.out"
    ready = ready or folder / f"{name}.ready"
    ready.unlink(missing_ok=True)
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,  # its life line: at its end when this process is gone
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the experiment
        )
    return Child(name=name, process=process, said=said, ready=ready, says=says)


def bound(command: list[str]) -> list[str]:
    """The same command as one that ends with this process. Its first word is a path."""
    return [sys.executable, "-m", "experiments.recovering.bound", str(os.getpid()), *command]


def start_worker(
    name: str,
    module: str,
    folder: Path,
    environment: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    says: str | None = None,
) -> Child:
    """Start a process of `experiments.recovering.workers`; it gets the settings as JSON."""
    ready = folder / f"{name}.ready"
    command = [sys.executable, "-m", f"experiments.recovering.workers.{module}"]
    command += ["--settings", json.dumps(dict(settings)), "--ready-file", str(ready), "--parent", str(os.getpid())]
    return start(name, command, folder, environment, ready=ready, says=says)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a process of `workers` was told."""

    settings: dict[str, Any]
    ready_file: Path

    def is_ready(self) -> None:
        """Say so."""
        part = self.ready_file.with_suffix(".part")
        part.write_text(str(os.getpid()), encoding="utf-8")
        part.replace(self.ready_file)


def told(said: str | None) -> Told:
    """Read the command line of a process of `workers`, which ends with whoever started it. `said` is for --help."""
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=said, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="the pid of the process that this one ends with")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent, sys.stdin.fileno())
    return Told(settings=arguments.settings, ready_file=arguments.ready_file)
