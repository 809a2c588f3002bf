"""Runs as rows, on both stores: made, found, listed, moved by compare-and-set."""

from __future__ import annotations

import threading
import uuid

import pytest

from onward_ledger.objects import Objects
from runs import events, lease, registry
from runs.errors import AmbiguousRun, RunFinished, RunNotFound, StateChanged, UsageError, WaitingForPerson
from runs.registry import NewRun, Status
from tests.support.runs_world import LEDGER_ID, new_run

pytest_plugins = ("tests.support.runs_fixtures",)


@pytest.fixture
def run(store, database, objects, tmp_path):
    return new_run(database, objects, tmp_path, store=store.kind)


def in_transaction(database, run, word, **more):
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        return registry.move(tx, run, word, **more)


def test_a_new_run_holds_what_it_was_made_with(store, database, objects, tmp_path):
    path = tmp_path / "sales 2026.csv"
    path.write_bytes("größe\n1\n".encode())
    made = registry.create(
        database,
        objects,
        path,
        NewRun(
            owner="alice",
            workflow_version="1",
            store=store.kind,
            ledger=LEDGER_ID,
            asks=["revenue by month?", "总计"],
            model="provider:name",
            params={"depth": 2},
            budget_micros=2_500_000,
            deadline_at=database.now(),
        ),
    )
    assert registry.get(database, made.run_id).to_json() | {"now_at": None} == made.to_json() | {"now_at": None}
    assert (made.status, made.version, made.epoch, made.driver, made.last_seq) == ("queued", 1, None, None, 1)
    assert (made.asks, made.params, made.budget_micros) == (["revenue by month?", "总计"], {"depth": 2}, 2_500_000)
    assert made.input["name"] == "sales 2026.csv"
    assert objects.read_checked(made.input_key, made.input_digest) == path.read_bytes()
    assert made.input_key == f"runs/{made.run_id}/{made.input_digest}"
    assert [event.kind for event in events.read_all(database, made.run_id)] == ["created"]


def test_the_input_is_staged_before_the_row_exists(database, objects, tmp_path, monkeypatch):
    seen = []
    original = Objects.put_once

    def put(self, key, data):
        seen.append(len(registry.list_runs(database)))
        return original(self, key, data)

    monkeypatch.setattr(Objects, "put_once", put)
    new_run(database, objects, tmp_path)
    assert seen == [0]
    assert len(registry.list_runs(database)) == 1

    def refuse(self, key, data):
        raise OSError("the disk is full")

    monkeypatch.setattr(Objects, "put_once", refuse)
    with pytest.raises(OSError, match="disk is full"):
        new_run(database, objects, tmp_path)
    assert len(registry.list_runs(database)) == 1  # no run without its input


def test_a_missing_input_is_a_usage_error_and_leaves_nothing(database, objects, tmp_path):
    with pytest.raises(UsageError, match=r"no\.csv cannot be read: No such file"):
        registry.create(
            database, objects, tmp_path / "no.csv", NewRun(owner="a", workflow_version="1", store="x", ledger="x")
        )
    assert registry.list_runs(database) == []


def test_runs_are_found_by_a_unique_beginning(database, objects, tmp_path, monkeypatch):
    ids = iter(
        [
            "aaaa1111-0000-4000-8000-000000000001",
            "aaaa2222-0000-4000-8000-000000000002",
            "bbbb1111-0000-4000-8000-000000000003",
        ]
    )
    monkeypatch.setattr("runs.registry.uuid.uuid4", lambda: uuid.UUID(next(ids)))
    paths = [tmp_path / name for name in ("1.csv", "2.csv", "3.csv")]
    made = []
    for path in paths:
        path.write_bytes(b"a\n1\n")
        new = NewRun(owner="alice", workflow_version="1", store="x", ledger="x")
        made.append(registry.create(database, objects, path, new))
    first, second, third = made
    assert registry.find(database, "bbbb").run_id == third.run_id
    assert registry.find(database, "AAAA1").run_id == first.run_id
    assert registry.find(database, f" {second.run_id} ").run_id == second.run_id
    with pytest.raises(AmbiguousRun, match=f"{first.run_id}, {second.run_id}"):
        registry.find(database, "aaaa")
    with pytest.raises(RunNotFound):
        registry.find(database, "cccc")
    with pytest.raises(RunNotFound):
        registry.get(database, "00000000-0000-4000-8000-000000000000")
    for typed in ("aaa", "", "%%%%", "aaaa%", "'; drop table runs; --", "x" * 40, "____"):
        with pytest.raises(UsageError):
            registry.find(database, typed)


