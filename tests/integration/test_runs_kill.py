"""Drivers that are killed, stopped, woken and asked to stop: real processes, real signals, on both stores."""

from __future__ import annotations

import signal
import time

import psycopg
import pytest

from onward_ledger.action import ActionKey
from runs import events, lease, registry
from runs.errors import DrivenElsewhere, Exit
from runs.holder import host_name, registering
from tests.support.runs_processes import Child, driving, spec_of
from tests.support.runs_world import effects_in, new_run, until

pytest_plugins = ("tests.support.runs_fixtures",)

ALL = ["plan", "analyze", "write_draft", "test", "deliver"]


@pytest.fixture
def run(store, database, objects, tmp_path):
    return new_run(database, objects, tmp_path, store=store.kind)


@pytest.fixture
def start(store, served_ledger, run, tmp_path):
    """`start(name, **options)`: a process that drives the run; all are ended with the test."""
    children = []

    def starting(name, run_id=run.run_id, **options):
        world = {"world": str(tmp_path), **options}
        children.append(Child(driving, tmp_path / name, spec_of(store), run_id, served_ledger, world))
        return children[-1]

    yield starting
    for child in children:
        if child.process.exitcode is None:
            child.kill()


def claims(database, run):
    found = [e.data for e in events.read_all(database, run.run_id) if e.kind == "claimed"]
    return [(data["why"], data["before"]) for data in found]


def test_a_killed_run_goes_on_in_another_process_at_once(start, database, run, tmp_path, record_property):
    first = start("first", pauses=["in write_draft"])
    first.reached("in write_draft")
    first.kill()
    began = time.monotonic()
    second = start("second")
    until(lambda: registry.get(database, run.run_id).epoch == 2)
    took = time.monotonic() - began
    assert second.end() == Exit.OK, second.told()
    assert effects_in(tmp_path / "effects") == ALL  # killed before its effect: that step runs again, once
    after = registry.get(database, run.run_id)
    assert (after.status, after.epoch, after.driver) == ("succeeded", 2, None)
    assert claims(database, run) == [("queued", 0), ("gone", 1)]
    record_property("kill_to_claim_seconds", round(took, 3))
    assert took < 2, "the lease of 5 seconds was waited for"


def test_a_kill_in_every_step_repeats_that_step_at_most(start, run, database, tmp_path):
    for number, name in enumerate([*ALL[:4], "deliver"]):
        child = start(f"driver-{number}", pauses=[f"in {name}"])
        child.reached(f"in {name}")
        child.kill()
    last = start("last")
    assert last.end() == Exit.OK, last.told()
    assert effects_in(tmp_path / "effects") == ALL
    assert registry.get(database, run.run_id).epoch == 6
    started = [e.step for e in events.read_all(database, run.run_id) if e.kind == "step_started"]
    assert started == [name for name in ALL for _ in range(2)]


def test_a_living_driver_keeps_its_run_and_is_named(start, store, database, run):
    first = start("first", pauses=["in plan"])
    first.reached("in plan")
    second = start("second")
    assert second.end() == Exit.CONFLICT
    told = second.told()
    assert told["error"] == "DrivenElsewhere"
    assert f"process {first.pid} on {host_name()} (epoch 1)" in told["message"]
    assert registry.get(database, run.run_id).epoch == 1
    first.let_go("in plan")
    assert first.end() == Exit.OK


def test_a_stopped_driver_loses_the_run_when_its_lease_is_over_and_stops_when_it_wakes(start, database, run, tmp_path):
    zombie = start("zombie", pauses=["in test"], lease_seconds=0.6)
    zombie.reached("in test")
    zombie.signal(signal.SIGSTOP)
    zombie.stopped()
    assert registry.get(database, run.run_id).driver == "alive"  # its lock lives, its lease is not over yet
    until(lambda: registry.get(database, run.run_id).driver == "hanging")
    second = start("second")
    assert second.end() == Exit.OK, second.told()
    zombie.let_go("in test")
    zombie.signal(signal.SIGCONT)
    assert zombie.end() == Exit.CONFLICT
    assert zombie.told()["reason"] == "lease_lost"
    assert claims(database, run) == [("queued", 0), ("expired", 1)]
    after = registry.get(database, run.run_id)
    assert (after.status, after.epoch) == ("succeeded", 2)
    # What the zombie does outside of all guards, its node does: that is why effects go through the ledger.
    assert [name for name in effects_in(tmp_path / "effects") if name != "test"] == [n for n in ALL if n != "test"]


