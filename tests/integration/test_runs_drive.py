"""Driving a run on both stores, with a small graph and a ledger in memory: how it goes on, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from langgraph.checkpoint.base import id as ids
from langgraph.graph.state import CompiledStateGraph

import onward_ledger.errors as ledger_errors
from runs import drive as drive_module
from runs import events
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
)
from runs.failures import BACK_OFF_SECONDS
from runs.registry import Status
from tests.support.exchanges import exchanges
from tests.support.runs_drives import ALL, World, failing
from tests.support.runs_world import build, new_run

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


# --- to the end -------------------------------------------------------------------------------------------------------


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


def test_a_drive_on_postgres_needs_three_connections(world):
    """The rows', the checkpoints' and the holder's, each with a lifetime and start-up options of its own."""
    with exchanges() as seen:
        assert world.drive().exit_code == Exit.OK
    assert seen.connections == (3 if world.store.kind == "postgres" else 0)


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

    def look(context):
        seen.extend(sorted(path.name for path in (world.folder / "tmp").iterdir()))

    world.drive(hooks={"in plan": look})
    assert seen == sorted([f"{world.run_id}-1-{os.getpid()}", "another-run-1"])
    assert [path.name for path in (world.folder / "tmp").iterdir()] == ["another-run-1"]


# --- look before touching ---------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(world.store, "_clock", datetime.now(UTC) + timedelta(hours=1))
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


@pytest.mark.parametrize("seconds", [1.5, 3600])
def test_checkpoints_go_on_behind_a_head_that_is_ahead_of_this_clock(world, own_floor, seconds):
    head = head_ahead(world, seconds)
    ids._last_v6_timestamp = None  # a fresh process
    assert world.drive().exit_code == Exit.OK
    with open_saver(world.store, world.run_id, 2, 1, lambda: None) as saver:
        newest = [c.checkpoint["id"] for c in saver.list({"configurable": {"thread_id": world.run_id}})]
    assert newest.index(head) >= 3 and newest == sorted(newest, reverse=True)


# --- errors -----------------------------------------------------------------------------------------------------------


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


# --- stopping ---------------------------------------------------------------------------------------------------------


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
