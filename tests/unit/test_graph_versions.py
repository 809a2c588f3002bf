"""Workflow versions as values, and the names of steps."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from graph import build
from graph.steps import step_of
from graph.versions import CURRENT, SERVED, VERSIONS


def test_new_runs_are_made_with_a_version_that_is_served() -> None:
    assert CURRENT in SERVED


@pytest.mark.parametrize("version", VERSIONS.values(), ids=lambda version: version.name)
def test_a_version_knows_its_name_and_builds_its_graph(version: Any) -> None:
    assert VERSIONS[version.name] is version
    assert version.build().compile().get_graph().nodes


def test_the_recursion_limit_is_the_one_that_follows_from_the_plan() -> None:
    assert VERSIONS["1"].recursion_limit == build.RECURSION_LIMIT


def test_looking_at_versions_does_not_import_langgraph() -> None:
    code = "import sys, graph.versions; sys.exit('langgraph' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("node", "state", "step"),
    [
        ("plan", {}, "plan"),
        ("analyze", {"cursor": 0}, "analyze#1"),
        ("analyze", {"cursor": 2}, "analyze#3"),
        ("write_draft", {}, "write_draft"),
        ("write_draft", {"draft": {"revision": 1}}, "write_draft#2"),
        ("test", {"draft": {"revision": 1}}, "test"),
        ("test", {"draft": {"revision": 2}}, "test#2"),
        ("deliver", {"draft": {"revision": 3}}, "deliver#3"),
    ],
)
def test_a_step_is_named_by_the_state_before_it(node: str, state: dict[str, Any], step: str) -> None:
    assert step_of(node, state) == step