def test_the_list_is_newest_first_and_can_be_filtered(database, objects, tmp_path):
    made = [new_run(database, objects, tmp_path).run_id for _ in range(3)]
    assert [run.run_id for run in registry.list_runs(database)] == made[::-1]
    assert [run.run_id for run in registry.list_runs(database, limit=2)] == made[:0:-1]
    registry.transition(database, registry.get(database, made[1]), "request_cancel", reason="not needed")
    assert [run.run_id for run in registry.list_runs(database, status=Status.CANCEL_REQUESTED)] == [made[1]]
    assert len(registry.list_runs(database, status=Status.QUEUED)) == 2


def test_a_transition_compares_status_and_version(database, run):
    assert in_transaction(database, run, "request_cancel", reason="x")
    assert not in_transaction(database, run, "request_cancel", reason="y")  # its version is over
    after = registry.get(database, run.run_id)
    assert (after.status, after.reason, after.version) == ("cancel_requested", "x", 2)
    assert after.finished_at is None
    with pytest.raises(StateChanged, match="has moved to cancel_requested"):
        registry.transition(database, run, "request_cancel")
    assert [e.data for e in events.read_all(database, run.run_id) if e.kind == "status"] == [
        {"from": "queued", "to": "cancel_requested", "reason": "x"}
    ]


def test_a_run_that_came_back_to_the_same_status_is_another_one(store, database, run):
    """queued, driven, queued again: who has seen only the first of it moves nothing."""
    holder = store.open_holder("test")
    claimed = lease.claim(store, database, run.run_id, holder, lease_seconds=60).run
    assert in_transaction(database, claimed, "requeue", epoch=1, reason="drained")
    holder.close()
    assert registry.get(database, run.run_id).status == run.status == "queued"
    assert not in_transaction(database, run, "request_cancel")
    assert registry.get(database, run.run_id).status == "queued"


def test_a_driver_s_transition_compares_the_epoch_too(store, database, run):
    holder = store.open_holder("test")
    claimed = lease.claim(store, database, run.run_id, holder, lease_seconds=60).run
    assert not in_transaction(database, claimed, "succeed", epoch=2)
    assert not in_transaction(database, claimed, "succeed", epoch=0)
    assert registry.get(database, run.run_id).status == "running"
    assert in_transaction(database, claimed, "succeed", epoch=1)
    assert registry.get(database, run.run_id).status == "succeeded"
    holder.close()


def test_of_many_transitions_at_once_one_wins(store, run):
    from contextlib import closing

    won = []

    def cancel():
        with closing(store.database()) as database:
            barrier.wait()
            if in_transaction(database, run, "request_cancel", reason="x"):
                won.append(True)

    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=cancel) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_a_decision_queues_a_waiting_run_and_is_harmless_otherwise(store, database, run):
    assert registry.queue_decided(database, run.run_id).status == "queued"
    holder = store.open_holder("test")
    claimed = lease.claim(store, database, run.run_id, holder, lease_seconds=60).run
    assert registry.queue_decided(database, run.run_id).status == "running"
    assert in_transaction(database, claimed, "wait", epoch=1, reason="approval")
    with pytest.raises(WaitingForPerson, match="approval"):
        lease.claim(store, database, run.run_id, holder, lease_seconds=60)
    assert registry.queue_decided(database, run.run_id).status == "queued"
    assert registry.queue_decided(database, run.run_id).version == 4
    holder.close()


def test_an_ended_run_cannot_be_claimed(store, database, run):
    stopping = registry.transition(database, run, "request_cancel")
    registry.transition(database, stopping, "confirm_cancel")
    holder = store.open_holder("test")
    with pytest.raises(RunFinished, match="cancelled"):
        lease.claim(store, database, run.run_id, holder, lease_seconds=60)
    holder.close()


BROKEN_ROWS = [
    "update {runs} set status = 'sleeping'",
    "update {runs} set status = 'failed', finished_at = created_at",
    "update {runs} set status = 'succeeded'",
    "update {runs} set finished_at = created_at",
    "update {runs} set wake_at = created_at, status = 'running'",
    "update {runs} set owner = ''",
    "update {runs} set spent_micros = -1",
    "update {runs} set input_digest = 'x'",
    "insert into {events} select run_id, 1, null, 'x', null, '{{}}', created_at from {runs}",
    "insert into {leases} select run_id, 0, null, 1, created_at, null from {runs}",
]


@pytest.mark.parametrize("statement", BROKEN_ROWS)
def test_the_database_upholds_it_too(store, run, statement):
    if store.kind == "postgres":
        import psycopg

        with psycopg.connect(store.dsn) as connection, pytest.raises(psycopg.Error) as refused:
            connection.execute(statement.format(runs="onward.runs", events="onward.events", leases="onward.leases"))
        assert isinstance(refused.value, psycopg.IntegrityError | psycopg.DataError)
    else:
        import sqlite3

        connection = sqlite3.connect(store.path)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement.format(runs="runs", events="events", leases="leases"))
        connection.close()
