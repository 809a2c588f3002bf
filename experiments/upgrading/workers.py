"""`onward worker` and other commands of a release, as real processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.errors import NotRun
from experiments.upgrading.releases import Release

START_SECONDS = 120.0  # importing LangGraph takes seconds, and several workers start at once
END_SECONDS = 60.0
GRACE_SECONDS = 30


@dataclass(frozen=True)
class Worker:
    """A worker that is ready. `said` is its first line: who it is, and what it serves."""

    process: subprocess.Popen[bytes]
    said: dict[str, Any]

    def ask_to_stop(self) -> None:
        """SIGTERM, once: a second one would mean "at once"."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Its exit code, when it has ended. One that does not end is killed, and its code is that of the signal."""
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def start_workers(release: Release, installation: dict[str, str], log: Path, count: int) -> list[Worker]:
    """So many workers of a release. Raises NotRun when one does not come up, or serves something else."""
    command = [sys.executable, "-m", "runs.cli", "worker", "--concurrency", "3", "--grace", str(GRACE_SECONDS)]
    command += ["--owner", str(os.getpid()), "-o", "json"]
    environment = release.environment(installation)
    with log.open("ab") as errors:
        processes = [
            subprocess.Popen(
                command,
                cwd=release.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the experiment
            )
            for _ in range(count)
        ]
    workers: list[Worker] = []
    try:
        for process in processes:
            workers.append(Worker(process, _first_line(process, log)))
            served = tuple(workers[-1].said["versions"])
            if served != release.versions:
                raise NotRun(f"A worker of the release {release.name} serves {served}, not {release.versions}.")
    except BaseException:
        for process in processes:
            process.kill()
            process.wait()
        raise
    return workers


def _first_line(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    """The JSON that it writes when it is ready; it may take several lines."""
    assert process.stdout is not None
    deadline, text, number = time.monotonic() + START_SECONDS, b"", process.stdout.fileno()
    while True:
        ready, _, _ = select.select([number], [], [], max(deadline - time.monotonic(), 0))
        part = os.read(number, 65536) if ready else b""
        if not part:
            process.kill()
            raise NotRun.because("worker", log)
        text += part
        try:
            return json.loads(text)
        except ValueError:
            continue


def command(release: Release, installation: dict[str, str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """A command of a release with `-o json`: its exit code, its data, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "runs.cli", *arguments, "-o", "json"],
        cwd=release.folder,
        env=release.environment(installation),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr
