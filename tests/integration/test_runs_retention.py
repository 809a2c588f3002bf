"""Removal by age: what goes, what stays, beside drivers, and killed in the middle."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from onward_ledger.objects import Objects
from runs import registry, retention
from runs.checkpoints import open_saver
from runs.registry import Status
from runs.retention import Amount, Kept, Leftovers
from tests.integration.test_runs_fence import always, put
from tests.support.retention import KeptLedger, make_unknown, place_of, rows_of
from tests.support.runs_drives import ALL, World
from tests.support.runs_processes import Child, pause_at, spec_of, store_of
from tests.support.runs_world import MemoryLedger, new_run

pytest_plugins = ("tests.support.runs_fixtures",)

AN_HOUR = timedelta(hours=1)


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


@pytest.fixture
def kept_ledger(ledger):
    return KeptLedger(ledger)


@pytest.fixture
def place(store, database, objects, kept_ledger):
    return place_of(store, database, objects, kept_ledger)


def soon(database):
    """An instant behind everything that has happened."""
    return database.now() + timedelta(seconds=1)


def remove(place, *, limit=100, apply=True, before=None):
    return retention.remove_finished(place, before or soon(place.database), limit=limit, apply=apply)


def finished(world, **more):
    """Another run that has ended: cancelled before anybody drove it."""
    run = new_run(world.database, world.objects, world.folder, store=world.store.kind, **more)
    asked = registry.transition(world.database, run, "request_cancel")
    registry.transition(world.database, asked, "confirm_cancel")
    return run.run_id


def ids(removal):
    return [one.run_id for one in removal.gone]


def test_a_finished_run_goes_with_every_row_and_file_and_nothing_else(world, place, store, objects, kept_ledger):
    other = new_run(world.database, objects, world.folder, store=store.kind)
    world.drive()
    before = rows_of(store, world.run_id)
    assert before["runs"] == before["leases"] == 1
    assert before["checkpoints"] > 1 and before["events"] > 1  # or this looks at nothing
    objects.put_once(f"drafts/{world.run_id}/1/report.md", b"# Report")

    seen = remove(place, apply=False)
    assert rows_of(store, world.run_id) == before
    assert kept_ledger.closed == []

    removal = remove(place)
    assert removal == seen
    assert removal.total == Amount(
        runs=1, checkpoints=before["checkpoints"], events=before["events"], objects=1, bytes=world_input_size()
    )
    assert set(rows_of(store, world.run_id).values()) == {0}
    assert objects.keys() == [f"drafts/{world.run_id}/1/report.md", *objects.keys(f"runs/{other.run_id}")]
    assert kept_ledger.closed == [world.run_id]
    assert registry.get(world.database, other.run_id).status is Status.QUEUED
    assert remove(place) == retention.Removal()


def world_input_size():
    return len(b"month,revenue\n1,2\n")


def test_young_and_unfinished_runs_stay(world, place, store):
    assert ids(remove(place)) == []  # queued
    world.drive()
    assert ids(remove(place, before=world.database.now() - AN_HOUR)) == []
    assert rows_of(store, world.run_id)["runs"] == 1
    assert ids(remove(place)) == [world.run_id]


def test_a_run_with_an_unknown_effect_stays_open_and_is_named(world, place, ledger, kept_ledger, store):
    world.drive()
    action = make_unknown(ledger, world.run_id)
    for apply in (False, True):
        removal = remove(place, apply=apply)
        assert removal.gone == ()
        assert removal.kept == (Kept(run_id=world.run_id, reason="unknown_outcome", ids=(action,)),)
    assert kept_ledger.closed == []
    assert rows_of(store, world.run_id)["runs"] == 1
    ledger.succeed(action)  # a person has settled it
    assert ids(remove(place)) == [world.run_id]


def test_what_was_claimed_before_the_closing_keeps_the_run(world, place, ledger, kept_ledger):
    world.drive()
    real = kept_ledger.close_fence

    def late(run_id, **more):
        make_unknown(ledger, run_id)
        return real(run_id, **more)

    kept_ledger.close_fence = late
    assert [one.reason for one in remove(place).kept] == ["unknown_outcome"]


def test_a_run_that_others_were_made_from_goes_after_them(world, place):
    parent = finished(world)
    child = finished(world, parent=parent)
    grandchild = finished(world, parent=child)
    living = new_run(world.database, world.objects, world.folder, store=world.store.kind, parent=grandchild)
    removal = remove(place)
    assert removal.gone == ()
    assert {(one.run_id, one.ids) for one in removal.kept} == {
        (parent, (child,)),
        (child, (grandchild,)),
        (grandchild, (living.run_id,)),
    }
    asked = registry.transition(world.database, living, "request_cancel")
    registry.transition(world.database, asked, "confirm_cancel")
    seen = remove(place, apply=False)
    assert ids(seen) == [living.run_id, grandchild, child, parent]
    assert remove(place) == seen


def test_a_run_of_other_stores_stays(world, place):
    theirs = finished(world, ledger="another ledger")
    mine = finished(world)
    removal = remove(place)
    assert ids(removal) == [mine]
    assert removal.kept == (Kept(run_id=theirs, reason="elsewhere"),)


def test_the_oldest_go_first_up_to_the_limit_and_what_stays_is_not_in_the_way(world, place, ledger, monkeypatch):
    monkeypatch.setattr(retention, "PAGE", 1)
    runs = [finished(world) for _ in range(3)]
    make_unknown(ledger, runs[0])
    first = remove(place, limit=1)
    assert (ids(first), first.more) == ([runs[1]], True)
    assert [one.run_id for one in first.kept] == [runs[0]]
    second = remove(place, limit=5)
    assert (ids(second), second.more) == ([runs[2]], False)


def test_a_driven_run_is_left_alone(world, place, store, served_ledger, tmp_path):
    options = {"world": str(tmp_path), "pauses": ["in write_draft"]}
    child = Child(driving_child, tmp_path / "driver", spec_of(store), world.run_id, served_ledger, options)
    child.reached("in write_draft")
    before = rows_of(store, world.run_id)
    assert ids(remove(place)) == []
    assert rows_of(store, world.run_id) == before
    child.let_go("in write_draft")
    assert child.end() == 0
    assert world.effects == ALL
    assert ids(remove(place)) == [world.run_id]


def driving_child(folder, spec, run_id, ledger, options):
    from tests.support.runs_processes import driving

    return driving(folder, spec, run_id, ledger, options)


@pytest.mark.parametrize("store", ["postgres"], indirect=True)  # a file has one writer at a time: it is waited for
def test_a_row_that_somebody_holds_is_left_to_the_next_time(world, place):
    world.drive()
    for table in ("runs", "leases"):
        with psycopg.connect(world.store.dsn) as holding:
            holding.execute(f"select from onward.{table} where run_id = %s for key share", [world.run_id])
            assert remove(place).kept == (Kept(run_id=world.run_id, reason="in_use"),)
    assert ids(remove(place)) == [world.run_id]


class Pausing(Objects):
    """Objects that wait behind their removal."""

    folder = None

    def remove_below(self, prefix):
        removed = super().remove_below(prefix)
        pause_at(self.folder, "files removed")
        return removed


def removing(folder, spec, objects_url):
    Pausing.folder = folder
    store = store_of(spec)
    with closing(store.database()) as database:
        found = place_of(store, database, Pausing(objects_url), KeptLedger(MemoryLedger()))
        retention.remove_finished(found, soon(database), limit=10, apply=True)
    return {}


def test_killed_in_the_middle_it_is_done_again(world, place, store, objects, tmp_path):
    world.drive()
    before = rows_of(store, world.run_id)
    child = Child(removing, tmp_path / "removing", spec_of(store), objects.url)
    child.reached("files removed")
    child.kill()
    assert objects.keys(f"runs/{world.run_id}") == []
    assert rows_of(store, world.run_id) == before
    removal = remove(place)
    assert ids(removal) == [world.run_id]
    assert removal.total.objects == 0
    assert set(rows_of(store, world.run_id).values()) == {0}


def test_a_late_driver_of_a_removed_run_writes_nothing(world, place, store):
    world.drive()
    epoch = world.run.epoch
    with open_saver(store, world.run_id, epoch, 1, always) as saver:
        put(saver, world.run_id)  # the control: before the removal its epoch still counts
        remove(place)
        with pytest.raises((psycopg.Error, sqlite3.Error), match="stale epoch"):
            put(saver, world.run_id, 2)
    assert set(rows_of(store, world.run_id).values()) == {0}


def test_dead_drivers_go_when_nothing_refers_to_them(world, place, store):
    world.drive()
    living = store.open_holder("test")
    try:
        holders = count(store, "holders")
        assert holders >= 2
        now = world.database.now()
        assert retention.remove_leftovers(place, now, apply=True) == Leftovers()  # too young to be sure
        later = place_of(at(store, 2 * AN_HOUR), at(store, 2 * AN_HOUR).database(), world.objects, None)
        with closing(later.database):
            seen = retention.remove_leftovers(later, later.database.now(), apply=False)
            assert seen == Leftovers(holders=holders - 1)
            assert retention.remove_leftovers(later, later.database.now(), apply=True) == seen
            assert retention.remove_leftovers(later, later.database.now(), apply=True) == Leftovers()
        assert count(store, "holders") == 1
    finally:
        living.close()


def at(store, later):
    """The same store by a clock that is ahead."""
    with closing(store.database()) as database:
        clock = database.now() + later
    return type(store)(*([store.dsn] if store.kind == "postgres" else [store.path, store.locks]), clock=clock)


def count(store, table):
    if store.kind == "sqlite":
        with closing(sqlite3.connect(store.path)) as connection:
            return connection.execute(f"select count(*) from {table}").fetchone()[0]
    with psycopg.connect(store.dsn) as connection:
        return connection.execute(f"select count(*) from onward.{table}").fetchone()[0]


def test_jobs_that_are_over_and_those_of_dead_workers_go(postgres_store, objects):
    from procrastinate.schema import SchemaManager

    with psycopg.connect(postgres_store.dsn, autocommit=True, options="-c search_path=onward") as connection:
        connection.execute(SchemaManager.get_schema())
        alive, dead = (
            connection.execute(
                "insert into procrastinate_workers (last_heartbeat) values (now() - %s) returning id", [age]
            ).fetchone()[0]
            for age in (timedelta(0), 3 * AN_HOUR)
        )
        for status, worker in (
            ("todo", None),
            ("doing", alive),
            ("doing", dead),
            ("doing", None),
            ("succeeded", None),
            ("failed", alive),
        ):
            connection.execute(
                "insert into procrastinate_jobs (queue_name, task_name, status, worker_id) values ('1', 'x', %s, %s)",
                [status, worker],
            )
        with closing(postgres_store.database()) as database:
            place = place_of(postgres_store, database, objects, None)
            assert retention.remove_leftovers(place, database.now(), apply=False) == Leftovers(jobs=4)
            assert retention.remove_leftovers(place, database.now(), apply=True) == Leftovers(jobs=4)
        left = connection.execute("select status::text, worker_id from procrastinate_jobs order by 1").fetchall()
        assert left == [("doing", alive), ("todo", None)]
        assert connection.execute("select id from procrastinate_workers").fetchall() == [(alive,)]
