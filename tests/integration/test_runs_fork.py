"""A fork is a run of its own that begins where its parent stood; killed at any moment there is a whole one or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from runs import events, registry
from runs.drive import drive
from runs.errors import Conflict, UsageError
from runs.fork import Change, find_point, fork, points
from runs.joined import head_of, saver_in
from runs.parts import Workflow
from runs.registry import Status
from tests.support.ended_before import forking
from tests.support.runs_drives import World
from tests.support.runs_processes import Child, spec_of
from tests.support.runs_world import VERSION
from tests.support.two_versions import NoLedger, build_asking, node_name, serving

pytest_plugins = ("tests.support.runs_fixtures",)
SHARES_A_DATABASE = True
WORKFLOW = Workflow(build=build_asking)


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


def serve(world, run_id=None):
    return drive(run_id or world.run_id, serving(world.store, world.ledger, world.objects, world.folder))


def published(world):
    """The parent, from its start to its end."""
    serve(world)
    world.ledger.decide(world.publication.action_id, "approve")
    registry.queue_decided(world.database, world.run_id)
    assert serve(world).status is Status.SUCCEEDED
    return world.run


def places(world):
    return points(world.database, world.run, WORKFLOW, node_name)


def forked(world, step, owner="bob", ledger=None, **change):
    point = find_point(places(world), step)
    parent = world.run
    return fork(
        world.database, world.objects, ledger or NoLedger(), parent, WORKFLOW, point, Change(**change), owner=owner
    )


def state(world, run_id):
    with world.database.reading() as tx, saver_in(tx) as saver:
        return head_of(saver, run_id).checkpoint["channel_values"]


def test_a_fork_stands_just_before_the_step(world):
    published(world)
    made = forked(world, "write_draft")
    assert (made.status, made.parent, made.owner, made.workflow_version) == (
        Status.QUEUED,
        world.run_id,
        "bob",
        VERSION,
    )
    assert state(world, made.run_id)["log"] == ["plan", "analyze"]


def test_driven_it_does_the_rest_and_the_parent_stays_as_it_was(world):
    parent = published(world)
    (world.folder / "effects").unlink()
    made = forked(world, "test")
    assert serve(world, made.run_id).status is Status.WAITING_HUMAN
    assert world.effects == ["test"]
    assert replace(world.run, now_at=parent.now_at) == parent


def test_nothing_that_was_approved_for_the_parent_counts_for_the_fork(world):
    published(world)
    made = forked(world, "deliver")
    outcome = serve(world, made.run_id)
    assert (outcome.status, outcome.reason) == (Status.WAITING_HUMAN, "approval")
    own = [action for action in world.ledger.actions.values() if action.run_id == made.run_id]
    assert [action.decision for action in own] == [None]


def test_its_files_are_its_own(world):
    published(world)
    made = forked(world, "analyze")
    for key in world.objects.keys(f"runs/{world.run_id}/"):
        (world.folder / "objects" / key).unlink()
    referred = state(world, made.run_id)["input"]
    assert referred["key"] == made.input_key == f"runs/{made.run_id}/{made.input_digest}"
    assert world.objects.read_checked(referred["key"], referred["digest"])


def test_its_history_says_where_it_comes_from(world):
    published(world)
    made = forked(world, "analyze", state={"log": ["changed"]}, said={"log": ['["changed"]']})
    told = events.read_all(world.database, made.run_id)
    assert [event.kind for event in told] == ["created", "forked"]
    point = find_point(places(world), "analyze")
    assert told[1].data == {
        "parent": world.run_id,
        "step": "analyze",
        "checkpoint_id": point.checkpoint_id,
        "changes": {"log": ['["changed"]']},
    }
    assert state(world, made.run_id)["log"] == ["changed"]


def test_it_has_the_rights_of_its_parent_and_limits_of_its_own(world):
    now = world.database.now()
    world.run_id = _run(world, allowed_kinds=["test"], deadline_at=now + timedelta(hours=1), tenant="blue")
    serve(world)
    made = forked(world, "test", row={"budget_micros": 5, "model": "m"})
    assert (made.allowed_kinds, made.tenant, made.deadline_at) == (["test"], "blue", world.run.deadline_at)
    assert (made.budget_micros, made.model, made.spent_micros) == (5, "m", 0)


def test_a_deadline_that_has_passed_is_not_inherited(world):
    world.run_id = _run(world)
    serve(world)
    past = replace(world.run, deadline_at=world.database.now() - timedelta(hours=1))
    made = fork(world.database, world.objects, NoLedger(), past, WORKFLOW, places(world)[0], Change(), owner="bob")
    assert made.deadline_at is None


def _run(world, **more):
    from tests.support.runs_world import new_run

    return new_run(world.database, world.objects, world.folder, store=world.store.kind, **more).run_id


def test_a_step_that_was_not_reached_is_named_beside_those_that_were(world):
    serve(world)
    with pytest.raises(UsageError, match=r"step 'publish'.*: plan, analyze, write_draft, test, deliver"):
        forked(world, "publish")


def test_a_run_that_has_not_begun_has_no_place_to_fork_from(world):
    with pytest.raises(UsageError, match="has not begun"):
        forked(world, "plan")


def test_a_value_that_the_state_does_not_have_is_refused_before_anything_is_copied(world):
    published(world)
    before = world.objects.keys("runs/")
    with pytest.raises(UsageError, match=r"has no colour\. It has: asks, input"):
        forked(world, "analyze", state={"colour": "red"})
    assert world.objects.keys("runs/") == before


def test_an_effect_that_the_state_refers_to_is_not_had_again(world):
    """The state of the parent names an effect that is no draft: the fork would take another's effect for its own."""
    published(world)
    [action] = world.ledger.recorded(world.run_id)
    point = find_point(places(world), "deliver")
    point.values["log"].append(action.action_id)
    with pytest.raises(Conflict, match=r"refers to an effect of the parent \(test, SUCCEEDED\)"):
        fork(
            world.database,
            world.objects,
            NoLedger(world.ledger.recorded(world.run_id)),
            world.run,
            WORKFLOW,
            point,
            Change(),
            owner="bob",
        )


