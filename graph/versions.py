"""Workflow versions, side by side: which one a run was created with is written in its row.

A node that is renamed while its interrupt is pending lets the resume return as if the run were finished. So a change
to nodes, edges or state makes a new version here, beside the old one, for as long as old runs exist. A run changes its
version by `onward migrate` only, with a migration function that is registered here (`graph.migrations`).

How to release a version: give it a build function, a line in VERSIONS and golden checkpoints
(`python -m tests.migration.make_golden`), and make it CURRENT. Taking a version out leaves its runs where they are:
they are shown as unserved, and nobody tries them.

Nothing heavy is imported before a graph is built: commands that only look have no use for LangGraph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graph.migrations import Migrate
from graph.steps import step_of

if TYPE_CHECKING:
    from langgraph.graph import StateGraph


@dataclass(frozen=True, kw_only=True)
class Version:
    """One workflow version.

    `build` makes its graph, not compiled. `recursion_limit` is the number of super-steps that one invocation may take.
    `allowed_kinds` are the kinds of effects that it may use. `step_of(node, state)` names the step that a node begins.
    `migrations` leads from other versions to this one, by the name of the version that a run comes from.
    """

    name: str
    build: Callable[[], StateGraph[Any, Any, Any, Any]]
    recursion_limit: int
    allowed_kinds: frozenset[str]
    step_of: Callable[[str, Mapping[str, Any]], str] = step_of
    migrations: Mapping[str, Migrate] = field(default_factory=dict[str, Migrate])


def _build_1() -> StateGraph[Any, Any, Any, Any]:
    from graph.build import build

    return build()


VERSIONS: dict[str, Version] = {
    version.name: version
    for version in (
        Version(
            name="1",
            build=_build_1,
            recursion_limit=27,  # graph.build says how it follows from the plan; a test compares
            allowed_kinds=frozenset({"draft.save", "report.publish"}),
        ),
    )
}

CURRENT = "1"  # what new runs are made with
SERVED = tuple(VERSIONS)
