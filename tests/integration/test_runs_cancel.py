"""Cancelling a run: asked for, decided by the ledger's fence, stopped by a driver. Small graph, ledger in memory."""

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from graph.context import CancelRequested
from onward_ledger.action import ActionKey, request_hash
from onward_ledger.action import Status as S
from onward_ledger.errors import BadRequest, InProgress, LedgerUnreachable, StaleEpoch
from runs import cancelling, heartbeat
from runs.cancelling import Asked
from runs.errors import Exit, OtherVersion
from runs.registry import Status
from tests.support.runs_drives import ALL, World, asking, failing
from tests.support.runs_world import until

ANNA = Asked(principal="anna", reason="not wanted any more")


pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


@pytest.fixture(autouse=True)
def asked_soon(monkeypatch):
    monkeypatch.setattr(heartbeat, "ASK_SECONDS", 0.02)


def ask(world, asked=ANNA):
    return cancelling.request(world.database, world.run, asked)


def asking_in(world, place, *, close=True):
    """A hook that asks to cancel while a node runs, as `onward cancel` does, and goes on when the driver has heard."""

    def hook(context):
        ask(world)
        if close:
            world.ledger.close_fence(world.run_id, reason="asked for")
        with pytest.raises(CancelRequested) as heard:
            until(lambda: context.recorder.check())
        raise heard.value

    return {place: hook}


def report(world):
    (event,) = world.events("cancel_report")
    return event.data


# --- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
def test_asking_moves_the_row_and_says_who(world, waits):
    if waits:
        world.drive(graph=asking)
    run = ask(world)
    assert (run.status, run.reason, run.finished) == (Status.CANCEL_REQUESTED, "cancelled", False)
    assert run.message == "Cancelling, asked for by anna: not wanted any more"
    assert [e.data for e in world.events("cancel_requested")] == [vars(ANNA)]


def test_the_first_request_stands(world):
    first = ask(world)
    assert ask(world, Asked(principal="bert")).version == first.version
    assert [e.data["principal"] for e in world.events("cancel_requested")] == ["anna"]


def test_what_has_ended_is_not_cancelled(world):
    world.drive()
    assert ask(world).status is Status.SUCCEEDED
    assert world.events("cancel_requested") == []


# --- stopping what nobody drives --------------------------------------------------------------------------------------


def test_a_queued_run_is_stopped_without_executing_anything(world):
    ask(world)
    outcome = world.drive()
    assert (outcome.status, outcome.exit_code) == (Status.CANCELLED, Exit.FAILED)
    assert (world.effects, world.statuses()) == ([], ["cancel_requested", "cancel_requested", "cancelled"])
    assert world.ledger.closed and world.ledger.reasons == ["asked for by anna: not wanted any more"]
    assert report(world)["sent"] == [] and world.run.holder_id is None
    assert world.run.message == "Cancelled, asked for by anna: not wanted any more; nothing had been sent."


def test_a_run_that_waits_for_a_person_is_stopped_and_its_proposal_withdrawn(world):
    world.drive(graph=asking)
    ask(world)
    assert world.drive(graph=asking).status is Status.CANCELLED
    assert world.publication.status is S.WITHDRAWN
    assert report(world)["withdrawn"] == [world.publication.action_id]
    assert world.effects == ALL[:4]


def test_the_fence_is_closed_before_cancelled_is_written_and_under_the_epoch_of_who_writes(world):
    ask(world)
    seen = []
    real = world.ledger.close_fence

    def close(run_id, *, reason):
        seen.append((world.run.status, world.run.epoch, world.ledger.fences[run_id][0]))
        return real(run_id, reason=reason)

    world.ledger.close_fence = close
    world.drive()
    assert seen == [(Status.CANCEL_REQUESTED, 1, 1)]


def test_a_version_that_is_not_served_here_is_stopped_all_the_same(world):
    def nothing(version):
        raise KeyError(version)

    with pytest.raises(OtherVersion):
        world.drive(workflow=nothing)  # control: it cannot be driven
    ask(world)
    assert world.drive(workflow=nothing).status is Status.CANCELLED


# --- stopping what is driven ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("close", [True, False])
def test_a_living_driver_hears_of_it_stops_and_confirms_under_its_own_epoch(world, close):
    """Also where whoever asked was killed before it closed the fence: the driver does."""
    outcome = world.drive(hooks=asking_in(world, "in analyze", close=close))
    assert (outcome.status, world.effects) == (Status.CANCELLED, ["plan"])
    assert [e.epoch for e in world.events("cancel_report")] == [1]
    assert world.run_id in world.ledger.closed
    assert [e.step for e in world.events("step_finished")] == ["plan"]


