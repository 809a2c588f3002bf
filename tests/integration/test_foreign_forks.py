"""Forks of runs of somebody's own graph: classes of theirs in the state, values by name, questions asked anew."""

from __future__ import annotations

from contextlib import closing

import pytest

from runs import registry
from runs.errors import UsageError
from runs.foreign import answering
from runs.foreign.serving import Serving
from runs.fork import Change, find_point, fork, points
from runs.registry import Status
from tests.integration import test_foreign_graphs as graphs
from tests.support.two_versions import NoLedger

pytest_plugins = ("tests.support.runs_fixtures",)

own_process, project, store, world = graphs.own_process, graphs.project, graphs.store, graphs.world


def forked(world: graphs.World, run, step: str, **state):
    parent = registry.get(world.database, run.run_id)
    serving = Serving(None, world.objects, lambda: ("http://ledger", "token"))
    with closing(serving.workflow(parent)) as workflow:
        found = points(world.database, parent, workflow, lambda node, _, number: f"{node}#{number}")
        point, change = find_point(found, step), Change(state=state)
        return fork(world.database, world.objects, NoLedger(), parent, workflow, point, change, owner="bob")


def answered(world: graphs.World):
    """A run that asked a question, and ended with the answer."""
    run, _ = world.run("asking", {"answer": "me"})
    world.answer(run, "yes")
    assert world.drive(run).status is Status.SUCCEEDED
    return run


def test_a_fork_behind_the_answer_does_only_the_rest(world):
    run = answered(world)
    made = forked(world, run, "work#3")
    assert (made.kind, made.parent, made.status) == ("graph", run.run_id, Status.QUEUED)
    assert world.drive(made).status is Status.SUCCEEDED
    assert world.effects == ["begin", "work", "work"]
    assert world.result(made) == {"order": graphs.ORDER, "log": ["begin for me", "work"], "answer": "yes"}


def test_a_fork_before_the_question_is_asked_again(world):
    run = answered(world)
    made = forked(world, run, "ask")
    assert world.drive(made).status is Status.WAITING_HUMAN
    assert answering.answers(world.database, made.run_id) == {}
    world.answer(made, "no")
    assert world.drive(made).status is Status.SUCCEEDED
    assert world.result(made)["answer"] == "no"
    assert world.result(run)["answer"] == "yes"


def test_a_value_of_the_state_is_replaced_and_not_added_to(world):
    """`log` adds up what nodes return; a fork begins with what it is given."""
    made = forked(world, answered(world), "work", log=["changed"])
    assert world.drive(made).status is Status.SUCCEEDED
    assert world.result(made)["log"] == ["changed", "work"]


def test_a_step_that_is_not_there_is_named_beside_those_that_are(world):
    with pytest.raises(UsageError, match="can be forked from: begin#1, ask#2, work#3"):
        forked(world, answered(world), "bake")
