"""Workflow version "2", as a release of the drill has it: a node renamed, a field added to the state, a migration.

A release is a copy of the source with this file as `graph/second.py`. The node `deliver` is called `hand_over` there,
and needs to know who the readers are. Its steps keep their names: an approval that was given under version "1" counts.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from graph import nodes
from graph.build import after_analysis
from graph.context import Context
from graph.migrations import Migrated, Values
from graph.state import State, Update

READERS = "everybody"
NODE = "hand_over"


class SecondState(State):
    """With one field more."""

    readers: str  # plan, or the migration


def plan(state: SecondState, runtime: Runtime[Context]) -> Update:
    """As in version "1"; and who the readers are."""
    return {**nodes.plan(state, runtime), "readers": READERS}


def hand_over(state: SecondState, runtime: Runtime[Context]) -> Update:
    """Deliver to the readers, whom the state names."""
    runtime.context.recorder.progress("deliver", f"For {state['readers']}")
    return nodes.deliver(state, runtime)


def after_test(state: SecondState) -> str:
    """As in version "1", with the new name."""
    if state.get("outcome") == "unverified":
        return "__end__"
    return NODE if "verification" in state and state["verification"]["passed"] else "write_draft"


def after_delivery(state: SecondState) -> str:
    """As in version "1", with the new name."""
    if "outcome" in state:
        return "__end__"
    return "write_draft" if state.get("decision") == "revise" else NODE


def build() -> StateGraph[Any, Any, Any, Any]:
    """The graph of version "2"."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(SecondState, context_schema=Context)
    graph.add_node("plan", plan)
    graph.add_node("analyze", nodes.analyze)
    graph.add_node("write_draft", nodes.write_draft)
    graph.add_node("test", nodes.test)
    graph.add_node(NODE, hand_over)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", after_analysis, ["analyze", "write_draft"])
    graph.add_conditional_edges("analyze", after_analysis, ["analyze", "write_draft"])
    graph.add_edge("write_draft", "test")
    graph.add_conditional_edges("test", after_test, ["write_draft", NODE, "__end__"])
    graph.add_conditional_edges(NODE, after_delivery, ["write_draft", NODE, "__end__"])
    return graph


def from_1(values: Values, pending: tuple[str, ...]) -> Migrated:
    """From version "1": the field is added, and the run stands behind the node that led to the one which comes next."""
    [node] = pending
    if node in ("__start__", "plan"):
        return Migrated(values=values, as_node="__start__")
    if node == "write_draft":
        behind = "analyze" if "draft" not in values else "test"
        if behind == "test" and values["verification"]["passed"]:
            behind = NODE  # a person asked to revise what had passed
    else:
        behind = {"analyze": "plan", "test": "write_draft", "deliver": "test"}[node]
    return Migrated(values={**values, "readers": READERS}, as_node=behind)
