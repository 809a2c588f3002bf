"""Runs under Temporal: its real dev server, real worker processes that are killed, signals that are lost."""

from __future__ import annotations

import psutil
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from runs import events, registry
from tests.support.runs_processes import Child, driving, spec_of
from tests.support.runs_world import effects_in, until

pytestmark = pytest.mark.campaign

pytest_plugins = ("tests.support.runs_fixtures", "tests.support.temporal_fixtures")

ALL = ["plan", "analyze", "write_draft", "test", "deliver"]


def proposal(served_ledger, run):
    (action,) = served_ledger.recorded(run.run_id)
    return action.action_id


def epochs(database, run):
    return [e.epoch for e in events.read_all(database, run.run_id) if e.kind == "claimed"]


def test_a_run_ends_and_starting_it_twice_is_starting_it_once(talk, worker, database, run, tmp_path):
    one = worker("one", pauses=["in analyze"])
    first = talk.start()
    driver = one.driver_at("in analyze")
    assert talk.start() == first
    (driver / "go in analyze").touch()
    left = talk.result()
    assert (left.status, left.reason, left.ended, left.epoch) == ("succeeded", None, True, 1)
    assert effects_in(tmp_path / "effects") == ALL

    # Begun again after its end, the workflow looks, and nothing is executed.
    assert talk.start() != first
    assert talk.result() == left
    assert effects_in(tmp_path / "effects") == ALL
    assert epochs(database, run) == [1]


def test_another_worker_goes_on_when_one_is_killed(talk, worker, worker_process, database, run, tmp_path):
    first = worker_process("first", pauses=["in write_draft"])
    talk.start(heartbeat_seconds=2.0)
    folder = first.driver_at("in write_draft")
    said = until(lambda: (found := talk.doing()) and found["step"] == "write_draft" and found)
    driver = registry.get(database, run.run_id).pid
    assert said["driver"].startswith(f"process {driver} on ")
    first.child.kill()
    until(lambda: not psutil.pid_exists(driver) or psutil.Process(driver).status() == psutil.STATUS_ZOMBIE)
    assert not (folder / "told.json").exists()  # it did not end by itself
    worker("second")
    left = talk.result()
    assert (left.status, left.epoch) == ("succeeded", 2)
    assert effects_in(tmp_path / "effects") == ALL  # killed before its effect: that step runs again, once


def test_a_decision_is_heard_of_by_a_signal(talk, worker, served_ledger, run, tmp_path):
    worker("one", asks_person=True)
    talk.start(poll_seconds=3600.0)
    until(lambda: (left := talk.left()) and left["status"] == "waiting_human")
    assert list(tmp_path.glob("one-driver-*/told.json"))  # nobody drives a run that waits
    talk.decided()  # nothing is decided: it goes on waiting
    served_ledger.decide(proposal(served_ledger, run), "approve")
    talk.decided()
    assert talk.result().status == "succeeded"
    assert effects_in(tmp_path / "effects") == ALL


def test_a_decision_without_its_signal_is_found(talk, worker, served_ledger, run, tmp_path):
    worker("one", asks_person=True)
    talk.start(poll_seconds=1.0)
    until(lambda: (left := talk.left()) and left["status"] == "waiting_human")
    served_ledger.decide(proposal(served_ledger, run), "approve")
    assert talk.result().status == "succeeded"
    assert effects_in(tmp_path / "effects") == ALL


def test_cancel_stops_a_waiting_run_and_a_driven_one(talk, worker, database, run, tmp_path):
    one = worker("one", pauses=["in analyze"])
    talk.start(poll_seconds=3600.0)
    folder = one.driver_at("in analyze")
    talk.cancel("not wanted")
    until(lambda: registry.get(database, run.run_id).status == "cancel_requested")
    (folder / "go in analyze").touch()
    left = talk.result()
    assert (left.status, left.ended) == ("cancelled", True)
    assert "deliver" not in effects_in(tmp_path / "effects")


def test_temporals_own_cancellation_hands_the_run_back(talk, worker, database, run, tmp_path):
    one = worker("one", pauses=["in analyze"])
    talk.start(heartbeat_seconds=1.0)
    folder = one.driver_at("in analyze")
    talk.cancel_workflow()
    until((folder / "asked to drain").exists)
    (folder / "go in analyze").touch()
    with pytest.raises(WorkflowFailureError) as failed:
        talk.result()
    assert isinstance(failed.value.cause, CancelledError)
    after = registry.get(database, run.run_id)
    assert (after.status, after.reason) == ("queued", "drained")
    talk.start()
    assert talk.result().status == "succeeded"
    assert effects_in(tmp_path / "effects") == ALL


def test_a_worker_that_is_asked_to_stop_hands_its_run_to_another(talk, worker, database, run, tmp_path):
    first = worker("first", pauses=["in analyze"])
    talk.start(heartbeat_seconds=3600.0)  # nothing here waits for a missed heartbeat
    folder = first.driver_at("in analyze")
    worker("second")
    first.ask_to_stop()
    until((folder / "asked to drain").exists)
    (folder / "go in analyze").touch()
    first.end()
    left = talk.result()
    assert (left.status, left.epoch) == ("succeeded", 2)
    assert effects_in(tmp_path / "effects") == ALL


def test_a_driver_outside_of_temporal_does_no_harm(talk, worker, store, served_ledger, database, run, tmp_path):
    """A command or an `onward worker` has the run: the workflow watches, and ends with it."""
    other = Child(
        driving,
        tmp_path / "other",
        spec_of(store),
        run.run_id,
        served_ledger,
        {"world": str(tmp_path), "pauses": ["in test"]},
    )
    other.reached("in test")
    worker("one")
    talk.start(heartbeat_seconds=1.0)
    said = until(lambda: (found := talk.doing()) and found["step"] == "test" and found)
    assert said["driver"].startswith(f"process {other.pid} on ")
    other.let_go("in test")
    assert other.end() == 0
    assert talk.result().status == "succeeded"
    assert not list(tmp_path.glob("*-driver-*"))  # none was started
    assert effects_in(tmp_path / "effects") == ALL
    assert epochs(database, run) == [1]


def test_a_run_that_has_another_version_by_now_is_found(talk, worker, run, tmp_path):
    """It was migrated while its drive waited for a worker of the old version, which nobody serves any more."""
    worker("one")
    talk.start(workflow_version="retired", poll_seconds=1.0)
    left = talk.result()
    assert (left.status, left.workflow_version) == ("succeeded", run.workflow_version)
    assert effects_in(tmp_path / "effects") == ALL
