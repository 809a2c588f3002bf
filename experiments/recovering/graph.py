"""The five steps as a LangGraph graph: for plain LangGraph, and for Onward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from experiments.recovering import work

Graph = StateGraph[Any, Any, Any, Any]
# Performs the effect of the run with this id; what it returns is in the state from then on.
Effect = Callable[[str, RunnableConfig], object]


class State(TypedDict, total=False):
    """Which steps are done, by their numbers, and what came of the effect."""

    done: list[int]
    thing: object


def five_steps(effect: Effect) -> Graph:
    """One node for each step; the third performs the effect."""
    graph: Graph = StateGraph(State)
    names = [f"step_{number}" for number in range(1, work.STEPS + 1)]
    for number, name in enumerate(names, 1):
        graph.add_node(name, cast(Any, _node(number, effect)))
    for source, end in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(source, end)
    return graph


def _node(number: int, effect: Effect) -> Callable[[State, RunnableConfig], State]:
    def node(state: State, config: RunnableConfig) -> State:
        update = State(done=[*state.get("done", []), number])

        def perform(run_id: str) -> None:
            update["thing"] = effect(run_id, config)

        work.step(str((config.get("configurable") or {})["thread_id"]), number, perform)
        return update

    return node
