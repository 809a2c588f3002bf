"""Which graphs this process can drive: those that it was started with, else the one that the run itself names.

A run names its graph as a file of the machine on which it was started. A worker on another machine serves it by the
version, which is the same for the same text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward_ledger.objects import Objects
from runs.errors import OtherVersion
from runs.foreign.errors import GraphError
from runs.foreign.specs import GraphSpec, specs_of
from runs.registry import Run

if TYPE_CHECKING:
    from runs.foreign.workflow import ForeignWorkflow
    from runs.parts import Seat

VARIABLE = "ONWARD_GRAPH"  # a graph that drivers of runs started elsewhere, or before an edit, are to take


class Serving:
    """Makes the workflow of a drive, and its context.

    `graph`: what the process was started with, if with any. `named_by_run`: without it, the file that a run names is
    taken; a worker takes nothing but what it was started with. `ledger`: its URL and token, which their code finds in
    the environment, where it has none of its own.
    """

    def __init__(
        self, graph: str | None, objects: Objects, ledger: Callable[[], tuple[str, str]], *, named_by_run: bool = True
    ) -> None:
        self._graph = graph or os.environ.get(VARIABLE) or None
        self._named_by_run = named_by_run
        self._objects = objects
        self._ledger = ledger
        self._workflow: ForeignWorkflow | None = None

    def workflow(self, run: Run) -> ForeignWorkflow:
        """Their graph, loaded. Raises OtherVersion when it is not here, and GraphError when it cannot be loaded."""
        from runs.foreign.workflow import ForeignWorkflow

        spec = find(run, self._graph, named_by_run=self._named_by_run)
        if "LEDGER_URL" not in os.environ:
            os.environ["LEDGER_URL"], os.environ["LEDGER_TOKEN"] = self._ledger()
        self._workflow = ForeignWorkflow(spec, run, self._objects)
        return self._workflow

    def context(self, seat: Seat) -> AbstractContextManager[Any]:
        """The context of the drive whose workflow was made last."""
        assert self._workflow is not None
        return self._workflow.context(seat)


def versions_of(graph: str) -> tuple[str, ...]:
    """The workflow versions that a worker of these graphs serves. Raises GraphError."""
    return tuple(spec.version for spec in specs_of(graph))


def find(run: Run, graph: str | None, *, named_by_run: bool = True) -> GraphSpec:
    """The graph of a run, of exactly its version. Raises OtherVersion."""
    named = (run.params.get("graph") or {}) if named_by_run else {}
    text, folder = graph or named.get("spec"), Path(named.get("folder") or Path.cwd())
    try:
        found = specs_of(text, folder=folder if folder.is_dir() else Path.cwd()) if text else ()
    except GraphError as error:
        raise OtherVersion(f"The graph of the run {run.run_id} is not here: {error}") from error
    for spec in found:
        if spec.version == run.workflow_version:
            return spec
    raise _other(run, found)


def _other(run: Run, found: Sequence[GraphSpec]) -> OtherVersion:
    wanted = run.workflow_version
    if not found:
        return OtherVersion(f"The run {run.run_id} is of {wanted}. Serve it: onward worker --graph FILE.py:NAME")
    name, _, version = wanted.rpartition("@")
    same = next((spec for spec in found if f"graph:{spec.name}" == name), found[0])
    return OtherVersion(
        f"The run {run.run_id} is of {wanted}, and {same.file} is {same.version} now. Where a thread of the one can go "
        f"on with the other, say so: {VARIABLE}={same.plain}@{version} onward resume {run.run_id}"
    )
