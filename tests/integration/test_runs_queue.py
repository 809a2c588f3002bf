"""Hints: written with the row that they are about, one for each run, given again by a sweeper, and deciding nothing."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from onward_ledger.database.postgres import PostgresTransaction
from runs import lease, registry
from runs.dispatch import queue_worker
from runs.queue_tables import set_up_queue
from runs.store import POSTGRES_ENGINE, PostgresStore
from tests.support.runs_world import VERSION, close, new_run

pytest_plugins = ("tests.support.runs_fixtures",)


@pytest.fixture
def store(postgres_store):
    """A store with the queue's tables, whose server is not young."""
    with closing(postgres_store.database()) as database:
        set_up_queue(database)
    with psycopg.connect(postgres_store.dsn, autocommit=True) as connection:
        connection.execute(
            "create or replace function onward.onward_server_is_young(lease_seconds double precision) "
            "returns boolean language sql stable as 'select false'"
        )
    return postgres_store


@pytest.fixture
def database(store):
    with closing(store.database("test")) as opened:
        yield opened


@pytest.fixture
def make(database, objects, tmp_path):
    return lambda **more: new_run(database, objects, tmp_path, **more)


def jobs(database):
    """Run, queue and state of every job; whether it is for later."""
    with database.connection() as connection:
        rows = connection.execute(
            "select queueing_lock, queue_name, status::text, scheduled_at is not null as later from procrastinate_jobs "
            "order by id"
        ).fetchall()
    return [tuple(row.values()) for row in rows]


def ask(database, name, **params):
    with database.connection() as connection:
        return PostgresTransaction(connection, POSTGRES_ENGINE).all(name, **params)


def take_jobs(database):
    with database.connection() as connection:
        connection.execute("update procrastinate_jobs set status = 'doing' where status = 'todo'")


def claimed(store, database, run, kind="test"):
    holder = store.open_holder(kind)
    return holder, lease.claim(store, database, run.run_id, holder, lease_seconds=60)


def requeued(database, run, **more):
    with database.transaction() as tx:
        tx.send("lock_run", run_id=run.run_id)
        assert registry.move(tx, run, "requeue", epoch=1, reason="transient", **more)


def test_a_new_run_writes_its_hint_and_a_rolled_back_one_does_not(database, make):
    run = make()
    assert jobs(database) == [(run.run_id, VERSION, "todo", False)]
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:
        tx.run("insert_run", **_row_like(run))
        raise ZeroDivisionError
    assert len(jobs(database)) == 1


def _row_like(run):
    row = {name: value for name, value in vars(run).items() if name not in ("asks", "params", "allowed_kinds")}
    row = {name: value for name, value in row.items() if not isinstance(value, bool)}
    other = {"run_id": "99999999" + run.run_id[8:], "asks": [], "params": {}}
    return row | other | {"allowed_kinds": None, "wake_seconds": None}


def test_without_a_queue_a_run_is_made_all_the_same(postgres_store, objects, tmp_path):
    with closing(postgres_store.database()) as database:
        assert new_run(database, objects, tmp_path).status == "queued"
        assert ask(database, "has_queue") == [{"found": False}]


def test_there_is_one_waiting_hint_for_a_run_and_it_is_due_as_soon_as_any_of_them(store, database, make):
    run = make(wake_seconds=600.0)
    assert jobs(database) == [(run.run_id, VERSION, "todo", True)]
    holder, taken = claimed(store, database, run)
    requeued(database, taken.run, wake_seconds=30.0)
    assert jobs(database) == [(run.run_id, VERSION, "todo", True)]
    with database.connection() as connection:
        row = connection.execute("select scheduled_at - now() as pause from procrastinate_jobs").fetchone()
    assert row["pause"] < timedelta(seconds=31)
    again = registry.get(database, run.run_id)
    close(holder, store)
    holder, taken = claimed(store, database, again)
    with database.transaction() as tx:
        tx.send("lock_run", run_id=run.run_id)
        registry.move(tx, taken.run, "requeue", epoch=2, reason="drained")
    assert jobs(database) == [(run.run_id, VERSION, "todo", False)]
    holder.close()


def test_asking_to_cancel_a_run_that_nobody_drives_gives_a_hint(store, database, make):
    waiting, driven = make(), make()
    holder, taken = claimed(store, database, driven)
    take_jobs(database)
    registry.transition(database, waiting, "request_cancel", reason="x")
    registry.transition(database, taken.run, "request_cancel", reason="x")
    assert [job for job in jobs(database) if job[2] == "todo"] == [(waiting.run_id, VERSION, "todo", False)]
    holder.close()


