"""Events: numbered in the order of their commits, refused from an epoch that is over."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from graph.context import LeaseLost
from runs import events, lease, registry
from runs.errors import LimitReached
from runs.heartbeat import Heartbeat
from runs.recorder import DriveRecorder
from tests.support.exchanges import exchanges
from tests.support.runs_world import new_run

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True

WRITERS, EACH = 6, 25


@pytest.fixture
def run(store, database, objects, tmp_path):
    return new_run(database, objects, tmp_path, store=store.kind)


def write(database, run_id, kind, epoch=None):
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run_id)
        return events.append(tx, run_id, kind, {"by": threading.current_thread().name}, epoch=epoch)


@pytest.fixture
def driven(store, database, run):
    """A claimed run with its recorder, as (run, recorder, heartbeat, holder)."""
    holder = store.open_holder("test")
    claimed = lease.claim(store, database, run.run_id, holder, lease_seconds=60).run
    heartbeat = Heartbeat(holder, run.run_id, 1, 60, exit_process=lambda: None)
    yield claimed, DriveRecorder(database, claimed, 1, heartbeat), heartbeat, holder
    holder.close()


def test_a_follower_never_misses_one_however_many_write(store, database, run):
    """An identity column fails this: its numbers commit out of order, and a follower at 2 never sees 1."""

    def writer():
        with closing(store.database()) as mine:
            for _ in range(EACH):
                write(mine, run.run_id, "note")

    threads = [threading.Thread(target=writer, name=f"writer-{n}") for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads) or events.read(database, run.run_id, after=len(seen)):
        for event in events.read(database, run.run_id, after=seen[-1] if seen else 0, limit=7):
            assert event.seq == (seen[-1] if seen else 0) + 1
            seen.append(event.seq)
    assert len(seen) == WRITERS * EACH + 1
    assert registry.get(database, run.run_id).last_seq == len(seen)


def test_pages_behind_a_cursor(database, run):
    for _ in range(6):
        write(database, run.run_id, "note")
    assert [e.seq for e in events.read(database, run.run_id, after=2, limit=3)] == [3, 4, 5]
    assert events.read(database, run.run_id, after=7) == []
    last = events.read_all(database, run.run_id)[-1]
    assert last.to_json() | {"created_at": None} == {
        "run_id": run.run_id,
        "seq": 7,
        "epoch": None,
        "kind": "note",
        "step": None,
        "data": {"by": "MainThread"},
        "created_at": None,
    }
    assert last.created_at.tzinfo is not None


def test_an_event_that_is_rolled_back_leaves_no_gap(database, run):
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        events.append(tx, run.run_id, "lost", {})
        raise ZeroDivisionError
    write(database, run.run_id, "kept")
    assert [(e.seq, e.kind) for e in events.read_all(database, run.run_id)] == [(1, "created"), (2, "kept")]


def test_an_older_epoch_writes_nothing(store, database, driven):
    run, recorder, heartbeat, holder = driven
    recorder.step_started("plan")
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        tx.run("take_lease", run_id=run.run_id, epoch=2, holder_id=holder.holder_id, seconds=60.0)
    before = registry.get(database, run.run_id).last_seq
    with pytest.raises(LeaseLost):
        recorder.step_finished("plan")
    assert registry.get(database, run.run_id).last_seq == before
    assert heartbeat.lost  # and whoever checks next hears of it
    with pytest.raises(LeaseLost):
        recorder.check()


@pytest.mark.parametrize("how", ["a transaction", "one message"])
def test_a_late_writer_waits_for_the_take_over_and_is_then_refused(store, database, driven, how):
    """The race behind lock_run: a sub-select alone would see the lease as it was when its statement began."""
    if store.kind == "sqlite":
        return  # one writer at a time: there is no such race
    run, _, heartbeat, holder = driven
    refused = []

    def late():
        with closing(store.database("late writer")) as mine:
            if how == "a transaction":
                refused.append(write(mine, run.run_id, "late", epoch=1))
            else:
                with pytest.raises(LeaseLost):
                    DriveRecorder(mine, run, 1, heartbeat).record("late", {})
                refused.append(None)

    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        thread = threading.Thread(target=late)
        thread.start()
        waiting = """select count(*) as n from pg_stat_activity
                     where application_name = 'late writer' and wait_event_type = 'Lock'"""
        with database.connection() as look:
            while look.execute(waiting).fetchone()["n"] == 0:
                pass
        tx.run("take_lease", run_id=run.run_id, epoch=2, holder_id=holder.holder_id, seconds=60.0)
    thread.join()
    assert refused == [None]
    assert "late" not in [e.kind for e in events.read_all(database, run.run_id)]


def test_an_older_epoch_adds_nothing_to_the_sums_and_forgets_no_failures(database, driven):
    """Each statement of the message compares the epoch; the new driver's writes are the control."""
    run, recorder, _, holder = driven
    call = recorder.model_call_started("plan", "some model")
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        registry.move(tx, run, "requeue", epoch=1, failures=3)
        tx.run("take_lease", run_id=run.run_id, epoch=2, holder_id=holder.holder_id, seconds=60.0)
    paid = {"finish_reason": "stop", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0.5}
    with pytest.raises(LeaseLost):
        recorder.model_call_finished(call, **paid)
    for write in (recorder.step_finished, recorder.step_started):
        zombie = DriveRecorder(database, run, 1, Heartbeat(holder, run.run_id, 1, 60))
        with pytest.raises(LeaseLost):
            getattr(zombie, write.__name__)("plan")
    before = registry.get(database, run.run_id)
    assert (before.failures, before.spent_micros, before.input_tokens) == (3, 0, 0)
    assert [e.kind for e in events.read_all(database, run.run_id)][-2:] == ["model_call_started", "status"]
    second = DriveRecorder(database, run, 2, Heartbeat(holder, run.run_id, 2, 60))
    second.model_call_finished(call, **paid)
    second.step_finished("plan")
    after = registry.get(database, run.run_id)
    assert (after.failures, after.spent_micros, after.input_tokens) == (0, 500_000, 1)


