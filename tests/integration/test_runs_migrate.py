"""A run is brought to another workflow version by one commit, or not at all."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from graph.migrations import Migrated
from runs import events, registry
from runs.checkpoints import fence, open_saver
from runs.drain import Drain
from runs.drive import drive
from runs.errors import Conflict, DrivenElsewhere, MigrationRefused, OtherVersion, RunFinished, StateChanged
from runs.joined import head_of, saver_in
from runs.migrate import apply, rehearse, state_of
from runs.registry import Status
from tests.support.ended_before import driving_paused, migrating
from tests.support.runs_drives import ALL, World
from tests.support.runs_processes import Child, spec_of
from tests.support.runs_world import VERSION
from tests.support.two_versions import NEXT, build_next, serving, to_next, two_versions

pytest_plugins = ("tests.support.runs_fixtures",)
SHARES_A_DATABASE = True


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


def serve(world, *names, **more):
    """Drive the run where these versions are served."""
    parts = serving(world.store, world.ledger, world.objects, world.folder, names or (VERSION, NEXT), **more)
    return drive(world.run_id, parts)


def waiting(world):
    """The run, at the question to a person."""
    assert serve(world).status is Status.WAITING_HUMAN
    return world.run


def stopped_behind(world, step):
    """The run, handed back at the end of a step."""
    drain = Drain()
    outcome = serve(world, drain=drain, hooks={f"after {step}": lambda _: drain.request()})
    assert outcome.status is Status.QUEUED
    return world.run


def migrate(world, versions=None):
    """Rehearse and apply."""
    rehearsed = rehearse(world.store, world.database, world.run, NEXT, versions or two_versions())
    return rehearsed, apply(world.store, world.database, rehearsed)


def end(world):
    """Approve where it waits, and drive to the end under what the row says."""
    if world.run.status is not Status.WAITING_HUMAN:
        serve(world)
    world.ledger.decide(world.publication.action_id, "approve")
    registry.queue_decided(world.database, world.run_id)
    return serve(world)


def head(world):
    with world.database.reading() as tx, saver_in(tx) as saver:
        return head_of(saver, world.run_id)


def test_a_waiting_run_waits_on_under_the_new_version_and_ends_there(world):
    before = waiting(world)
    rehearsed, after = migrate(world)
    assert rehearsed.changes == {"added": ["audience"], "removed": [], "changed": []}
    assert (rehearsed.next, rehearsed.next_steps) == (("publish",), ["deliver"])
    assert (after.workflow_version, after.status, after.reason) == (NEXT, Status.WAITING_HUMAN, "approval")
    assert (after.epoch, after.version, after.holder_id) == (before.epoch + 1, before.version + 1, None)
    assert state_of(head(world).checkpoint["channel_values"])["audience"] == "everybody"
    assert end(world).status is Status.SUCCEEDED
    assert world.effects == [*ALL[:-1], "deliver to everybody"]


def test_the_history_says_what_was_migrated(world):
    waiting(world)
    _, after = migrate(world)
    [event] = world.events("migrated")
    assert event.data == {"from": VERSION, "to": NEXT, "checkpoint_id": head(world).checkpoint["id"]}
    assert event.epoch == after.epoch


def test_an_approval_that_was_given_before_counts_after(world):
    waiting(world)
    world.ledger.decide(world.publication.action_id, "approve")
    _, after = migrate(world)
    assert after.status is Status.WAITING_HUMAN
    registry.queue_decided(world.database, world.run_id)
    assert serve(world, NEXT).status is Status.SUCCEEDED


def test_a_run_that_was_stopped_in_the_middle_goes_on_behind_its_last_step(world):
    stopped_behind(world, "analyze")
    rehearsed, after = migrate(world)
    assert (rehearsed.next, after.status) == (("write_draft",), Status.QUEUED)
    assert end(world).status is Status.SUCCEEDED
    assert world.effects == [*ALL[:-1], "deliver to everybody"]


def test_of_a_run_that_has_not_begun_only_the_row_changes(world):
    rehearsed, after = migrate(world)
    assert (rehearsed.head, rehearsed.next, after.workflow_version, after.epoch) == (None, (), NEXT, 1)
    assert head(world) is None


def test_rehearsing_writes_nothing(world):
    waiting(world)
    before, checkpoint, seen = world.run, head(world), len(events.read_all(world.database, world.run_id))
    rehearse(world.store, world.database, world.run, NEXT, two_versions())
    after = world.run
    assert (after.version, after.epoch, after.last_seq) == (before.version, before.epoch, seen)
    assert head(world).checkpoint["id"] == checkpoint.checkpoint["id"]


def test_a_former_driver_writes_no_checkpoint_any_more(world):
    run = waiting(world)
    migrate(world)
    check = lambda: None  # noqa: E731
    saved = head(world)
    with (
        open_saver(world.store, world.run_id, run.epoch, 0, check) as old,
        pytest.raises(Exception, match="stale epoch"),
    ):
        old.put(saved.config, saved.checkpoint, saved.metadata, {})


@pytest.mark.parametrize("step", ["plan", "analyze", "test"])
def test_the_function_is_told_which_node_was_to_come_next(world, step):
    told = []

    def migrate_told(values, pending):
        told.append(pending)
        return to_next(values, pending)

    stopped_behind(world, step)
    rehearse(world.store, world.database, world.run, NEXT, two_versions(migrate_told))
    assert told == [(ALL[ALL.index(step) + 1],)]


# --- What is refused -------------------------------------------------------------------------------------------------


def refused(world, error, words, to=NEXT, versions=None):
    before = world.run
    with pytest.raises(error, match=words):
        rehearse(world.store, world.database, world.run, to, versions or two_versions())
    assert (world.run.version, world.run.epoch) == (before.version, before.epoch)


def test_without_a_function_nothing_is_guessed(world):
    waiting(world)
    without = two_versions()
    without[NEXT] = type(without[NEXT])(name=NEXT, build=build_next, recursion_limit=9, allowed_kinds=frozenset())
    refused(world, MigrationRefused, "no migration function from workflow version test to next", versions=without)


def test_a_version_that_is_not_here_and_the_same_version_are_refused(world):
    refused(world, OtherVersion, "not served by this software, which has: next, test", to="17")
    refused(world, MigrationRefused, "of workflow version test already", to=VERSION)


def test_a_finished_run_is_refused(world):
    waiting(world)
    end(world)
    refused(world, RunFinished, "has ended: succeeded")


def test_a_run_that_is_being_cancelled_is_refused(world):
    registry.transition(world.database, world.run, "request_cancel")
    refused(world, Conflict, "being cancelled")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda values, _: Migrated(values=values["nothing"], as_node="test"), "cannot take .* state: KeyError"),
        (lambda values, _: Migrated(values=values | {"audience": {1}}, as_node="test"), "not JSON serializable"),
        (lambda values, _: Migrated(values=values, as_node="nobody"), "'nobody', which is no node of version next"),
        (lambda values, _: Migrated(values=values, as_node="publish"), "has nothing to do with this state"),
        (lambda values, _: Migrated(values=values | {"other": 1}, as_node="test"), "does not hold .*: other"),
        (
            lambda values, _: Migrated(values={k: v for k, v in values.items() if k != "log"}, as_node="test"),
            "does not hold .*: log",
        ),
    ],
)
def test_a_function_that_cannot_be_gone_on_with_is_refused(world, function, words):
    waiting(world)
    refused(world, MigrationRefused, words, versions=two_versions(function))


def test_a_run_gets_no_more_rights_than_it_had_at_its_start(world):
    waiting(world)
    world.run_id = _run_with_rights(world, ["draft.save"])
    refused(world, MigrationRefused, "may not use: test")


def _run_with_rights(world, kinds):
    from tests.support.runs_world import new_run

    return new_run(world.database, world.objects, world.folder, store=world.store.kind, allowed_kinds=kinds).run_id


def test_a_run_with_a_living_driver_is_refused(world, served_ledger):
    child = Child(
        driving_paused, world.folder / "child", spec_of(world.store), world.run_id, served_ledger, str(world.folder)
    )
    child.reached("in plan")
    refused(world, DrivenElsewhere, "is driven by process")
    child.let_go("in plan")
    child.end()


def test_a_run_whose_driver_is_gone_is_migrated_and_queued(world, served_ledger):
    child = Child(
        driving_paused, world.folder / "child", spec_of(world.store), world.run_id, served_ledger, str(world.folder)
    )
    child.reached("in plan")
    child.kill()
    _, after = migrate(world)
    assert (after.workflow_version, after.status, after.epoch) == (NEXT, Status.QUEUED, 2)
    assert end(world).status is Status.SUCCEEDED


# --- Races and kills -------------------------------------------------------------------------------------------------


def test_a_decision_that_comes_in_between_is_seen(world):
    waiting(world)
    rehearsed = rehearse(world.store, world.database, world.run, NEXT, two_versions())
    world.ledger.decide(world.publication.action_id, "approve")
    registry.queue_decided(world.database, world.run_id)
    with pytest.raises(StateChanged, match="nothing was migrated"):
        apply(world.store, world.database, rehearsed)
    assert world.run.workflow_version == VERSION
    assert serve(world).status is Status.SUCCEEDED


def test_of_two_at_once_one_migrates(world):
    waiting(world)
    rehearsed = rehearse(world.store, world.database, world.run, NEXT, two_versions())
    ends = []

    def one():
        with closing(world.store.database("another")) as database:
            try:
                ends.append(apply(world.store, database, rehearsed).workflow_version)
            except StateChanged:
                ends.append("changed")

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["changed", NEXT]
    assert len(world.events("migrated")) == 1


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_killed_at_any_exchange_it_is_of_one_version_or_the_other(world):
    """The same command again and again, killed one exchange later each time, until it gets through."""
    seen = _killed_at(world, range(1, 100))
    assert seen.count(VERSION) >= 8, seen


@pytest.mark.campaign
def test_killed_around_the_commit_it_is_of_one_version_or_the_other(world):
    whole = _exchanges_of_a_migration(world)
    _killed_at(
        World(world.store, world.database, world.objects, world.ledger, world.folder), range(whole - 3, whole + 2)
    )


def _exchanges_of_a_migration(world):
    waiting(world)
    child = Child(migrating, world.folder / "whole", spec_of(world.store), world.run_id, 0)
    assert child.end() == 0
    return child.told()["exchanges"]


def _killed_at(world, numbers):
    """The versions that the run was of behind each kill; in the end it is migrated, and goes on to its end."""
    world.ledger.actions.clear()
    (world.folder / "effects").unlink(missing_ok=True)
    before = waiting(world)
    seen = []
    for number in numbers:
        code = Child(migrating, world.folder / f"kill {number}", spec_of(world.store), world.run_id, number).end()
        assert code in (0, 99)
        run = world.run
        seen.append(run.workflow_version)
        held = state_of(head(world).checkpoint["channel_values"])
        assert ("audience" in held) == (run.workflow_version == NEXT), "the head belongs to the version in the row"
        assert run.status is Status.WAITING_HUMAN
        if run.workflow_version == NEXT:
            break
        assert (run.version, run.epoch, run.last_seq) == (before.version, before.epoch, before.last_seq)
    assert seen[-1] == NEXT, seen
    assert len(world.events("migrated")) == 1
    assert end(world).status is Status.SUCCEEDED
    assert world.effects == [*ALL[:-1], "deliver to everybody"]
    return seen


# --- The control: why it is one commit -------------------------------------------------------------------------------


def test_the_head_of_one_version_under_the_graph_of_the_other_never_passes_for_finished(world):
    """With the checkpoint written and the row not, as two commits would leave it, a run cannot go on."""
    run = waiting(world)
    holder = world.store.open_holder("test")
    with world.database.transaction() as tx:
        tx.run("take_lease", run_id=run.run_id, epoch=run.epoch + 1, holder_id=holder.holder_id, seconds=5.0)
    with open_saver(world.store, run.run_id, run.epoch + 1, holder.holder_id, lambda: None) as saver:
        graph = build_next().compile(checkpointer=saver)
        migrated = to_next(state_of(head(world).checkpoint["channel_values"]), ("deliver",))
        graph.update_state({"configurable": {"thread_id": run.run_id}}, migrated.values, as_node=migrated.as_node)
    with world.database.transaction() as tx:
        tx.run("release_lease", run_id=run.run_id, epoch=run.epoch + 1)
    holder.close()
    world.ledger.decide(world.publication.action_id, "approve")
    registry.queue_decided(world.database, world.run_id)
    outcome = serve(world)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "broken")
    assert world.effects == ALL[:-1]


def test_the_fence_of_one_transaction_does_not_stay_on_its_connection(world):
    run = waiting(world)
    with world.database.transaction() as tx:
        tx.run("lock_run", run_id=run.run_id)
        with saver_in(tx, fence(run.run_id, run.epoch)):
            pass
    saved = head(world)
    with pytest.raises(Exception, match="stale epoch"), world.database.transaction() as tx, saver_in(tx) as saver:
        saver.put(saved.config, saved.checkpoint, saved.metadata, {})
