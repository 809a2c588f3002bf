"""What is measured against: a Postgres server and a ledger of their own, started as the product starts them.

Nothing of the user's is touched: not ONWARD_HOME, not DATABASE_URL, no running ledger. No observer stands in the way:
the ledger is the product's own process, and nothing in this process is wrapped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil
import psycopg
from psycopg import conninfo

from runs import local_ledger, local_postgres
from runs.settings import Settings, StoreKind

ROOT = Path(__file__).resolve().parent.parent.parent
PREFIX = "onward-bench-"
PLAIN = "plain"

# What a user's shell may hold and a measurement must not follow.
_OURS = ("ONWARD_", "DATABASE_URL", "LEDGER_DATABASE_URL", "LANGSMITH_", "LANGCHAIN_")


@dataclass(frozen=True)
class Services:
    """A temporary home. Postgres starts when its address is first asked for, the ledger when it is connected to."""

    folder: Path

    @cached_property
    def dsn(self) -> str:
        """The server; its schema `plain` is made for what does not use Onward."""
        dsn = local_postgres.ensure(self.home)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("create schema plain")
        return dsn

    @property
    def plain_dsn(self) -> str:
        """The same server as plain LangGraph uses it: out of reach of everything that Onward adds to its tables."""
        return conninfo.make_conninfo(self.dsn, options=f"-c search_path={PLAIN}")

    @property
    def home(self) -> Path:
        """The ONWARD_HOME."""
        return self.folder / "home"

    @cached_property
    def settings(self) -> Settings:
        """Everything local, on Postgres: what `onward run` has in this home."""
        return local_settings(self.home, "postgres")


def local_settings(home: Path, store: StoreKind) -> Settings:
    """Settings of a home where everything is local, as the first user of a machine has them."""
    return Settings(home=home, store=store, principal="benchmark")


def leave_environment() -> None:
    """Forget, in this process and its children, what leads to somebody's own installation or sends traces away."""
    for name in list(os.environ):
        if name.startswith(_OURS):
            del os.environ[name]


def environment_of(home: Path) -> dict[str, str]:
    """The environment of a command of ours in this home; wide enough that no line of it is broken."""
    return {**os.environ, "ONWARD_HOME": str(home), "COLUMNS": "200"}


@contextmanager
def services() -> Generator[Services]:
    """A home; in the end everything that was started in it is stopped by its pid, and everything is removed."""
    remove_abandoned()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        owner = {"pid": os.getpid(), "started": psutil.Process().create_time()}
        (folder / "owner.json").write_text(json.dumps(owner), encoding="utf-8")
        (folder / "home").mkdir(mode=0o700)
        stack.callback(stop, folder / "home")
        yield Services(folder)


def stop(home: Path) -> None:
    """Stop the ledgers and the server of a home, and remove what the server has elsewhere."""
    kinds: tuple[StoreKind, ...] = ("sqlite", "postgres")
    for kind in kinds:
        local_ledger.stop(local_settings(home, kind))
    outside = local_postgres.status(home).outside
    local_postgres.stop(home)
    for other in outside:
        shutil.rmtree(other, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the homes of benchmarks of this account that were killed."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner.json"):
        folder = owner.parent
        with contextlib.suppress(OSError, ValueError, local_postgres.LocalPostgresError):
            if folder.lstat().st_uid == os.geteuid() and not _lives(json.loads(owner.read_text(encoding="utf-8"))):
                stop(folder / "home")
                shutil.rmtree(folder)


def _lives(owner: dict[str, float]) -> bool:
    try:
        return abs(psutil.Process(int(owner["pid"])).create_time() - owner["started"]) < 1.0
    except psutil.NoSuchProcess:
        return False
