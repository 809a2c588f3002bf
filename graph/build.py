"""The graph: plan -> analyze (itself, once per question) -> write_draft -> test -> deliver.

    START -> plan -> analyze -+-> write_draft -> test -+-> deliver -+-> END   published, rejected
                       ^  |   |        ^   ^           |     |      |
                       +--+   |        |   +-----------+     |      |         a failed test, while revisions are left
                              |        +---------------------+      |         a person's `revise`
                              |                           deliver --+         an approval that ran out: wait again
                              +------------------------------------ END       unverified

Routers are total: a router that raises is skipped on resume, and the run would look finished (langgraph#8834).
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import START, StateGraph

from graph import nodes
from graph.context import Context
from graph.prompts import MAX_QUESTIONS
from graph.state import State

# Super-steps of one invocation: plan, each question, three rounds of write and test, deliver and its renewals. A new
# invocation (a resume) counts from zero, so a person's revisions do not use it up.
RECURSION_LIMIT = 1 + MAX_QUESTIONS + 2 * (1 + nodes.REVISIONS) + 8


def after_analysis(state: State) -> Literal["analyze", "write_draft"]:
    """The next question, or the draft when none is open (also when there never was one)."""
    return "analyze" if state["cursor"] < len(state["plan"]["questions"]) else "write_draft"


def after_test(state: State) -> Literal["deliver", "write_draft", "__end__"]:
    """Deliver what passed; revise what failed; end when no revision is left."""
    if state.get("outcome") == "unverified":
        return "__end__"
    return "deliver" if "verification" in state and state["verification"]["passed"] else "write_draft"


def after_delivery(state: State) -> Literal["write_draft", "deliver", "__end__"]:
    """End with an outcome; else revise where a person asked for it, or wait for a decision again."""
    if "outcome" in state:
        return "__end__"
    return "write_draft" if state.get("decision") == "revise" else "deliver"


def build() -> StateGraph[State, Context, Any, Any]:
    """The graph of the current workflow version, not compiled: whoever drives it brings the checkpointer."""
    graph: StateGraph[State, Context, Any, Any] = StateGraph(State, context_schema=Context)
    graph.add_node("plan", nodes.plan)
    graph.add_node("analyze", nodes.analyze)
    graph.add_node("write_draft", nodes.write_draft)
    graph.add_node("test", nodes.test)
    graph.add_node("deliver", nodes.deliver)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", after_analysis)
    graph.add_conditional_edges("analyze", after_analysis)
    graph.add_edge("write_draft", "test")
    graph.add_conditional_edges("test", after_test)
    graph.add_conditional_edges("deliver", after_delivery)
    return graph
