"""A process that falls silent in the middle of its own claim, before it has the run: nobody may have to wait for it."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from onward_ledger.database import Unreachable
from runs import drive, lease, registry
from runs.errors import StateChanged
from tests.support.runs_processes import Child, spec_of, store_of
from tests.support.runs_world import new_run

pytestmark = pytest.mark.campaign

pytest_plugins = ("tests.support.runs_fixtures",)


def claiming(folder: Path, spec: dict[str, str], run_id: str) -> None:
    """Claim a run, and stop inside of the transaction."""
    store = store_of(spec)
    database = store.database()
    holder = store.open_holder("driver", registry.get(database, run_id), database)
    with store.taking_over(database, registry.get(database, run_id)) as tx:
        tx.run("lock_run", run_id=run_id)
        tx.run("take_lease", run_id=run_id, epoch=1, holder_id=holder.holder_id, seconds=5.0)
        (folder / "at claim").touch()
        os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait(0.1)


def test_a_run_is_taken_from_a_process_that_stopped_in_its_claim(
    store: Any, database: Any, objects: Any, tmp_path: Path
):
    run = new_run(database, objects, tmp_path, store=store.kind)
    silent = Child(claiming, tmp_path / "silent", spec_of(store), run.run_id)
    try:
        silent.reached("claim")
        silent.stopped()
        holder = store.open_holder("driver", run, database)
        claimed = lease.claim(store, database, run.run_id, holder, lease_seconds=5)
        assert (claimed.epoch, claimed.why) == (1, "queued")
        if store.kind == "postgres":
            silent.signal(signal.SIGCONT)
            silent.end()
            assert silent.told()["error"] == "Unreachable", silent.told()
        else:
            assert silent.end() == -signal.SIGKILL
        now = registry.get(database, run.run_id)
        assert (now.epoch, now.holder_id) == (1, holder.holder_id)
        holder.close()
    finally:
        if silent.process.exitcode is None:
            silent.kill()


def test_a_session_that_waits_itself_is_left_alone(postgres_store: Any, objects: Any, tmp_path: Path, monkeypatch: Any):
    """The control: a stranger holds the row; another session of ours that waits for it too is not to blame."""
    store = postgres_store
    monkeypatch.setattr("runs.store.LONGEST_LOCK_WAIT_MS", 2500)
    monkeypatch.setattr("runs.store.OURS_BLOCKED_SECONDS", 0.3)
    with closing(store.database()) as database, closing(store.database("onward bystander")) as bystander:
        run = new_run(database, objects, tmp_path, store=store.kind)
        said: list[BaseException | None] = []

        def wait_too() -> None:
            try:
                with bystander.transaction() as tx:
                    tx.run("lock_run", run_id=run.run_id)
                said.append(None)
            except Unreachable as error:
                said.append(error)

        holder = store.open_holder("driver", run, database)
        with psycopg.connect(store.dsn) as stranger:
            stranger.execute("select from onward.runs for update")
            waiting = threading.Thread(target=wait_too)
            waiting.start()
            with pytest.raises(StateChanged, match="pg_stat_activity"):
                lease.claim(store, database, run.run_id, holder, lease_seconds=5)
        waiting.join(20)
        assert said == [None]
        holder.close()


def test_a_driver_that_wakes_late_leaves_the_files_of_newer_epochs_alone(tmp_path: Path):
    run_id = "11111111-2222-4333-8444-555555555555"
    names = {epoch: tmp_path / f"{run_id}-{epoch}-77" for epoch in (1, 2, 10)}
    for folder in names.values():
        folder.mkdir()
    seat: Any = SimpleNamespace(scratch=tmp_path, run=SimpleNamespace(run_id=run_id), epoch=2)
    with drive._scratch(seat) as mine:
        assert mine.exists()
        assert [epoch for epoch, folder in names.items() if folder.exists()] == [2, 10]
    assert not mine.exists()


def test_what_a_silent_claim_holds_on_a_file_is_the_whole_file(sqlite_store: Any, objects: Any, tmp_path: Path):
    """The control of the first test: without help nobody could write at all."""
    with closing(sqlite_store.database()) as database:
        run = new_run(database, objects, tmp_path, store="sqlite")
    silent = Child(claiming, tmp_path / "silent", spec_of(sqlite_store), run.run_id)
    try:
        silent.reached("claim")
        silent.stopped()
        with (
            closing(sqlite3.connect(sqlite_store.path, timeout=0)) as file,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            file.execute("begin immediate")
    finally:
        silent.kill()
