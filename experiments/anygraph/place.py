"""What an experiment on somebody's graph has: a folder, a Postgres in it unless SQLite is asked for, a fork server.

Everything is stopped and removed at the end; what a killed experiment leaves, the next one removes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from experiments.anygraph import saver
from experiments.anygraph.request import PACKAGES, Store
from experiments.cluster import PREFIX, remove_abandoned
from experiments.processes import ForkServer
from runs import local_postgres

PRELOADED = "experiments.anygraph.preload"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the processes of the cases run. `dsn` is the Postgres for checkpoints, None with SQLite."""

    folder: Path
    store: Store
    dsn: str | None
    forks: ForkServer

    @property
    def stories(self) -> Path:
        """What the processes tell."""
        return self.folder / "stories"

    def dsn_of(self, thread_id: str) -> str:
        """Where the checkpoints of a thread are. An SQLite file of its own, so that threads do not lock one another."""
        return self.dsn or str(self.folder / f"{thread_id}.sqlite")


@contextmanager
def place(store: Store, packages: list[str], *, keep: Path | None = None) -> Generator[Place]:
    """Start everything. `packages` are imported by the fork server; with `keep`, the stories go there in the end."""
    remove_abandoned()
    os.environ[PACKAGES] = ",".join(packages)
    forks = ForkServer(PRELOADED)  # it imports while the rest starts
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        owner = {"pid": os.getpid(), "started": psutil.Process().create_time()}
        (folder / "owner.json").write_text(json.dumps(owner), encoding="utf-8")
        (folder / "stories").mkdir()
        if keep is not None:
            stack.callback(shutil.copytree, folder / "stories", keep / "stories", dirs_exist_ok=True)
        dsn = None
        if store == "postgres":
            home = folder / "home"
            home.mkdir(mode=0o700)
            stack.callback(_stop_postgres, home)
            dsn = local_postgres.ensure(home)
            saver.set_up(store, dsn)
        stack.enter_context(forks)
        forks.warm_up(folder)
        yield Place(folder=folder, store=store, dsn=dsn, forks=forks)


def _stop_postgres(home: Path) -> None:
    outside = local_postgres.status(home).outside
    local_postgres.stop(home)
    for other in outside:
        shutil.rmtree(other, ignore_errors=True)
