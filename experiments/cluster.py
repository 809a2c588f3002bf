"""The cluster: Postgres (or SQLite), oracle and fork server as real processes, in a temporary home; lanes on top.

Nothing of the user's is touched: not ONWARD_HOME, not DATABASE_URL, no running ledger. Everything started here is
stopped by its pid and removed at the end, also after an error or Ctrl-C. An experiment that is itself killed takes
ledger and oracle with it (they die with their parent); its Postgres is found and removed by the next experiment.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from experiments.errors import NotRun
from experiments.lane import Lane, open_lane
from experiments.oracle import Oracle
from experiments.processes import ForkServer
from runs import local_postgres
from runs.settings import StoreKind

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "onward-proof-"
START_SECONDS = 30.0
STOP_SECONDS = 5.0


class Cluster:
    """What runs, and the lanes on it. `dsn` is the server's; None with SQLite."""

    def __init__(self, folder: Path, store: StoreKind, dsn: str | None, oracle: Oracle, forks: ForkServer) -> None:
        self.folder = folder
        self.store = store
        self.oracle = oracle
        self.forks = forks
        self._dsn = dsn
        self._lock = threading.Lock()
        self._lanes = 0

    @contextmanager
    def lane(
        self,
        *,
        planted: str | None = None,
        plain_provider: bool = False,
        deadline_seconds: float | None = None,
        grace_seconds: float | None = None,
        config: Path | None = None,
    ) -> Generator[Lane]:
        """A lane with a database and a ledger of its own; see LedgerSpec for what they are told."""
        with self._lock:
            self._lanes += 1
            number = self._lanes
        folder = self.folder / f"lane-{number}"
        folder.mkdir()
        dsn = new_database(self._dsn, f"lane_{number}") if self._dsn is not None else None
        plain_dsn = _plain_schema(dsn) if dsn is not None else str(folder / "plain.sqlite")
        with open_lane(
            folder,
            self.forks,
            self.oracle,
            dsn,
            plain_dsn,
            planted=planted,
            plain_provider=plain_provider,
            deadline_seconds=deadline_seconds,
            grace_seconds=grace_seconds,
            config=config,
        ) as lane:
            yield lane


@contextmanager
def cluster(store: StoreKind, *, keep: Path | None = None) -> Generator[Cluster]:
    """Start everything, and stop and remove it in the end. With `keep`, the stories and the oracle's log go there."""
    remove_abandoned()
    forks = ForkServer()  # it imports while the rest starts
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _sign(folder)
        if keep is not None:
            stack.callback(_keep, folder, keep)
        home = folder / "home"
        home.mkdir(mode=0o700)
        dsn = None
        if store == "postgres":
            stack.callback(_stop_postgres, home)
            dsn = local_postgres.ensure(home)
        oracle = stack.enter_context(_oracle(folder))
        stack.enter_context(forks)
        forks.warm_up(folder)
        yield Cluster(folder, store, dsn, oracle, forks)


@contextmanager
def _oracle(folder: Path) -> Generator[Oracle]:
    log, ready = folder / "oracle.log", folder / "oracle.ready"
    command = ["-m", "experiments.oracle", "--log", log, "--ready-file", ready, "--parent", os.getpid()]
    with service("oracle", command, folder, ready) as port:
        yield Oracle(int(port), log)


@contextmanager
def service(
    name: str, command: Sequence[object], folder: Path, ready: Path, inside: Callable[[list[str]], list[str]] = list
) -> Generator[str]:
    """A service of ours from start to stop; what its ready file holds. `inside`: what the command becomes elsewhere."""
    log = folder / f"{name}.err"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            inside([sys.executable, *map(str, command)]),
            cwd=ROOT,
            stdin=subprocess.PIPE,  # its life line: at its end when this process is gone
            stdout=errors,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the experiment
        )
    try:
        yield _wait_for(name, process, ready, log)
    finally:
        assert process.stdin is not None
        process.terminate()
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(name: str, process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotRun.because(name, log)
        time.sleep(0.02)
    return ready.read_text(encoding="utf-8")


def new_database(server: str, name: str) -> str:
    """A database of its own on the experiment's server."""
    import psycopg
    from psycopg import conninfo, sql

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return conninfo.make_conninfo(server, dbname=name)


def _plain_schema(dsn: str) -> str:
    """Where the control's checkpoints live: out of reach of everything that Onward adds to its own tables."""
    import psycopg
    from psycopg import conninfo

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema plain")
    return conninfo.make_conninfo(dsn, options="-c search_path=plain")


def _keep(folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for lane in folder.glob("lane-*"):
        for told in (*(lane / "stories").glob("*"), *lane.glob("ledger *")):
            if told.suffix in (".txt", ".err") and told.stat().st_size:
                (keep / "stories" / lane.name).mkdir(parents=True, exist_ok=True)
                shutil.copy(told, keep / "stories" / lane.name / told.name)
    if (folder / "oracle.log").exists():
        shutil.copy(folder / "oracle.log", keep / "oracle.log")


# --- what a killed experiment left ------------------------------------------------------------------------------------


def _stop_postgres(home: Path) -> None:
    """Stop the server of a home and remove what it has elsewhere."""
    outside = local_postgres.status(home).outside
    local_postgres.stop(home)
    for other in outside:
        shutil.rmtree(other, ignore_errors=True)


def _sign(folder: Path) -> None:
    owner = {"pid": os.getpid(), "started": psutil.Process().create_time()}
    (folder / "owner.json").write_text(json.dumps(owner), encoding="utf-8")


def remove_abandoned() -> list[Path]:
    """Remove the homes of experiments of this account whose process is gone; which ones."""
    removed: list[Path] = []
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner.json"):
        folder = owner.parent
        with contextlib.suppress(OSError, ValueError, local_postgres.LocalPostgresError):
            if folder.lstat().st_uid == os.geteuid() and not _lives(json.loads(owner.read_text(encoding="utf-8"))):
                _stop_postgres(folder / "home")
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def _lives(owner: dict[str, float]) -> bool:
    try:
        return abs(psutil.Process(int(owner["pid"])).create_time() - owner["started"]) < 1.0
    except psutil.NoSuchProcess:
        return False
