"""Seeing to one run without Temporal: the row decides whether to drive, to watch, or to leave it."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from contextlib import closing, nullcontext

import pytest

from onward_ledger.action import Status
from runs import events, registry
from runs.errors import RunNotFound
from runs.temporal.tending import Asker, NotDriven, see_to
from tests.support.runs_processes import Child, driving, spec_of
from tests.support.runs_world import VERSION, effects_in, new_run, until
from tests.support.temporal_world import means

pytestmark = pytest.mark.campaign

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True
ALL = ["plan", "analyze", "write_draft", "test", "deliver"]


@pytest.fixture
def store(postgres_store):
    return postgres_store


@pytest.fixture
def run(store, database, objects, tmp_path):
    return new_run(database, objects, tmp_path, store="postgres")


@pytest.fixture
def see(store, served_ledger, run, tmp_path):
    """`see(stop=…, signalled=…, **options)`: see to the run; (how it was left, what was told)."""

    def seeing(*, stop=lambda: False, signalled=False, change=lambda given: given, **options):
        told = []
        given = means(store, served_ledger, tmp_path, "worker", **options)
        with closing(given.database):
            left = see_to(run.run_id, change(given), Asker(stop, told.append, signalled))
        return left, told

    return seeing


@pytest.fixture
def aside(see):
    """The same on a thread: `aside(…)` returns a function that waits for the answer."""
    threads = []

    def begin(**options):
        answer = []
        thread = threading.Thread(target=lambda: answer.append(see(**options)), daemon=True)
        thread.start()
        threads.append(thread)

        def wait():
            thread.join(30)
            assert answer, "it did not end, or it raised"
            return answer[0]

        return wait

    return begin


def driver_at(tmp_path, place, number=0):
    return until(lambda: next(tmp_path.glob(f"worker-driver-{number}/at {place}"), None), 30).parent


def kinds(database, run):
    return [event.kind for event in events.read_all(database, run.run_id)]


def test_a_killed_driver_is_followed_by_another_and_its_end_is_kept(aside, database, run, tmp_path):
    wait = aside(pauses=["in analyze"])
    driver_at(tmp_path, "in analyze")
    os.kill(registry.get(database, run.run_id).pid, signal.SIGKILL)
    (driver_at(tmp_path, "in analyze", 1) / "go in analyze").touch()
    left, told = wait()
    assert (left.status, left.epoch) == ("succeeded", 2)
    assert effects_in(tmp_path / "effects") == ALL
    (end,) = [e.data for e in events.read_all(database, run.run_id) if e.kind == "driver_ended"]
    assert end["exit_code"] == -signal.SIGKILL
    assert {"status", "step", "epoch", "driver"} <= set(told[-1])


def test_a_driver_that_hangs_past_its_lease_is_ended(aside, database, run, tmp_path):
    wait = aside(pauses=["in analyze"], lease_seconds=1.0)
    driver_at(tmp_path, "in analyze")
    os.kill(registry.get(database, run.run_id).pid, signal.SIGSTOP)
    (driver_at(tmp_path, "in analyze", 1) / "go in analyze").touch()
    left, _ = wait()
    assert (left.status, left.epoch) == ("succeeded", 2)
    assert effects_in(tmp_path / "effects") == ALL


def test_a_driver_that_does_not_drain_in_time_is_ended_and_the_run_left_to_others(aside, database, run, tmp_path):
    asked = threading.Event()
    wait = aside(pauses=["in analyze"], stop=asked.is_set, grace_seconds=0.2)
    driver_at(tmp_path, "in analyze")
    asked.set()
    left, _ = wait()
    assert (left.status, left.wake_seconds, left.ended) == ("running", 0.0, False)
    until(lambda: registry.get(database, run.run_id).driver == "gone")


def test_drivers_that_cannot_have_the_run_are_an_error_that_may_pass(see, database, run):
    """They end before they claim, and nobody has the run: without the error it would be tried without a pause."""

    def wrong_ledger(given):
        return dataclasses.replace(given, start=lambda run_id: Broken())

    with pytest.raises(NotDriven, match="it broke"):
        see(change=wrong_ledger)
    assert registry.get(database, run.run_id).epoch is None
    assert kinds(database, run) == ["created"]


class Broken:
    """A driver that ends at once."""

    pid, exit_code, told = 1, 4, "it broke"

    def has_ended(self, within_seconds):
        return True

    def close(self):
        pass


def test_what_this_worker_does_not_serve_is_left_as_it_is(see, store, database, run):
    def other_version(given):
        return dataclasses.replace(given, versions=frozenset({"another"}))

    left, _ = see(change=other_version)
    assert (left.status, left.workflow_version, left.wake_seconds) == ("queued", VERSION, 0.0)
    assert kinds(database, run) == ["created"]


def test_a_run_that_was_removed(store, served_ledger, tmp_path):
    given = means(store, served_ledger, tmp_path, "worker")
    with closing(given.database), pytest.raises(RunNotFound):
        see_to("00000000-0000-4000-8000-000000000000", given, Asker(lambda: False, lambda doing: None))


def test_a_queued_run_that_has_to_wait_is_left_with_its_time(see, store, objects, tmp_path, database, served_ledger):
    later = new_run(database, objects, tmp_path, store="postgres", wake_seconds=90.0)
    given = means(store, served_ledger, tmp_path, "worker")
    with closing(given.database):
        left = see_to(later.run_id, given, Asker(lambda: False, lambda doing: None))
    assert left.status == "queued"
    assert 80 < left.wake_seconds <= 90


def test_a_waiting_run_is_looked_at_and_driven_when_it_is_answered(see, served_ledger, run, tmp_path):
    left, _ = see(asks_person=True)
    assert (left.status, left.reason, left.wake_seconds, left.ended) == ("waiting_human", "approval", None, False)
    again, _ = see(asks_person=True)
    assert (again.status, again.epoch) == ("waiting_human", 1)  # no driver was started for it
    (action,) = served_ledger.recorded(run.run_id)
    served_ledger.decide(action.action_id, "approve")
    done, _ = see(asks_person=True)
    assert (done.status, done.epoch) == ("succeeded", 2)
    assert effects_in(tmp_path / "effects") == ALL


class Counted:
    """A ledger that counts how often a provider is asked."""

    def __init__(self, ledger):
        self._ledger = ledger
        self.action = ledger.action
        self.reconciled = 0

    def reconcile(self, action_id):
        self.reconciled += 1
        return self._ledger.reconcile(action_id)


def test_about_an_unknown_outcome_providers_are_asked_only_when_somebody_signals(see, served_ledger, run):
    action = served_ledger.put(run.run_id, "plan", Status.UNKNOWN)
    counted = Counted(served_ledger)

    def count(given):
        return dataclasses.replace(given, ledger=lambda: nullcontext(counted))

    left, _ = see()
    assert (left.status, left.reason) == ("waiting_human", "unknown_outcome")
    assert see(change=count)[0].status == "waiting_human"
    assert counted.reconciled == 0
    assert see(change=count, signalled=True)[0].status == "waiting_human"
    assert counted.reconciled == 1
    served_ledger.succeed(action.action_id)
    assert see(change=count)[0].status == "succeeded"


def test_somebody_else_who_drives_is_watched(aside, store, served_ledger, database, run, tmp_path):
    options = {"world": str(tmp_path), "pauses": ["in test"]}
    other = Child(driving, tmp_path / "other", spec_of(store), run.run_id, served_ledger, options)
    other.reached("in test")
    wait = aside()
    other.let_go("in test")
    left, _ = wait()
    assert (left.status, left.epoch) == ("succeeded", 1)
    assert other.end() == 0
    assert not list(tmp_path.glob("worker-driver-*"))
