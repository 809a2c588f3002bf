"""Thinning: a run that waits goes on from its last checkpoint alone, and nothing that it needs is taken."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from runs import registry
from runs.checkpoints import open_saver
from runs.registry import Status
from runs.retention import Kept
from runs.store import SqliteStore
from runs.thinning import Thinned, Thinning, thin_idle
from tests.integration.test_runs_fence import always
from tests.support.retention import rows_of
from tests.support.runs_drives import ALL, World, asking
from tests.support.runs_processes import Child, driving, spec_of

pytest_plugins = ("tests.support.runs_fixtures",)


@pytest.fixture
def world(store, database, objects, ledger, tmp_path):
    return World(store, database, objects, ledger, tmp_path)


@pytest.fixture
def waiting(world):
    """A run that waits for a person, having done four steps."""
    world.drive(graph=asking)
    assert world.run.status is Status.WAITING_HUMAN
    return world


def thin(world, *, apply=True, limit=10, before=None):
    before = before or world.database.now() + timedelta(seconds=1)
    return thin_idle(world.store, world.database, before, limit=limit, apply=apply)


def history(world):
    """The ids of the checkpoints, the last one first, each with the id of the one before."""
    with open_saver(world.store, world.run_id, world.run.epoch, 0, always) as saver:
        found = list(saver.list({"configurable": {"thread_id": world.run_id}}))
    parents = [one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None for one in found]
    return list(zip([one.checkpoint["id"] for one in found], parents, strict=True))


def head(world):
    with open_saver(world.store, world.run_id, world.run.epoch, 0, always) as saver:
        return saver.get_tuple({"configurable": {"thread_id": world.run_id}})


def approve_and_finish(world):
    world.ledger.decide(world.publication.action_id, "approve")
    registry.queue_decided(world.database, world.run_id)
    return world.drive(graph=asking)


def test_a_waiting_run_keeps_its_last_checkpoint_and_goes_on(waiting):
    before, was = history(waiting), head(waiting)
    rows = rows_of(waiting.store, waiting.run_id)
    assert len(before) == 6
    seen = thin(waiting, apply=False)
    assert rows_of(waiting.store, waiting.run_id) == rows

    done = thin(waiting)
    assert done.thinned == (Thinned(run_id=waiting.run_id, status="waiting_human", checkpoints=5),)
    assert done == seen
    assert history(waiting) == [(before[0][0], None)]
    now = head(waiting)
    assert (now.checkpoint, now.pending_writes) == (was.checkpoint, was.pending_writes)
    after = rows_of(waiting.store, waiting.run_id)
    untouched = {table for table in rows if not table.startswith(("checkpoint", "writes"))}
    assert {table: after[table] for table in untouched} == {table: rows[table] for table in untouched}
    assert thin(waiting).thinned == ()  # nothing is left to thin

    assert approve_and_finish(waiting).status is Status.SUCCEEDED
    assert waiting.effects == ALL


def test_without_its_last_checkpoint_it_would_begin_again(waiting):
    """The control: these effects tell when too much is taken."""
    remove_head(waiting)
    approve_and_finish(waiting)
    assert waiting.effects != ALL


def remove_head(world):
    if world.store.kind == "sqlite":
        with closing(sqlite3.connect(world.store.path)) as connection:
            connection.execute("delete from checkpoints")
            connection.commit()
    else:
        with psycopg.connect(world.store.dsn) as connection:
            connection.execute("delete from onward.checkpoints")


@pytest.mark.parametrize("store", ["postgres"], indirect=True)  # in a file they lie in the checkpoints
def test_values_that_no_checkpoint_refers_to_go_too(waiting):
    many = rows_of(waiting.store, waiting.run_id)
    thin(waiting)
    few = rows_of(waiting.store, waiting.run_id)
    assert few["checkpoint_blobs"] < many["checkpoint_blobs"]
    assert few["checkpoint_writes"] < many["checkpoint_writes"]
    assert few["checkpoint_writes"] > 0  # the question that it waits with


def test_a_finished_run_is_thinned_and_then_removed(world):
    world.drive()
    assert thin(world).thinned[0].status == "succeeded"
    assert len(history(world)) == 1


def test_young_runs_stay_as_they_are(waiting):
    before = history(waiting)
    assert thin(waiting, before=waiting.database.now() - timedelta(hours=1)).thinned == ()
    assert history(waiting) == before


def test_the_limit(waiting):
    other = World(waiting.store, waiting.database, waiting.objects, waiting.ledger, waiting.folder)
    other.drive(graph=asking)
    first = thin(waiting, limit=1)
    assert (len(first.thinned), first.more) == (1, True)
    second = thin(waiting, limit=1)
    assert (len(second.thinned), second.more) == (1, False)


def test_a_driven_run_keeps_its_history(world, served_ledger, tmp_path):
    options = {"world": str(tmp_path), "pauses": ["in test"]}
    child = Child(driving, tmp_path / "driver", spec_of(world.store), world.run_id, served_ledger, options)
    child.reached("in test")
    before = rows_of(world.store, world.run_id)
    assert before["checkpoints"] > 1
    assert thin(world) == thin(world, apply=False)
    assert rows_of(world.store, world.run_id) == before
    child.let_go("in test")
    assert child.end() == 0
    assert world.effects == ALL


@pytest.mark.parametrize("store", ["postgres"], indirect=True)  # a file has one writer at a time: it is waited for
@pytest.mark.parametrize("table", ["runs", "leases"])
def test_a_run_that_somebody_holds_is_passed_over(waiting, table):
    with psycopg.connect(waiting.store.dsn) as holding:
        holding.execute(f"select from onward.{table} where run_id = %s for update", [waiting.run_id])
        assert thin(waiting).kept == (Kept(run_id=waiting.run_id, reason="in_use"),)
    assert len(history(waiting)) == 6
    assert thin(waiting).thinned[0].checkpoints == 5


class Growing(TypedDict, total=False):
    lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(line for each in new for line in each)])]


def deltas():
    """A graph whose values are rebuilt from older checkpoints."""

    def node(state: Any) -> Any:
        return {"lines": ["x"]}

    def ask(state: Any) -> Any:
        interrupt({"approval": {"action_id": "none"}})

    graph = StateGraph(Growing)
    for number in range(3):
        graph.add_node(f"n{number}", node)
    graph.add_node("ask", ask)
    for source, end in ((START, "n0"), ("n0", "n1"), ("n1", "n2"), ("n2", "ask"), ("ask", END)):
        graph.add_edge(source, end)
    return graph


def test_a_graph_that_needs_its_older_checkpoints_keeps_them(world):
    world.drive(graph=deltas)
    before = history(world)
    assert len(before) > 2
    done = thin(world)
    assert done.thinned == ()
    assert done.kept == (Kept(run_id=world.run_id, reason="deltas"),)
    assert history(world) == before


def nested():
    """A graph with a subgraph in which the question is asked."""

    class State(TypedDict, total=False):
        said: str

    def ask(state: Any) -> Any:
        return {"said": interrupt({"approval": {"action_id": "none"}})}

    def plain(state: Any) -> Any:
        return {"said": "nothing"}

    inner = StateGraph(State)
    inner.add_node("first", plain)
    inner.add_node("ask", ask)
    inner.add_edge(START, "first")
    inner.add_edge("first", "ask")
    inner.add_edge("ask", END)
    outer = StateGraph(State)
    outer.add_node("before", plain)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "before")
    outer.add_edge("before", "inner")
    outer.add_edge("inner", END)
    return outer


def test_a_question_inside_a_subgraph_is_kept(world):
    world.drive(graph=nested)

    def pending():
        with open_saver(world.store, world.run_id, world.run.epoch, 0, always) as saver:
            graph = nested().compile(checkpointer=saver)
            found = graph.get_state({"configurable": {"thread_id": world.run_id}}, subgraphs=True)
            return [task.state.tasks[0].interrupts for task in found.tasks], found.next

    before = pending()
    assert before[1] == ("inner",) and before[0][0]
    assert thin(world).thinned[0].checkpoints > 2
    assert pending() == before


def test_a_store_without_checkpoints_has_nothing_to_thin(tmp_path):
    store = SqliteStore(tmp_path / "new.sqlite", tmp_path / "locks")
    with closing(store.database()) as database:
        database.migrate()
        assert thin_idle(store, database, database.now(), limit=1, apply=True) == Thinning()
