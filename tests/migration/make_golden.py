"""Make the golden checkpoints of a workflow version on the day of its release.

    python -m tests.migration.make_golden            the current version, both stores
    python -m tests.migration.make_golden --again    also where there is a file: only before the release

Real runs on a real ledger, in a temporary folder with a Postgres of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from graph.versions import CURRENT, VERSIONS
from onward_ledger.objects import Objects
from runs import local_ledger, local_postgres, registry
from runs.assembly import parts_for
from runs.drain import Drain
from runs.drive import drive
from runs.parts import Parts, Seat
from runs.registry import NewRun, Status
from runs.settings import Settings
from runs.store import open_store
from tests.migration import golden_files
from tests.migration.golden_files import FILES, STORES, StoreKind

ROWS = (
    "month,region,revenue\n2024-01-05,North,10\n2024-01-20,South,20.5\n2024-02-03,North,5.5\n2024-02-11,East,\n"
    "2024-03-02,South,7\n2024-03-30,East,3.25\n"
)
STOPPED_BEHIND = "analyze#2"
PACKAGES = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")


class _Stopping:
    """A recorder that asks for a stop when a step is finished."""

    def __init__(self, recorder: Any, drain: Drain) -> None:
        self._recorder, self._drain = recorder, drain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def step_finished(self, step: str) -> None:
        self._recorder.step_finished(step)
        if step == STOPPED_BEHIND:
            self._drain.request()


def _stopping(parts: Parts, drain: Drain) -> Parts:
    @contextmanager
    def make(seat: Seat) -> Iterator[Any]:
        with parts.make_context(seat) as context:
            yield replace(context, recorder=_Stopping(context.recorder, drain))

    return replace(parts, make_context=make)


def made(settings: Settings, version: str) -> tuple[dict[str, str], str]:
    """The three runs of a version, driven to where they are to be: their ids by name, and the report's digest."""
    source = settings.home / "sales.csv"
    source.write_text(ROWS)
    runs = {name: _new(settings, source, version) for name in ("waiting", "analyzing", "finished")}
    _drive(settings, runs["waiting"], Status.WAITING_HUMAN)
    _drive(settings, runs["analyzing"], Status.QUEUED, stop=True)
    _drive(settings, runs["finished"], Status.WAITING_HUMAN)
    approve(settings, runs["finished"])
    _drive(settings, runs["finished"], Status.SUCCEEDED)
    source.unlink()
    return runs, digest_of(settings, runs["finished"])


def _new(settings: Settings, source: Path, version: str) -> str:
    new = NewRun(
        owner="alice",
        workflow_version=version,
        store=settings.store,
        ledger=local_ledger.ledger_id(settings),
        allowed_kinds=sorted(VERSIONS[version].allowed_kinds),
    )
    with closing(open_store(settings).database()) as database:
        database.migrate()
        return registry.create(database, Objects(settings.objects_url), source, new).run_id


def _drive(settings: Settings, run_id: str, expected: Status, *, stop: bool = False) -> None:
    drain = Drain()
    with parts_for(settings, drain) as parts:
        outcome = drive(run_id, _stopping(parts, drain) if stop else parts)
    assert outcome.status is expected, outcome


def approve(settings: Settings, run_id: str) -> None:
    """What a person says, and the run queued for it."""
    with local_ledger.connect(settings) as ledger, closing(open_store(settings).database()) as database:
        [proposal] = [action for action in ledger.actions(run_id) if action.kind == "report.publish"]
        ledger.decide(proposal.action_id, "approve", request_hash=proposal.request_hash)
        registry.queue_decided(database, run_id)


def digest_of(settings: Settings, run_id: str) -> str:
    """The digest of the report that a run has published, once."""
    with local_ledger.connect(settings) as ledger:
        actions = ledger.actions(run_id)
    [published] = [a for a in actions if a.kind == "report.publish" and a.status == "SUCCEEDED"]
    return str(published.params["digest"])


def _make(version: str, store: StoreKind, folder: Path) -> Path:
    home = folder / store
    home.mkdir(mode=0o700)
    url = local_postgres.ensure(home) if store == "postgres" else None
    settings = Settings(home=home, store=store, principal="alice", database_url=url, ledger_database_url=url)
    try:
        runs, digest = made(settings, version)
    finally:
        local_ledger.stop(settings)
    if store == "sqlite":
        for name in FILES:
            with closing(sqlite3.connect(home / name)) as connection:
                connection.execute("pragma journal_mode = delete")  # one file holds it all
    about = {
        "made_at": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
    }
    content = {"about": about, "digest": digest, "runs": runs, **golden_files.dump(settings)}
    if store == "postgres":
        local_postgres.stop(home)
    return golden_files.write(version, store, content)


def main() -> int:
    """Make what is missing; the exit code."""
    parser = argparse.ArgumentParser(
        prog="make_golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="also where there is a file")
    again = parser.parse_args().again
    os.environ["ONWARD_HOST"] = "golden"
    folder = Path(tempfile.mkdtemp(prefix="onward-golden-"))
    try:
        for store in STORES:
            if golden_files.path_of(CURRENT, store).exists() and not again:
                sys.stderr.write(f"{golden_files.path_of(CURRENT, store)} is there, and stays as it is.\n")
                continue
            sys.stderr.write(f"{_make(CURRENT, store, folder)} is made.\n")
    finally:
        for home in folder.iterdir():
            local_postgres.stop(home)
            for outside in local_postgres.status(home).outside:
                shutil.rmtree(outside, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