def test_a_run_whose_driver_is_gone_is_hinted_once_a_second_by_all_sweepers_together(store, database, make):
    run = make()
    holder, _ = claimed(store, database, run)
    take_jobs(database)
    assert ask(database, "hint_takeable", versions=[VERSION]) == []  # its driver lives
    close(holder, store)
    assert [row["run_id"] for row in ask(database, "hint_takeable", versions=[VERSION])] == [run.run_id]
    assert ask(database, "hint_takeable", versions=[VERSION]) == []  # just noted, by whichever worker
    assert [job[2] for job in jobs(database)] == ["doing", "todo"]
    take_jobs(database)
    clock = database.now() + timedelta(seconds=1.1)
    with closing(PostgresStore(store.dsn, clock=clock).database()) as later:
        assert [row["run_id"] for row in ask(later, "hint_takeable", versions=[VERSION])] == [run.run_id]


def test_a_run_of_a_version_that_is_not_served_is_left_alone(store, database, make):
    run = make()
    holder, _ = claimed(store, database, run)
    close(holder, store)
    take_jobs(database)
    assert ask(database, "hint_takeable", versions=["other"]) == []
    lost = ask(database, "hint_unhinted", versions=["other"], after="", limit=10)
    assert [row["hinted"] for row in lost] == [0]


def test_a_take_over_in_progress_is_not_waited_for(store, database, make):
    run = make()
    holder, _ = claimed(store, database, run)
    close(holder, store)
    with database.transaction() as tx:
        assert tx.one("lock_lease", run_id=run.run_id) is not None
        with closing(store.database()) as sweeper:
            assert ask(sweeper, "hint_takeable", versions=[VERSION]) == []


@pytest.mark.parametrize(("ago", "waits"), [(1.0, 0.0), (0.05, 0.1), (60.0, 0.15), (None, 0.15)])
def test_the_sweeper_s_look_is_the_first_of_the_two(store, database, make, monkeypatch, ago, waits):
    """A claim waits what is left of the 150 ms; with a look that is too old, or none, the whole of it."""
    monkeypatch.setattr(lease, "process_is_dead", lambda run: False)  # as on another machine
    slept = []
    monkeypatch.setattr(lease.time, "sleep", slept.append)
    run = make()
    holder, _ = claimed(store, database, run)
    close(holder, store)
    still = PostgresStore(store.dsn, clock=database.now())  # the clock that decides stands still
    with closing(still.database()) as then:
        if ago is not None:
            with then.connection() as connection:
                connection.execute("update leases set missed_at = onward_now() - make_interval(secs => %s)", (ago,))
        holder, taken = claimed(still, then, run)
        close(holder, store)
    assert taken.why == "gone"
    assert slept == [pytest.approx(waits, abs=0.001)]


def test_a_heartbeat_clears_the_look(store, database, make):
    run = make()
    holder, _ = claimed(store, database, run)
    with database.connection() as connection:
        connection.execute("update leases set missed_at = onward_now()")
    assert holder.renew(run.run_id, 1)
    assert registry.get(database, run.run_id).missed_at is None
    holder.close()


def test_lost_hints_are_found_page_by_page(database, make):
    made = sorted(make().run_id for _ in range(5))
    later = make(wake_seconds=60.0).run_id
    with database.connection() as connection:
        connection.execute("delete from procrastinate_jobs")
    after, hinted = "", []
    for _ in range(4):
        (row,) = ask(database, "hint_unhinted", versions=[VERSION], after=after, limit=2)
        hinted.append(row["hinted"])
        after = row["last"] or ""
    assert sum(hinted) == 5
    assert sorted(job[0] for job in jobs(database)) == made
    assert later not in {job[0] for job in jobs(database)}  # not due yet


def test_the_queue_hands_each_hint_to_a_worker_and_keeps_nothing_of_it(store, database, make):
    made = {make().run_id for _ in range(3)}
    other = make(workflow_version="unserved").run_id
    looked = []

    async def listen():
        async def look(run_id):
            looked.append(run_id)
            if len(looked) == len(made):
                queue.stop()

        app, queue = queue_worker(store, [VERSION], 2, look)
        async with app.open_async():
            await queue.run()

    asyncio.run(asyncio.wait_for(listen(), timeout=20))
    assert set(looked) == made
    assert [(job[0], job[2]) for job in jobs(database)] == [(other, "todo")]


def test_a_queue_that_is_set_up_by_several_at_once_is_there_once(postgres_store):
    import threading

    def set_up():
        with closing(postgres_store.database()) as database:
            set_up_queue(database)

    threads = [threading.Thread(target=set_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(postgres_store.database()) as database:
        assert jobs(database) == []