def test_a_request_that_comes_when_the_drive_is_ending_counts(world):
    """The graph waits for a person; before that is written, somebody asks: no wait is written."""
    outcome = world.drive(graph=asking, hooks={"in deliver": lambda _: ask(world)})
    assert outcome.status is Status.CANCELLED
    assert Status.WAITING_HUMAN not in world.statuses()
    assert world.publication.status is S.WITHDRAWN


def test_an_error_of_a_step_while_it_is_stopped_does_not_fail_the_run(world):
    def hook(context):
        ask(world)
        until(lambda: _heard(context))
        raise ValueError("the child that did the work is gone")

    assert world.drive(hooks={"in analyze": hook}).status is Status.CANCELLED
    assert world.events("error") == []


def _heard(context):
    try:
        context.recorder.check()
    except CancelRequested:
        return True
    return False


def test_children_are_ended_at_once_and_work_that_does_not_look_ends_with_its_process(monkeypatch):
    monkeypatch.setattr(heartbeat, "CANCEL_GRACE_SECONDS", 0.1)
    ended, left = threading.Event(), threading.Event()
    monkeypatch.setattr(heartbeat, "end_children", ended.set)

    class Holder:
        def renew(self, run_id, epoch):
            return True

    beat = heartbeat.Heartbeat(Holder(), "run", 1, 60, is_cancelled=lambda: True, hand_back=left.set)
    beat.start()
    try:
        assert ended.wait(10) and left.wait(10)
    finally:
        beat.stop()


def test_work_that_looks_is_not_ended(monkeypatch):
    """Control of the one before: the drive heeds it within the grace."""
    monkeypatch.setattr(heartbeat, "CANCEL_GRACE_SECONDS", 0.2)
    left = threading.Event()

    class Holder:
        def renew(self, run_id, epoch):
            return True

    beat = heartbeat.Heartbeat(Holder(), "run", 1, 60, is_cancelled=lambda: True, hand_back=left.set)
    beat.start()
    try:
        with pytest.raises(CancelRequested):
            until(beat.check)
        beat.heed()
        beat.check()
        assert not left.wait(0.4)
    finally:
        beat.stop()


def test_the_holder_of_each_store_knows_that_it_is_asked_for(world):
    with closing(world.store.open_holder("test")) as holder:
        assert not holder.is_cancelled(world.run_id)
        ask(world)
        assert holder.is_cancelled(world.run_id)


# --- too late ---------------------------------------------------------------------------------------------------------


def test_what_was_published_before_the_fence_closed_ends_the_run_as_succeeded(world):
    def published(context):
        world.ledger.succeed(world.publication.action_id)
        ask(world)
        until(lambda: _heard(context))
        context.recorder.check()

    outcome = world.drive(hooks={"in deliver": published})
    assert (outcome.status, outcome.exit_code) == (Status.SUCCEEDED, Exit.OK)
    assert world.events("cancel_report") == []
    assert world.statuses()[-2:] == ["cancel_requested", "succeeded"]
    assert world.run_id in world.ledger.closed, "nothing more is performed for it either"


def test_where_the_graph_cannot_come_to_its_end_the_action_says_it(world):
    world.drive(graph=asking)
    world.ledger.succeed(world.publication.action_id)
    ask(world)

    def nothing(version):
        raise KeyError(version)

    outcome = world.drive(workflow=nothing)
    assert (outcome.status, outcome.message) == (Status.SUCCEEDED, "It was too late to cancel: test r had happened.")


def test_what_was_refused_before_the_fence_closed_ends_the_run_as_failed(world):
    world.drive(graph=asking)
    action = world.publication
    world.ledger.actions[action.action_id] = replace(action, status=S.FAILED, reason="The shop refuses.")
    ask(world)
    outcome = world.drive(graph=asking, hooks=failing(ValueError("refused"), "in deliver", times=9))
    assert (outcome.status, outcome.reason) == (Status.FAILED, "error")
    assert outcome.message == "It was too late to cancel: test r had been refused. The shop refuses."


# --- what was sent ----------------------------------------------------------------------------------------------------


def sent(world, step, status=S.SUCCEEDED):
    return world.ledger.put(world.run_id, step, status)


def undoing(world):
    """Whatever succeeded can be taken back; what was, in order."""
    undone = []

    def undo(action):
        key = ActionKey(action.run_id, action.step, "slot").undo
        undone.append(action.step)
        made = replace(
            action,
            action_id=key.action_id,
            slot=key.slot,
            kind="undo",
            request_hash=request_hash("undo", "r", {}),
            provider_id=f"undone-{action.step}",
        )
        return world.ledger.actions.setdefault(key.action_id, made)

    world.ledger.undo = undo
    return undone


