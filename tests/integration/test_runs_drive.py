"""Driving a run on both stores, with a small graph and a ledger in memory: how it goes on, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from langgraph.checkpoint.base import id as ids
from langgraph.graph.state import CompiledStateGraph

import onward_ledger.errors as ledger_errors
from graph.errors import OutcomeUnknown
from onward_ledger.action import Status as ActionStatus
from runs import drive as drive_module
from runs import events, registry, wake
from runs.checkpoints import open_saver
from runs.drain import Drain, drain_on_signals
from runs.drive import drive
from runs.errors import (
    ClockSkew,
    Exit,
    LimitReached,
    OtherStore,
    OtherVersion,
    RunFinished,
    RunNotFound,
    WaitingForPerson,
)
from runs.failures import BACK_OFF_SECONDS
from runs.registry import Status
from tests.support.runs_world import build, effects_in, new_run, parts

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True

ALL = ["plan", "analyze", "write_draft", "test", "deliver"]


class World:
    """One run with everything around it."""

    def __init__(self, store, database, objects, ledger, folder):
        self.store, self.database, self.objects, self.ledger, self.folder = store, database, objects, ledger, folder
        self.run_id = new_run(database, objects, folder, store=store.kind).run_id

    def parts(self, **more):
        return parts(self.store, self.ledger, self.objects, self.folder, effects=self.folder / "effects", **more)

    def drive(self, **more):
        return drive(self.run_id, self.parts(**more))

    @property
    def run(self):
        return registry.get(self.database, self.run_id)

    @property
    def effects(self):
        return effects_in(self.folder / "effects")

    def events(self, *kinds):
        return [e for e in events.read_all(self.database, self.run_id) if e.kind in kinds]

    def statuses(self):
        return [e.data["to"] for e in self.events("status")]

    @property
    def publication(self):
        return next(a for a in self.ledger.actions.values() if a.step == "deliver")


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


def asking():
    return build(asks_person=True)


def failing(error, place="in write_draft", times=1):
    left = [times]

    def fail(_):
        if left[0]:
            left[0] -= 1
            raise error

    return {place: fail}


# --- to the end -----------------------------------------------------------------------------------------------------


def test_a_run_goes_from_queued_to_succeeded(world):
    outcome = world.drive()
    assert (outcome.status, outcome.exit_code, outcome.again_after_seconds) == (Status.SUCCEEDED, Exit.OK, None)
    assert world.effects == ALL
    assert (world.run.status, world.run.epoch, world.run.driver, world.run.holder_id) == ("succeeded", 1, None, None)
    found = events.read_all(world.database, world.run_id)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    assert [event.step for event in found if event.kind == "step_finished"] == ALL
    assert world.statuses() == ["running", "succeeded"]
    assert {e.epoch for e in found} == {None, 1}
    assert world.ledger.asked[0] == ("fence", world.run_id)  # announced before anything else


def test_a_finished_run_executes_nothing_when_resumed(world):
    world.drive()
    before = events.read_all(world.database, world.run_id)
    with pytest.raises(RunFinished, match="has ended: succeeded"):
        world.drive()
    assert world.effects == ALL
    assert events.read_all(world.database, world.run_id) == before
    assert world.run.epoch == 1


@pytest.mark.parametrize("outcome", ["rejected", "unverified"])
def test_an_end_without_publication_is_a_failure_with_its_reason(world, outcome):
    ended = world.drive(graph=lambda: build(outcome=outcome))
    assert (ended.status, ended.reason, ended.exit_code) == (Status.FAILED, outcome, Exit.FAILED)
    assert (world.run.status, world.run.reason) == ("failed", outcome)
    assert world.run.finished_at is not None


def test_scratch_is_there_during_the_drive_and_gone_after_it(world):
    seen = []
    stale = world.folder / "tmp" / f"{world.run_id}-0-1"
    stale.mkdir(parents=True)
    other = world.folder / "tmp" / "another-run-1"
    other.mkdir()
    original = drive_module._scratch

    def look(context):
        seen.extend(sorted(path.name for path in (world.folder / "tmp").iterdir()))

    world.drive(hooks={"in plan": look})
    assert seen == sorted([f"{world.run_id}-1-{os.getpid()}", "another-run-1"])
    assert [path.name for path in (world.folder / "tmp").iterdir()] == ["another-run-1"]
    assert original


# --- look before touching -------------------------------------------------------------------------------------------


def untouched(world):
    assert (world.run.status, world.run.epoch, world.effects, world.ledger.asked) == ("queued", None, [], [])


@pytest.mark.parametrize("there", [{"ledger_id": "another"}, {"objects_url": "s3://elsewhere"}])
def test_other_stores_than_it_was_made_with_are_a_conflict(world, there):
    with pytest.raises(OtherStore, match="was made with"):
        world.drive(**there)
    untouched(world)


def test_a_version_that_is_not_served_is_a_conflict(world):
    def none(version):
        raise KeyError(version)

    with pytest.raises(OtherVersion, match="workflow version test"):
        world.drive(workflow=none)
    untouched(world)


def test_a_clock_that_is_off_does_not_drive(world, monkeypatch):
    monkeypatch.setattr(type(world.database), "now", lambda self: datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(ClockSkew):
        world.drive()
    untouched(world)


def test_an_unknown_run_is_not_found(world):
    with pytest.raises(RunNotFound):
        drive("00000000-0000-4000-8000-000000000000", world.parts())


def test_every_invocation_is_durable_step_by_step_and_one_task_at_a_time(world, monkeypatch):
    seen = []
    original = CompiledStateGraph.invoke

    def invoke(self, given, config, **more):
        seen.append((config["max_concurrency"], more["durability"], config["configurable"]["thread_id"]))
        return original(self, given, config, **more)

    monkeypatch.setattr(CompiledStateGraph, "invoke", invoke)
    world.drive(hooks=failing(ConnectionResetError("cut")))
    world.drive()
    assert seen == [(1, "sync", world.run_id)] * 2


def head_ahead(world, seconds):
    """A run whose newest checkpoint was written by a driver with a clock that was ahead."""
    world.drive(hooks=failing(ConnectionResetError("cut")))
    ticks = int((datetime.now(UTC) + timedelta(seconds=seconds)).timestamp() * 1e7) + 0x01B21DD213814000
    with open_saver(world.store, world.run_id, 1, 1, lambda: None) as saver:
        config = {"configurable": {"thread_id": world.run_id}}
        found = saver.get_tuple(config)
        ids._last_v6_timestamp = ticks
        checkpoint = found.checkpoint | {"id": str(ids.uuid6(clock_seq=-2))}
        metadata = found.metadata | {"step": found.metadata["step"] + 1}
        saver.put({"configurable": {**found.config["configurable"]}}, checkpoint, metadata, {})
    return checkpoint["id"]


@pytest.fixture
def own_floor(monkeypatch):
    """LangGraph's floor of checkpoint ids, put back after the test."""
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)


