"""Real processes that drive runs, for tests that kill and stop them.

They are forked from a server that has imported everything (importing LangGraph takes seconds) and holds nothing. The
ledger of such a test lives in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
import traceback
from collections.abc import Callable
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from onward_ledger.database import sqlite
from onward_ledger.objects import Objects
from runs import holder
from runs.drain import Drain, drain_on_signals
from runs.drive import drive
from runs.store import PostgresStore, SqliteStore
from tests.support.preloading import CONTEXT
from tests.support.runs_world import MemoryLedger, build, parts, until


class LedgerManager(BaseManager):
    """A process that keeps a MemoryLedger."""


LedgerManager.register(
    "Ledger", MemoryLedger, exposed=["fence", "action", "reconcile", "put", "decide", "succeed", "recorded", "close"]
)


def spec_of(store: Any) -> dict[str, str]:
    """A store as values that travel to another process."""
    if store.kind == "postgres":
        return {"kind": "postgres", "dsn": store.dsn}
    return {"kind": "sqlite", "path": str(store.path), "locks": str(store.locks)}


def store_of(spec: dict[str, str]) -> Any:
    """The inverse of `spec_of`."""
    if spec["kind"] == "postgres":
        return PostgresStore(spec["dsn"])
    return SqliteStore(Path(spec["path"]), Path(spec["locks"]))


class Child:
    """A process of a test. `folder` is where it leaves its marks."""

    def __init__(self, work: Callable[..., Any], folder: Path, *arguments: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.process = CONTEXT.Process(target=_work, args=(work, folder, arguments))
        self.process.start()
        assert self.process.pid is not None
        self.pid: int = self.process.pid

    def reached(self, place: str) -> None:
        """Wait until the process is at a place."""
        until(lambda: (self.folder / f"at {place}").exists() or self._ended(place))

    def _ended(self, place: str) -> bool:
        if self.process.exitcode is not None and not (self.folder / f"at {place}").exists():
            raise AssertionError(f"the process ended before {place}: {self.process.exitcode} {self.told()}")
        return False

    def let_go(self, place: str) -> None:
        """Let the process go on from a place."""
        (self.folder / f"go {place}").touch()

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self.signal(signal.SIGKILL)
        self.process.join()

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def stopped(self) -> None:
        """Wait until the process is stopped by SIGSTOP."""
        status = Path(f"/proc/{self.pid}/stat")
        until(lambda: status.read_text().rsplit(")", 1)[1].split()[0] == "T")

    def end(self, seconds: float = 20) -> int:
        """Wait for the end of the process; its exit code."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, "the process does not end"
        return self.process.exitcode

    def told(self) -> Any:
        """What the process told at its end."""
        path = self.folder / "told.json"
        return json.loads(path.read_text()) if path.exists() else None


def _work(work: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> None:
    try:
        told = work(folder, *arguments)
    except BaseException as error:
        told = {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
    temporary = folder / "told.tmp"
    temporary.write_text(json.dumps(told))
    temporary.replace(folder / "told.json")
    code = told.get("exit_code", 0) if isinstance(told, dict) else 0
    os._exit(code)


def pause_at(folder: Path, place: str) -> None:
    """Say that the place is reached, and wait to be let go."""
    (folder / f"at {place}").touch()
    while not (folder / f"go {place}").exists():
        time.sleep(0.005)


def hold_file(folder: Path, path: Path) -> None:
    """Hold the write lock of a SQLite file, as a driver stopped in mid-transaction does."""
    connection = sqlite3.connect(path)
    connection.execute("begin immediate")
    pause_at(folder, "in plan")


def driving(folder: Path, spec: dict[str, str], run_id: str, ledger: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Drive a run. Options: `world` (a folder), `pauses` (places), and what the lines below read."""
    hooks = {place: lambda _, place=place: pause_at(folder, place) for place in options.get("pauses", ())}
    if "stop_in_pipeline" in options:
        stop_in_pipeline(options["stop_in_pipeline"])
    if options.get("stop_registering"):
        stop_registering()
    if "file_patience" in options:
        sqlite.BUSY_TIMEOUT_SECONDS = options["file_patience"]
    drain = Drain()
    drain_on_signals(drain)
    world = Path(options["world"])
    if options.get("hold_file"):
        hooks["in plan"] = lambda context: hold_file(folder, Path(spec["path"]))
    given = parts(
        store_of(spec),
        ledger,
        Objects((world / "objects").as_uri()),
        world,
        graph=lambda: build(asks_person=options.get("asks_person", False)),
        hooks=hooks,
        lease_seconds=options.get("lease_seconds", 5.0),
        effects=world / "effects",
        drain=drain,
    )
    try:
        outcome = drive(run_id, given)
    except Exception as error:
        code = int(getattr(error, "exit_code", 99))
        return {"error": type(error).__name__, "message": str(error), "exit_code": code}
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "message": outcome.message,
        "exit_code": int(outcome.exit_code),
    }


def stop_registering() -> None:
    """Stop this process (SIGSTOP) in the transaction in which it makes itself a holder."""
    original = holder._self_description

    def describe(kind: str) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.1)  # see below
        return original(kind)

    holder._self_description = describe


def stop_in_pipeline(number: int) -> None:
    """Stop this process (SIGSTOP) inside its n-th pipeline, behind its statements and before its Sync."""
    import psycopg

    original, count = psycopg.Pipeline.__exit__, [0]

    def leave(self: Any, *error: Any) -> None:
        count[0] += self.level == 1
        if self.level == 1 and count[0] == number:
            self._conn.wait(self._communicate_gen())  # so that everything but the Sync has reached the server
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.1)  # the stop reaches the threads one after the other, and this one must not go on before
        original(self, *error)

    psycopg.Pipeline.__exit__ = leave  # type: ignore[method-assign]