# --- Kills -----------------------------------------------------------------------------------------------------------


def forks_of(world):
    return [run for run in registry.list_runs(world.database, limit=10_000) if run.parent == world.run_id]


def _killed_at(world, numbers):
    """How many forks there were behind each kill. Every fork there is can be driven."""
    seen = []
    for number in numbers:
        folder = world.folder / f"kill {number}"
        child = Child(forking, folder, spec_of(world.store), world.run_id, world.objects.url, number)
        assert child.end() in (0, 99), child.told()
        seen.append(len(forks_of(world)))
        if seen[-1]:
            break
    assert seen[-1] == 1, seen
    (world.folder / "effects").unlink()
    [made] = forks_of(world)
    assert [event.kind for event in events.read_all(world.database, made.run_id)] == ["created", "forked"]
    assert serve(world, made.run_id).status is Status.WAITING_HUMAN
    assert world.effects == ["write_draft", "test"]
    return seen


@pytest.mark.campaign
def test_killed_around_the_commit_there_is_a_whole_fork_or_none(world):
    published(world)
    child = Child(forking, world.folder / "whole", spec_of(world.store), world.run_id, world.objects.url, 0)
    assert child.end() == 0, child.told()
    whole = child.told()["exchanges"]
    world.run_id = _run(world)
    world.ledger.actions.clear()
    published(world)
    _killed_at(world, range(whole - 3, whole + 2))


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
def test_killed_at_any_exchange_there_is_a_whole_fork_or_none(world):
    published(world)
    seen = _killed_at(world, range(1, 100))
    assert seen.count(0) >= 8, seen
