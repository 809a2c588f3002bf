"""The command line as a user has it: real processes, one ONWARD_HOME, nothing in the environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
HELD = "tests.support.held_analyst:analyst"
# A driver imports LangGraph first, which takes seconds on a busy machine.
PATIENCE_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its data."""
        assert self.out, self.err
        return json.loads(self.out)


class Running:
    """A command that runs, and can be held at a step, signalled, and waited for."""

    def __init__(self, process: subprocess.Popen[str], hold: Path | None) -> None:
        self.process = process
        self._hold = hold

    def reached(self) -> int:
        """Wait until the driver is at the step where it is held; its pid."""
        assert self._hold is not None
        mark = self._hold / "at"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (mark.exists() and mark.read_text()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "the driver did not reach the step"
            time.sleep(0.01)
        return int(mark.read_text())

    def says(self, words: str) -> None:
        """Read messages until one holds these words."""
        assert self.process.stderr is not None
        seen: list[str] = []
        for line in self.process.stderr:
            seen.append(line)
            if words in line:
                return
        raise AssertionError(f"{words!r} was never said: {''.join(seen)}")

    def let_go(self) -> None:
        """Let the driver go on."""
        assert self._hold is not None
        (self._hold / "go").touch()

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        self.process.send_signal(number)

    def end(self) -> Done:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return Done(code=self.process.returncode, out=out, err=err)


class Cli:
    """`onward` with an ONWARD_HOME of its own."""

    def __init__(self, home: Path, store: str) -> None:
        self.home = home
        self.store = store
        self._holds = 0

    def environment(self, **more: str) -> dict[str, str]:
        """What the commands see: this home, this store, and no other configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "LEDGER_", "PG"))}
        kept.pop("DATABASE_URL", None)
        own = {"ONWARD_HOME": str(self.home), "ONWARD_STORE": self.store, "ONWARD_PRINCIPAL": "alice"}
        return {**kept, **own, **more}

    def start(
        self, *arguments: str | Path, hold_at: str | None = None, cwd: Path = ROOT, **environment: str
    ) -> Running:
        """Start a command; `hold_at` names the step at which its driver waits (needs `--model HELD`)."""
        hold = None
        if hold_at is not None:
            self._holds += 1
            hold = self.home.parent / f"{self.home.name}-hold-{self._holds}"
            hold.mkdir(parents=True)
            environment["ONWARD_TEST_HOLD"] = f"{hold}|{hold_at}"
        process = subprocess.Popen(
            [sys.executable, "-m", "runs.cli", *map(str, arguments)],
            cwd=cwd,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return Running(process, hold)

    def __call__(self, *arguments: str | Path, cwd: Path = ROOT, **environment: str) -> Done:
        """Run a command to its end."""
        return self.start(*arguments, cwd=cwd, **environment).end()

    def json(self, *arguments: str | Path, code: int = 0, cwd: Path = ROOT, **environment: str) -> Any:
        """The data of a command that ends with this code."""
        done = self(*arguments, "-o", "json", cwd=cwd, **environment)
        assert done.code == code, done.err
        return done.json

    def a_run(self, *arguments: str | Path, code: int) -> dict[str, Any]:
        """The object of a new run of which the command ends with this code."""
        return self.json("run", *arguments, code=code)


def first_to_end(pair: list[Running]) -> list[Running]:
    """The one of two commands that ends first, then the other."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for number, one in enumerate(pair):
            if one.process.poll() is not None:
                return [one, pair[1 - number]]
        assert time.monotonic() < deadline, "neither of the two ends"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between the opening and the reading
        return True


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is not ours to wait for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_gone(pid):
        assert time.monotonic() < deadline, f"process {pid} does not end"
        time.sleep(0.01)


def kill(pid: int) -> None:
    """SIGKILL, and wait for its end."""
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)