def test_what_was_sent_is_listed_and_taken_back_the_last_first(world):
    undone = undoing(world)
    first, second = sent(world, "one"), sent(world, "two")
    ask(world)
    assert world.drive().status is Status.CANCELLED
    assert undone == ["two", "one"]
    data = report(world)
    assert [(a["action_id"], a["receipt"], a["not_taken_back"]) for a in data["sent"]] == [
        (first.action_id, {"ok": True}, None),
        (second.action_id, {"ok": True}, None),
    ]
    assert {(a["of"], a["provider_id"]) for a in data["compensations"]} == {
        (first.action_id, "undone-one"),
        (second.action_id, "undone-two"),
    }
    assert [e.step for e in world.events("receipt")] == ["two", "one"]
    assert world.run.message.endswith("; 2 effects happened before; 2 effects taken back.")


def test_what_cannot_be_taken_back_is_listed_with_the_reason(world):
    sent(world, "one")

    def undo(action):
        raise BadRequest("receipt.id is missing.")

    world.ledger.undo = undo
    ask(world)
    assert world.drive().status is Status.CANCELLED
    assert [a["not_taken_back"] for a in report(world)["sent"]] == ["receipt.id is missing."]


def test_nothing_is_taken_back_when_it_is_too_late(world):
    undone = undoing(world)
    sent(world, "one")
    world.ledger.put(world.run_id, "deliver", S.SUCCEEDED)
    ask(world)
    assert world.drive().status is Status.SUCCEEDED
    assert undone == []


def test_an_unknown_stays_listed(world):
    unknown = sent(world, "one", S.UNKNOWN)
    ask(world)
    assert world.drive().status is Status.CANCELLED
    assert report(world)["unknown"] == [unknown.action_id]
    assert world.run.message.endswith("nothing had been sent; 1 effect UNKNOWN.")


def test_nothing_in_flight_may_be_left(world):
    """The send of an older epoch is waited for: not stopped yet, and again later."""
    left = sent(world, "one", S.IN_FLIGHT)

    def still(action):
        raise InProgress("somebody performs it", action=action)

    world.ledger.settle = still
    ask(world)
    outcome = world.drive()
    assert (outcome.status, outcome.exit_code, outcome.again_after_seconds) == (Status.CANCEL_REQUESTED, 6, 0.5)
    assert world.run.status is Status.CANCEL_REQUESTED and world.events("cancel_report") == []
    world.ledger.settle = lambda action: replace(action, status=S.SUCCEEDED, receipt={"ok": True})
    assert world.drive().status is Status.CANCELLED
    assert [a["action_id"] for a in report(world)["sent"]] == [left.action_id]


# --- not now ----------------------------------------------------------------------------------------------------------


def test_a_ledger_that_is_away_leaves_it_to_be_cancelled_and_to_the_next_driver(world):
    def away(run_id, *, reason):
        raise LedgerUnreachable("The ledger does not answer.")

    real, world.ledger.close_fence = world.ledger.close_fence, away
    ask(world)
    outcome = world.drive()
    assert (outcome.status, outcome.exit_code) == (Status.CANCEL_REQUESTED, Exit.UNREACHABLE)
    run = world.run
    assert (run.status, run.failures, run.holder_id) == (Status.CANCEL_REQUESTED, 1, None)
    with world.database.transaction() as tx:
        claimable = [row["run_id"] for row in tx.all("claimable")]
    assert world.run_id not in claimable, "workers leave it alone for a while"
    world.ledger.close_fence = real
    assert world.drive().status is Status.CANCELLED, "whoever asks for it may at once"


def test_a_newer_driver_stops_the_one_that_is_stopping(world):
    ask(world)

    def taken(run_id, *, reason):
        world.ledger.fences[run_id] = (9, "another")
        raise StaleEpoch("stale", fence_epoch=9)

    world.ledger.close_fence = taken
    outcome = world.drive()
    assert outcome.status is None
    assert world.run.status is Status.CANCEL_REQUESTED


def test_a_lease_that_is_lost_while_it_stops_writes_nothing(world, monkeypatch):
    ask(world)
    real = world.ledger.close_fence

    def losing(run_id, *, reason):
        with world.database.transaction() as tx:
            tx.run("take_lease", run_id=run_id, epoch=7, holder_id=None, seconds=60.0)
        return real(run_id, reason=reason)

    world.ledger.close_fence = losing
    assert world.drive().status is None
    assert world.run.status is Status.CANCEL_REQUESTED and world.events("cancel_report") == []