def test_work_that_looks_at_nothing_is_ended_two_seconds_after_the_lease(start, database, run):
    zombie = start("zombie", pauses=["in test"], lease_seconds=0.6)
    zombie.reached("in test")
    zombie.signal(signal.SIGSTOP)
    until(lambda: registry.get(database, run.run_id).driver == "hanging")
    second = start("second")
    assert second.end() == Exit.OK
    woken = time.monotonic()
    zombie.signal(signal.SIGCONT)  # and it goes on waiting in its node
    assert zombie.end() == Exit.CONFLICT
    assert 1.5 < time.monotonic() - woken < 6
    assert zombie.told() is None  # it did not end by itself


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_driver_stopped_inside_an_open_pipeline_does_not_keep_the_run(start, store, database, objects, tmp_path):
    """Its backend would hold the lease row for ever: the take-over terminates it. At every pipeline of a run."""
    pipelines = range(1, 12)
    runs = {n: new_run(database, objects, tmp_path, store=store.kind).run_id for n in pipelines}
    zombies = {n: start(f"zombie-{n}", run_id=runs[n], lease_seconds=1.0, stop_in_pipeline=n) for n in pipelines}
    for zombie in zombies.values():
        zombie.stopped()
    holding = """select count(*) from pg_locks join pg_class c on c.oid = relation join pg_stat_activity using (pid)
                 where c.relname = 'leases' and mode = 'RowShareLock' and application_name like 'onward%'"""
    with psycopg.connect(store.dsn, autocommit=True) as look:
        until(lambda: look.execute(holding).fetchone()[0] == len(zombies))  # else this proves nothing
    until(lambda: all(registry.get(database, run_id).driver == "hanging" for run_id in runs.values()))
    seconds = {n: start(f"second-{n}", run_id=runs[n]) for n in pipelines}
    for n in pipelines:
        assert seconds[n].end() == Exit.OK, seconds[n].told()
        zombies[n].signal(signal.SIGCONT)
    for n in pipelines:
        assert zombies[n].end() == Exit.CONFLICT, zombies[n].told()
        after = registry.get(database, runs[n])
        assert (after.status, after.epoch) == ("succeeded", 2)
        assert claims(database, after) == [("queued", 0), ("expired", 1)]


def test_only_the_old_driver_is_terminated_by_a_take_over(start, store, database, run):
    """The control: a stranger who holds the row in an open transaction is named, not terminated."""
    if store.kind == "sqlite":
        return  # a file has no sessions to tell apart
    zombie = start("zombie", pauses=["in plan"], lease_seconds=0.5)
    zombie.reached("in plan")
    zombie.signal(signal.SIGSTOP)
    until(lambda: registry.get(database, run.run_id).driver == "hanging")
    holder = store.open_holder("test")
    with psycopg.connect(store.dsn) as stranger:
        stranger.execute("select from onward.leases for update")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runs.store.LONGEST_LOCK_WAIT_MS", 400)
            with pytest.raises(registry.StateChanged, match="pg_stat_activity"):
                lease.claim(store, database, run.run_id, holder, lease_seconds=5)
        assert stranger.execute("select 1").fetchone() == (1,)
    assert lease.claim(store, database, run.run_id, holder, lease_seconds=5).epoch == 2
    holder.close()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_driver_stopped_while_it_holds_the_file_does_not_keep_the_run(start, store, database, run):
    import sqlite3

    zombie = start("zombie", pauses=["in plan"], lease_seconds=0.6, hold_file=True)
    zombie.reached("in plan")
    zombie.signal(signal.SIGSTOP)
    with sqlite3.connect(store.path, timeout=0) as look, pytest.raises(sqlite3.OperationalError, match="locked"):
        look.execute("begin immediate")
    look.close()
    until(lambda: registry.get(database, run.run_id).driver == "hanging")
    second = start("second")
    assert second.end() == Exit.OK, second.told()
    assert zombie.end() == -signal.SIGKILL


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_told", [True, False])
def test_one_stopped_while_it_makes_itself_known_does_not_keep_the_file(start, store, database, run, is_told):
    """No row says yet who it is: a file does. Without it (the control) the file stays locked."""
    zombie = start("zombie", stop_registering=True)
    zombie.stopped()
    (told,) = store.locks.glob("registering-*")
    assert told.name.startswith(f"registering-{zombie.pid}-")
    if not is_told:
        told.unlink()
    second = start("second", file_patience=4.0)
    if is_told:
        assert second.end() == Exit.OK, second.told()
        assert zombie.end() == -signal.SIGKILL
        assert (registering(store.locks), told.exists()) == ([], False)  # whoever looks removes what the dead left
    else:
        assert second.end(40) != Exit.OK
        assert registry.get(database, run.run_id).epoch is None
        zombie.kill()


