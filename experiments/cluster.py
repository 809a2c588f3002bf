"""The cluster: Postgres (or SQLite), the ledger and the oracle as real processes, in a temporary home of their own.

Nothing of the user's is touched: not ONWARD_HOME, not DATABASE_URL, no running ledger. Everything started here is
stopped by its pid and removed at the end, also after an error or Ctrl-C. An experiment that is itself killed takes
ledger and oracle with it (they die with their parent); its Postgres is found and removed by the next experiment.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import SecretStr

from experiments.errors import NotRun
from experiments.oracle import Oracle
from runs import local_postgres
from runs.settings import Settings, StoreKind

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "onward-proof-"
START_SECONDS = 30.0
STOP_SECONDS = 5.0

# A driver that dies is noticed at once; this bounds what is waited for where only time can tell.
LEASE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What runs. `plain_dsn` is where the control keeps its checkpoints: a Postgres schema or an SQLite file."""

    folder: Path
    settings: Settings
    oracle: Oracle
    plain_dsn: str

    @property
    def stories(self) -> Path:
        """Where the processes of the cases write."""
        return self.folder / "stories"


@contextmanager
def cluster(store: StoreKind, *, planted: str | None = None, keep: Path | None = None) -> Generator[Cluster]:
    """Start everything, and stop and remove it in the end. With `keep`, the stories and the oracle's log go there."""
    remove_abandoned()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _sign(folder)
        (folder / "stories").mkdir()
        if keep is not None:
            stack.callback(_keep, folder, keep)
        home = folder / "home"
        home.mkdir(mode=0o700)
        dsn = None
        if store == "postgres":
            stack.callback(_stop_postgres, home)
            dsn = local_postgres.ensure(home)
        oracle = stack.enter_context(_oracle(folder))
        settings = stack.enter_context(_ledger(folder, home, store, dsn, oracle, planted))
        yield Cluster(folder=folder, settings=settings, oracle=oracle, plain_dsn=_plain(folder, dsn))


@contextmanager
def _oracle(folder: Path) -> Generator[Oracle]:
    log, ready = folder / "oracle.log", folder / "oracle.ready"
    command = ["-m", "experiments.oracle", "--log", log, "--ready-file", ready, "--parent", os.getpid()]
    with _service("oracle", command, folder, ready) as port:
        yield Oracle(int(port), log)


@contextmanager
def _ledger(
    folder: Path, home: Path, store: StoreKind, dsn: str | None, oracle: Oracle, planted: str | None
) -> Generator[Settings]:
    """The ledger service; the settings by which everybody finds it."""
    token, ready = secrets.token_urlsafe(24), folder / "ledger.ready"
    token_file = folder / "ledger.token"
    token_file.write_text(token, encoding="utf-8")
    token_file.chmod(0o600)
    settings = Settings(
        home=home,
        store=store,
        principal="experiment",
        database_url=dsn,
        ledger_database_url=dsn,
        objects=(home / "objects").as_uri(),
        ledger_url="http://127.0.0.1",  # replaced below by the one with the port
        ledger_token=SecretStr(token),
        lease_seconds=LEASE_SECONDS,
    )
    observed = ["--oracle-port", oracle.port, "--oracle-log", oracle.log, "--parent", os.getpid()]
    observed += ["--plant", planted] if planted else []
    serve = ["serve", "--store", dsn or f"sqlite:///{settings.ledger_sqlite_path}", "--objects", settings.objects_url]
    serve += ["--port", 0, "--host", "127.0.0.1", "--token-file", token_file, "--ready-file", ready]
    command = ["-m", "experiments.observed_ledger", *observed, *serve]
    with _service("ledger", command, folder, ready) as answer:
        yield settings.model_copy(update={"ledger_url": json.loads(answer)["url"]})


@contextmanager
def _service(name: str, command: Sequence[object], folder: Path, ready: Path) -> Generator[str]:
    """A service of ours from start to stop; what its ready file holds."""
    log = folder / f"{name}.err"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
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


def _plain(folder: Path, dsn: str | None) -> str:
    """Where the control's checkpoints live: out of reach of everything that Onward adds to its own tables."""
    if dsn is None:
        return str(folder / "plain.sqlite")
    import psycopg
    from psycopg import conninfo

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema plain")
    return conninfo.make_conninfo(dsn, options="-c search_path=plain")


def _keep(folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / "stories", keep / "stories", dirs_exist_ok=True)
    for name in ("oracle.log", "ledger.err"):
        if (folder / name).exists():
            shutil.copy(folder / name, keep / name)


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
