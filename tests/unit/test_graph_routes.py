"""Routers are total: every state that a node can leave has a next step, and none raises (langgraph#8834)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from graph.build import after_analysis, after_delivery, after_test, build


@pytest.mark.parametrize(
    ("cursor", "questions", "following"),
    [(0, 2, "analyze"), (1, 2, "analyze"), (2, 2, "write_draft"), (0, 0, "write_draft")],
)
def test_analysis_goes_on_until_no_question_is_open(cursor: int, questions: int, following: str) -> None:
    state: Any = {"cursor": cursor, "plan": {"questions": [{}] * questions}}
    assert after_analysis(state) == following


@pytest.mark.parametrize(
    ("passed", "outcome", "following"),
    [(True, None, "deliver"), (False, None, "write_draft"), (False, "unverified", "__end__")],
)
def test_a_failed_verification_is_revised_until_no_revision_is_left(
    passed: bool, outcome: str | None, following: str
) -> None:
    state: Any = {"verification": {"passed": passed}} | ({"outcome": outcome} if outcome else {})
    assert after_test(state) == following


def test_delivery_ends_only_with_an_outcome() -> None:
    for decision, outcome in itertools.product((None, "approve", "revise", "reject"), (None, "published", "rejected")):
        state: Any = {"decision": decision} | ({"outcome": outcome} if outcome else {})
        expected = "__end__" if outcome else "write_draft" if decision == "revise" else "deliver"
        assert after_delivery(state) == expected


def test_the_graph_has_the_five_steps() -> None:
    graph = build().compile().get_graph()
    assert set(graph.nodes) == {"__start__", "plan", "analyze", "write_draft", "test", "deliver", "__end__"}
    edges = {(e.source, e.target) for e in graph.edges}
    assert edges == {
        ("__start__", "plan"),
        ("plan", "analyze"),
        ("plan", "write_draft"),
        ("analyze", "analyze"),
        ("analyze", "write_draft"),
        ("write_draft", "test"),
        ("test", "write_draft"),
        ("test", "deliver"),
        ("test", "__end__"),
        ("deliver", "write_draft"),
        ("deliver", "deliver"),
        ("deliver", "__end__"),
    }