def test_the_first_sigterm_drains_at_the_super_step(start, database, run, tmp_path):
    first = start("first", pauses=["in write_draft"])
    first.reached("in write_draft")
    first.signal(signal.SIGTERM)
    first.let_go("in write_draft")
    assert first.end() == Exit.HANDED_BACK, first.told()
    after = registry.get(database, run.run_id)
    assert (after.status, after.reason, after.holder_id, after.driver) == ("queued", "drained", None, None)
    assert effects_in(tmp_path / "effects") == ["plan", "analyze", "write_draft"]
    second = start("second")
    assert second.end() == Exit.OK
    assert effects_in(tmp_path / "effects") == ALL  # nothing twice
    assert claims(database, run) == [("queued", 0), ("queued", 1)]


def test_the_second_sigterm_stops_at_once(start, database, run, tmp_path):
    first = start("first", pauses=["in write_draft"])
    first.reached("in write_draft")
    first.signal(signal.SIGTERM)
    first.signal(signal.SIGINT)
    assert first.end() == Exit.HANDED_BACK
    assert first.told() is None  # it did not end by itself
    assert registry.get(database, run.run_id).status == "running"
    second = start("second")
    assert second.end() == Exit.OK
    assert effects_in(tmp_path / "effects") == ALL


def test_two_claimers_at_once_one_drives_and_the_other_says_who(start, database, run):
    children = [start(f"claimer-{number}", pauses=["in plan"]) for number in range(3)]
    until(lambda: sum(child.process.exitcode is not None for child in children) == 2)
    winner = next(child for child in children if child.process.exitcode is None)
    for loser in children:
        if loser is not winner:
            assert loser.process.exitcode == Exit.CONFLICT
            assert f"process {winner.pid} on {host_name()}" in loser.told()["message"]
    winner.let_go("in plan")
    assert winner.end() == Exit.OK
    assert registry.get(database, run.run_id).epoch == 1


def test_a_killed_wait_for_a_person_is_waited_for_again_and_the_decision_counts_once(
    start, database, run, served_ledger, tmp_path
):
    first = start("first", pauses=["in deliver"], asks_person=True)
    first.reached("in deliver")
    first.kill()
    second = start("second", asks_person=True)
    assert second.end() == Exit.WAITING
    assert registry.get(database, run.run_id).status == "waiting_human"
    served_ledger.decide(ActionKey(run.run_id, "deliver", "slot").action_id, "approve")
    third = start("third", asks_person=True)
    assert third.end() == Exit.WAITING  # a driver does not wake a run by itself: whoever decided does
    registry.queue_decided(database, run.run_id)
    fourth = start("fourth", asks_person=True)
    assert fourth.end() == Exit.OK
    fifth = start("fifth", asks_person=True)
    assert (fifth.end(), fifth.told()["error"]) == (Exit.CONFLICT, "RunFinished")
    assert effects_in(tmp_path / "effects") == ALL


def test_driven_elsewhere_says_who(start, store, database, run):
    first = start("first", pauses=["in plan"])
    first.reached("in plan")
    holder = store.open_holder("test")
    with pytest.raises(DrivenElsewhere) as refused:
        lease.claim(store, database, run.run_id, holder, lease_seconds=5)
    assert (refused.value.pid, refused.value.host, refused.value.epoch) == (first.pid, host_name(), 1)
    holder.close()
