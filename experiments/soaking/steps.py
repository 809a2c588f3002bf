"""A small workflow: four steps, and in two of them one effect.

The effects go through the ledger to an API in a process of its own. One kind is deduplicated by the API, the other can
only be searched for: when its answer is lost and nothing is found, a person has to say what happened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime

from graph.context import Context
from graph.errors import OutcomeUnknown
from onward_ledger.action import Status

VERSION = "small"
# How long a step takes beside its work: where things are killed, long enough that most kills fall into a step.
STEP_SECONDS = "SOAKING_STEP_SECONDS"
_STEP_SECONDS = float(os.environ.get(STEP_SECONDS, "0"))
SLOT = "thing"
# The step, and the kind of its effect.
EFFECTS = {"keyed": "thing.keyed", "found": "thing.found"}
STEPS = ("begin", "keyed", "found", "end")


class State(TypedDict, total=False):
    """Which steps are done, in their order; what came of the last effect; and how it ended."""

    input: dict[str, Any]
    asks: list[str]
    done: list[str]
    delivery: dict[str, Any]
    outcome: str


def build() -> StateGraph[Any, Any, Any, Any]:
    """The graph of the version."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(State, context_schema=Context)
    for name in STEPS:
        graph.add_node(name, cast(Any, _node(name)))
    for source, end in zip((START, *STEPS), (*STEPS, END), strict=True):
        graph.add_edge(source, end)
    return graph


def _node(name: str) -> Callable[[State, Runtime[Context]], State]:
    def node(state: State, runtime: Runtime[Context]) -> State:
        context = runtime.context
        context.recorder.step_started(name)
        time.sleep(_STEP_SECONDS)
        update = State(done=[*state.get("done", []), name])
        if name in EFFECTS:
            update["delivery"] = _perform(name)
        if name == STEPS[-1]:
            update["outcome"] = "published"
        context.recorder.step_finished(name)
        return update

    return node


def _perform(step: str) -> dict[str, Any]:
    """The step's effect; the action that stands for it."""
    context = get_runtime(Context).context
    action = context.actions.perform(step, SLOT, EFFECTS[step], lambda: (f"things/{context.run_id}/{step}", {}))
    if action.status is Status.UNKNOWN:
        raise OutcomeUnknown(action)
    if action.status is not Status.SUCCEEDED:
        raise RuntimeError(f"The effect of the step {step} is {action.status}: {action.reason}")
    return {"action_id": action.action_id, "receipt": action.receipt}
