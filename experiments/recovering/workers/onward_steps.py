"""The five steps as a workflow version of Onward: imported by its workers and by the process that drivers fork from.

The effect goes through the ledger, as a kind of effect that is configured for the API (see systems.onward).
"""

from __future__ import annotations

from typing import Any

from langgraph.runtime import get_runtime

from experiments.recovering.graph import Graph, five_steps
from graph import versions
from graph.context import Context
from graph.errors import OutcomeUnknown
from graph.versions import Version
from onward_ledger.action import Status

VERSION = "five-steps"
KIND = "thing.make"
STEP, SLOT = "step_3", "thing"


def build() -> Graph:
    """The graph of the version."""
    return five_steps(_perform, Context)


def _perform(run_id: str) -> dict[str, Any]:
    """The effect, by the ledger; the action that stands for it."""
    actions = get_runtime(Context).context.actions
    action = actions.perform(STEP, SLOT, KIND, lambda: (f"things/{run_id}", {}))
    if action.status is not Status.SUCCEEDED:
        raise OutcomeUnknown(action)
    return {"action_id": action.action_id, "receipt": action.receipt}


versions.VERSIONS[VERSION] = Version(name=VERSION, build=build, recursion_limit=25, allowed_kinds=frozenset({KIND}))
versions.SERVED = tuple(versions.VERSIONS)