def test_checkpoints_go_on_behind_a_head_that_is_ahead_of_this_clock(world, own_floor):
    head = head_ahead(world, 1.5)
    ids._last_v6_timestamp = None  # a fresh process
    assert world.drive().exit_code == Exit.OK
    with open_saver(world.store, world.run_id, 2, 1, lambda: None) as saver:
        newest = [c.checkpoint["id"] for c in saver.list({"configurable": {"thread_id": world.run_id}})]
    assert newest.index(head) >= 3 and newest == sorted(newest, reverse=True)


def test_a_head_far_ahead_is_not_driven_on(world, own_floor):
    head_ahead(world, 3600)
    ids._last_v6_timestamp = None
    before = world.effects
    outcome = world.drive()
    assert (outcome.status, outcome.reason) == (Status.QUEUED, "transient")
    assert "seconds in the future" in outcome.message
    assert world.effects == before


# --- a person decides -----------------------------------------------------------------------------------------------


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


# --- what an older epoch left ---------------------------------------------------------------------------------------


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


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_definite_error_fails_the_run_and_says_why(world):
    outcome = world.drive(hooks=failing(ValueError("the sky is green")))
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, "error", Exit.FAILED)
    assert outcome.message == "ValueError: the sky is green"
    assert world.run.message == outcome.message
    assert [e.data for e in world.events("error")] == [
        {"error": "ValueError", "message": "ValueError: the sky is green", "meaning": "definite"}
    ]


def test_a_transient_error_queues_the_run_and_the_next_drive_goes_on(world):
    outcome = world.drive(hooks=failing(ConnectionResetError("cut")))
    assert (outcome.status, outcome.reason, outcome.again_after_seconds) == (
        Status.QUEUED,
        "transient",
        BACK_OFF_SECONDS[0],
    )
    assert (world.run.failures, world.run.holder_id) == (1, None)
    assert world.run.wake_at - world.run.now_at <= timedelta(seconds=BACK_OFF_SECONDS[0])
    assert world.drive().exit_code == Exit.OK
    assert world.effects == ALL
    assert world.run.failures == 0


