"""A drive and its ledger: decisions, what older epochs left open, a ledger that is ahead, a closed fence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import onward_ledger.errors as ledger_errors
from graph.errors import OutcomeUnknown
from onward_ledger.action import Status as ActionStatus
from runs import drive as drive_module
from runs import registry, wake
from runs.errors import (
    Exit,
    WaitingForPerson,
)
from runs.registry import Status
from tests.support.runs_drives import ALL, World, asking

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


# --- a person decides -------------------------------------------------------------------------------------------------


def test_a_run_waits_for_a_person_and_releases_everything(world):
    outcome = world.drive(graph=asking)
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.WAITING_HUMAN, "approval", Exit.WAITING)
    assert (world.run.driver, world.run.holder_id) == (None, None)
    assert world.effects == ALL[:4]
    assert wake.waits_for(world.database, world.run_id) == [world.publication.action_id]
    with pytest.raises(WaitingForPerson):
        world.drive(graph=asking)
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "waiting_human"


def test_a_decision_wakes_it_once(world):
    world.drive(graph=asking)
    world.ledger.decide(world.publication.action_id, "approve")
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "queued"
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "queued"
    outcome = world.drive(graph=asking)
    assert outcome.exit_code == Exit.OK
    assert world.effects == ALL
    assert world.statuses() == ["running", "waiting_human", "queued", "running", "succeeded"]
    assert [e.data["move"] for e in world.events("continued")] == ["start", "resume"]


def test_a_decision_that_comes_while_the_driver_ends_is_not_lost(world, monkeypatch):
    """Between our last look and our commit: whoever decided saw no waiting run, and woke nobody."""
    original = drive_module.end_drive

    def decided_just_now(*arguments):
        world.ledger.decide(world.publication.action_id, "approve")
        return original(*arguments)

    monkeypatch.setattr(drive_module, "end_drive", decided_just_now)
    outcome = world.drive(graph=asking)
    assert (outcome.status, outcome.again_after_seconds) == (Status.QUEUED, 0.0)
    assert world.run.status == "queued"
    monkeypatch.setattr(drive_module, "end_drive", original)
    assert world.drive(graph=asking).exit_code == Exit.OK
    assert world.effects == ALL


def test_a_decision_that_is_there_already_is_used_in_the_same_drive(world):
    def decide(context):
        world.ledger.decide(world.publication.action_id, "approve")

    outcome = world.drive(graph=asking, hooks={"in deliver": decide})
    assert outcome.exit_code == Exit.OK
    assert world.statuses() == ["running", "succeeded"]


def test_a_decision_that_ran_out_counts_for_nothing(world):
    world.drive(graph=asking)
    action_id = world.publication.action_id
    world.ledger.decide(action_id, "approve", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "waiting_human"
    registry.queue_decided(world.database, world.run_id)
    assert world.drive(graph=asking).exit_code == Exit.WAITING
    assert world.effects == ALL[:4]


# --- what an older epoch left -----------------------------------------------------------------------------------------


def leave(world, status):
    action = world.ledger.put(world.run_id, "write_draft", status)
    world.ledger.actions[action.action_id] = replace(action, status=status)
    return action


def test_what_was_left_open_is_verified_before_anything_runs(world):
    action = leave(world, ActionStatus.IN_FLIGHT)
    world.ledger.settle = lambda a: replace(a, status=ActionStatus.SUCCEEDED, receipt={"found": True})
    assert world.drive().exit_code == Exit.OK
    assert world.ledger.asked[:2] == [("fence", world.run_id), ("reconcile", action.action_id)]
    settled = world.events("settled")
    assert [(e.data["before"], e.data["status"]) for e in settled] == [("IN_FLIGHT", "SUCCEEDED")]
    assert settled[0].seq < world.events("step_started")[0].seq


def test_what_only_a_person_can_settle_waits_for_a_person_and_goes_on_afterwards(world):
    action = leave(world, ActionStatus.UNKNOWN)
    outcome = world.drive()
    assert (outcome.status, outcome.reason, outcome.exit_code) == (
        Status.WAITING_HUMAN,
        "unknown_outcome",
        Exit.UNKNOWN_OUTCOME,
    )
    assert action.action_id in outcome.message
    assert world.effects == []  # nothing ran
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "waiting_human"
    world.ledger.succeed(action.action_id)
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "queued"
    assert world.drive().exit_code == Exit.OK


def test_a_resume_has_the_provider_asked_again_about_what_is_unknown(world):
    """The object store was away when the look-up was made, and is back."""
    leave(world, ActionStatus.UNKNOWN)
    assert world.drive().exit_code == Exit.UNKNOWN_OUTCOME
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "waiting_human"
    world.ledger.settle = lambda a: replace(a, status=ActionStatus.PREPARED)
    assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "queued"
    assert world.drive().exit_code == Exit.OK


def test_an_outcome_that_becomes_unknown_in_a_step_waits_for_a_person_too(world):
    def unknown(context):
        raise OutcomeUnknown(leave(world, ActionStatus.UNKNOWN))

    outcome = world.drive(hooks={"in write_draft": unknown})
    assert (outcome.reason, outcome.exit_code) == ("unknown_outcome", Exit.UNKNOWN_OUTCOME)
    assert wake.waits_for(world.database, world.run_id) == [
        next(a.action_id for a in world.ledger.actions.values() if a.status is ActionStatus.UNKNOWN)
    ]


def test_a_provider_that_can_look_but_not_perform_does_not_keep_a_run_going(world):
    """An object store whose folder may be read and not written: absent, put fails, absent, put fails ..."""

    def unknown(context):
        raise OutcomeUnknown(leave(world, ActionStatus.UNKNOWN))

    world.ledger.settle = lambda a: replace(a, status=ActionStatus.PREPARED)
    for epoch in (1, 2):  # each resume tries once, and ends
        outcome = world.drive(hooks={"in write_draft": unknown})
        assert (outcome.reason, outcome.exit_code) == ("unknown_outcome", Exit.UNKNOWN_OUTCOME)
        assert (world.run.status, world.run.epoch) == ("waiting_human", epoch)
        assert wake.wake_if_decided(world.database, world.ledger, world.run).status == "queued"


def test_an_action_that_somebody_performs_right_now_is_left_to_whoever_needs_it(world):
    leave(world, ActionStatus.IN_FLIGHT)

    def busy(action):
        raise ledger_errors.InProgress("it is being performed", retry_after_seconds=1)

    world.ledger.settle = busy
    assert world.drive().exit_code == Exit.OK


def test_a_ledger_that_is_ahead_of_a_restored_database_is_passed(world):
    world.ledger.fences[world.run_id] = (7, "a driver of before the restore")
    assert world.drive().exit_code == Exit.OK
    assert world.run.epoch == 8
    assert world.ledger.fences[world.run_id][0] == 8
    assert [e.data for e in world.events("epoch_raised")] == [{"from": 1, "to": 8}]
    assert [e.epoch for e in world.events("step_started")] == [8] * 5


def test_the_same_epoch_of_somebody_else_is_not_shared(world):
    world.ledger.fences[world.run_id] = (1, "a driver of before the restore")
    assert world.drive().exit_code == Exit.OK
    assert world.run.epoch == 2


def test_a_closed_fence_cancels_and_executes_nothing(world):
    world.ledger.closed[world.run_id] = datetime.now(UTC)
    outcome = world.drive()
    assert (outcome.status, outcome.exit_code) == (Status.CANCELLED, Exit.FAILED)
    assert world.effects == []
    assert world.statuses() == ["running", "cancel_requested", "cancelled"]
    assert world.run.holder_id is None


def test_a_fence_that_closes_in_between_cancels(world):
    def close(context):
        world.ledger.closed[world.run_id] = datetime.now(UTC)

    assert world.drive(hooks={"in test": close}).status is Status.CANCELLED
    assert world.effects == ALL[:4]