def test_what_a_driver_tells_is_one_exchange_each(postgres_store, objects, tmp_path):
    with closing(postgres_store.database()) as database:
        run = new_run(database, objects, tmp_path)
        with closing(postgres_store.open_holder("test")) as holder:
            claimed = lease.claim(postgres_store, database, run.run_id, holder, lease_seconds=60).run
            recorder = DriveRecorder(database, claimed, 1, Heartbeat(holder, run.run_id, 1, 60))
            with exchanges() as seen:
                recorder.step_started("plan")
                call = recorder.model_call_started("plan", "m")
                recorder.model_call_finished(call, finish_reason="stop", input_tokens=1, output_tokens=1, cost_usd=0.1)
                recorder.progress("plan", "half way", done=1, total=2)
                recorder.step_finished("plan")
            assert (seen.count, seen.connections) == (5, 0)


def test_attempts_count_over_all_epochs(store, database, driven):
    run, recorder, _heartbeat, holder = driven
    assert [recorder.step_started("plan"), recorder.step_started("plan"), recorder.step_started("test")] == [1, 2, 1]
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        tx.run("take_lease", run_id=run.run_id, epoch=2, holder_id=holder.holder_id, seconds=60.0)
    second = DriveRecorder(database, run, 2, Heartbeat(holder, run.run_id, 2, 60))
    assert second.step_started("plan") == 3
    assert [e.data["attempt"] for e in events.read_all(database, run.run_id) if e.step == "plan"] == [1, 2, 3]


def test_model_calls_are_summed_and_an_unmatched_start_is_listed(database, driven):
    run, recorder, _, _ = driven
    first = recorder.model_call_started("plan", "some model")
    second = recorder.model_call_started("plan", "some model")
    recorder.model_call_finished(first, finish_reason="stop", input_tokens=10, output_tokens=5, cost_usd=0.25)
    third = recorder.model_call_started("write_draft", "some model")
    recorder.model_call_finished(third, finish_reason="length", input_tokens=None, output_tokens=7, cost_usd=None)
    after = registry.get(database, run.run_id)
    assert (after.spent_micros, after.input_tokens, after.output_tokens) == (250_000, 10, 12)
    with database.reading() as tx:
        assert tx.all("unmatched_model_calls", run_id=run.run_id) == [{"call_id": second, "step": "plan"}]


def test_a_finished_step_forgets_transient_failures(database, driven):
    run, recorder, _, _holder = driven
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        registry.move(tx, run, "requeue", epoch=1, reason="transient", failures=3)
    assert registry.get(database, run.run_id).failures == 3
    recorder.step_finished("plan")
    assert registry.get(database, run.run_id).failures == 0


def test_a_deadline_ends_what_asks_first(store, database, objects, tmp_path):
    holder = store.open_holder("test")
    made = new_run(database, objects, tmp_path, store=store.kind, deadline_at=database.now())
    claimed = lease.claim(store, database, made.run_id, holder, lease_seconds=60).run
    recorder = DriveRecorder(database, claimed, 1, Heartbeat(holder, made.run_id, 1, 60))
    with pytest.raises(LimitReached) as reached:
        recorder.step_started("plan")
    assert reached.value.limit == "deadline"
    holder.close()


def test_a_budget_ends_what_asks_first(store, database, objects, tmp_path):
    holder = store.open_holder("test")
    made = new_run(database, objects, tmp_path, store=store.kind, budget_micros=1_000_000)
    claimed = lease.claim(store, database, made.run_id, holder, lease_seconds=60).run
    recorder = DriveRecorder(database, claimed, 1, Heartbeat(holder, made.run_id, 1, 60))
    call = recorder.model_call_started("plan", "m")
    recorder.model_call_finished(call, finish_reason="stop", input_tokens=1, output_tokens=1, cost_usd=0.99)
    call = recorder.model_call_started("plan", "m")
    recorder.model_call_finished(call, finish_reason="stop", input_tokens=1, output_tokens=1, cost_usd=0.02)
    with pytest.raises(LimitReached, match=r"1\.01 of 1\.00 US\$") as reached:
        recorder.model_call_started("plan", "m")
    assert reached.value.limit == "budget"
    holder.close()