def test_back_off_grows_and_ends_with_handing_back(world):
    pauses = []
    for _ in range(len(BACK_OFF_SECONDS) + 1):
        outcome = world.drive(hooks=failing(ConnectionResetError("cut"), "in plan"))
        pauses.append(outcome.again_after_seconds)
    assert pauses == [*BACK_OFF_SECONDS, None]
    assert (outcome.status, outcome.exit_code) == (Status.QUEUED, Exit.HANDED_BACK)
    assert world.drive().exit_code == Exit.OK  # it was never lost


def test_an_unreachable_ledger_is_exit_9_when_it_stays_away(world):
    for _ in range(len(BACK_OFF_SECONDS) + 1):
        outcome = world.drive(hooks=failing(ledger_errors.LedgerUnreachable("The ledger does not answer.")))
    assert (outcome.status, outcome.exit_code, outcome.message) == (
        Status.QUEUED,
        Exit.UNREACHABLE,
        "The ledger does not answer.",
    )


def test_after_an_error_behind_the_end_the_state_decides(world, monkeypatch):
    """The connection that was lost behind the last commit loses nothing."""
    original = drive_module._Drive._invoke

    def lose_the_connection(self, *arguments):
        original(self, *arguments)
        raise ConnectionResetError("cut behind the last commit")

    monkeypatch.setattr(drive_module._Drive, "_invoke", lose_the_connection)
    assert world.drive().exit_code == Exit.OK
    assert world.events("error")[0].data["after_the_end"] is True


def test_a_fenced_write_ends_the_driver_and_leaves_the_row_alone(world):
    def take_over(context):
        with world.database.transaction() as tx:
            tx.one("lock_run", run_id=world.run_id)
            holder_id = tx.one("lock_lease", run_id=world.run_id)["holder_id"]
            tx.run("take_lease", run_id=world.run_id, epoch=2, holder_id=holder_id, seconds=60.0)

    outcome = world.drive(hooks={"after test": take_over})
    assert (outcome.status, outcome.reason, outcome.exit_code) == (None, "lease_lost", Exit.CONFLICT)
    assert (world.run.status, world.run.epoch) == ("running", 2)
    assert world.effects == ALL[:4]


def test_a_graph_that_ends_without_an_outcome_is_a_bug_with_evidence(world):
    outcome = world.drive(graph=lambda: build(outcome="nonsense"))
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, "broken", Exit.FAILED)
    assert "nonsense" in outcome.message and "checkpoint_id" in outcome.message


def test_published_without_a_receipt_in_the_ledger_is_not_believed(world):
    def forget(context):
        context.ledger.succeed = lambda action_id: None

    outcome = world.drive(hooks={"in deliver": forget})
    assert (outcome.status, outcome.reason) == (Status.FAILED, "broken")
    assert "no receipt" in outcome.message


@pytest.mark.parametrize("limit", ["deadline", "budget"])
def test_a_limit_fails_the_run_with_exit_7(world, limit):
    outcome = world.drive(hooks=failing(LimitReached("It is used up.", limit=limit)))
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, limit, Exit.LIMIT)


def test_a_deadline_that_has_passed_executes_nothing(world):
    world.run_id = new_run(
        world.database, world.objects, world.folder, store=world.store.kind, deadline_at=world.database.now()
    ).run_id
    assert world.drive().exit_code == Exit.LIMIT
    assert world.effects == []


def test_a_provider_s_error_text_never_hides_its_kind(world):
    outcome = world.drive(hooks=failing(httpx.ReadTimeout("")))
    assert "ReadTimeout" in outcome.message


# --- stopping -------------------------------------------------------------------------------------------------------


def test_a_drain_that_was_asked_for_before_executes_nothing(world):
    drain = Drain()
    drain.request()
    outcome = world.drive(drain=drain)
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.QUEUED, "drained", Exit.HANDED_BACK)
    assert world.effects == []
    assert world.drive().exit_code == Exit.OK


def test_a_drain_in_the_last_step_is_the_end(world):
    drain = Drain()
    assert world.drive(drain=drain, hooks={"in deliver": lambda _: drain.request()}).exit_code == Exit.OK


def test_a_drain_in_a_step_repeats_nothing(world):
    drain = Drain()
    outcome = world.drive(drain=drain, hooks={"in analyze": lambda _: drain.request()})
    assert outcome.exit_code == Exit.HANDED_BACK
    assert world.effects == ["plan", "analyze"]
    assert world.drive().exit_code == Exit.OK
    assert world.effects == ALL


def test_the_first_signal_drains():
    drain = Drain()
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        drain_on_signals(drain)
        os.kill(os.getpid(), signal.SIGTERM)
        assert drain.wait(5)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def test_events_are_json_for_whoever_follows(world):
    world.drive()
    assert json.dumps([event.to_json() for event in events.read_all(world.database, world.run_id)])
