"""Graphs that compute nothing, so that what is left is the cost of driving them.

`five_steps` has the five steps of the reference graph and its two actions, with three objects of 1 kB as the draft.
`chain` is one node that loops to itself over a state that does not grow.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from graph.context import Context
from graph.delivery import draft_objects, saved_objects

EMPTY = ("plan", "analyze", "test")
DRAFT = ("draft.json", "report.html", "report.md")
DRAFT_BYTES = 1000

Graph = StateGraph[Any, Any, Any, Any]
Seen = Callable[[int], None]


class Five(TypedDict, total=False):
    """State of `five_steps`."""

    input: dict[str, Any]
    asks: list[str]
    done: str
    draft: dict[str, Any]
    delivery: dict[str, Any]
    outcome: str


def five_steps() -> Graph:
    """plan, analyze, write_draft, test, deliver: each tells the recorder, two act, none computes."""
    graph: Graph = StateGraph(Five, context_schema=Context)
    for name in EMPTY:
        graph.add_node(name, cast(Any, _empty(name)))
    graph.add_node("write_draft", _write_draft)
    graph.add_node("deliver", _deliver)
    order = ("plan", "analyze", "write_draft", "test", "deliver")
    for source, end in zip((START, *order), (*order, END), strict=True):
        graph.add_edge(source, end)
    return graph


def _empty(name: str) -> Callable[[Five, Runtime[Context]], Five]:
    def node(state: Five, runtime: Runtime[Context]) -> Five:
        runtime.context.recorder.step_started(name)
        runtime.context.recorder.step_finished(name)
        return {"done": name}

    return node


def draft_files() -> dict[str, bytes]:
    """Three small files, other bytes each time, so that no object was there before."""
    return {name: os.urandom(DRAFT_BYTES) for name in DRAFT}


def _write_draft(state: Five, runtime: Runtime[Context]) -> Five:
    context = runtime.context
    context.recorder.step_started("write_draft")
    action = context.actions.perform(
        "write_draft",
        "draft",
        "draft.save",
        lambda: (f"drafts/{context.run_id}/1", draft_objects(context, draft_files())),
    )
    context.recorder.step_finished("write_draft")
    return {"draft": {"digest": action.params["digest"], "objects": saved_objects(action)}}


def _deliver(state: Five, runtime: Runtime[Context]) -> Five:
    context, draft = runtime.context, state.get("draft", {})
    context.recorder.step_started("deliver")

    def build() -> tuple[str, dict[str, Any]]:
        return "reports/benchmark", {"title": "Benchmark", "note": "", **draft}

    context.actions.propose("deliver", "publish", "report.publish", build)
    action = context.actions.perform("deliver", "publish", "report.publish", build)
    context.recorder.step_finished("deliver")
    return {"delivery": {"action_id": action.action_id, "receipt": action.receipt}, "outcome": "published"}


class Chain(TypedDict, total=False):
    """State of `chain`: it does not grow."""

    input: dict[str, Any]
    asks: list[str]
    done: int
    outcome: str


def chain(steps: int, seen: Seen) -> Graph:
    """One node, that many times. `seen` is told the number of each step as it begins, from 1.

    It ends as "unverified": the one outcome that asks nothing of the ledger.
    """

    def step(state: Chain, runtime: Runtime[Context]) -> Chain:
        number = state.get("done", 0) + 1
        seen(number)
        name = f"step#{number}"
        runtime.context.recorder.step_started(name)
        runtime.context.recorder.step_finished(name)
        return {"done": number} if number < steps else {"done": number, "outcome": "unverified"}

    def onward(state: Chain) -> str:
        return "step" if state.get("done", 0) < steps else END

    graph: Graph = StateGraph(Chain, context_schema=Context)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", onward, ["step", END])
    return graph
