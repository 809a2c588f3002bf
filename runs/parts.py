"""What a drive works with: a workflow, the means of this process, and what a run's people and ledger have said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import StateSnapshot

from graph.context import Context
from onward_ledger.action import Action
from onward_ledger.database import Database
from runs import cancelling
from runs.checkpoints import Saver
from runs.drain import Drain
from runs.next_move import Move, next_move, read_position
from runs.recorder import DriveRecorder
from runs.registry import Run
from runs.store import Store
from runs.wake import Ledger

Graph = CompiledStateGraph[Any, Context, Any, Any]

# Under this name a graph's configuration says which epoch drives it; `onward_ledger.langgraph` reads it.
EPOCH = "onward_epoch"


class Answers(Protocol):
    """What people and the ledger have said about a run so far."""

    def decisions(self, action_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The decisions that count, by the action that was asked about."""
        ...

    def receipts(self, action_id: str | None) -> dict[str, dict[str, Any]]:
        """The receipt of an action of this run that SUCCEEDED, as the ledger records it, by its id."""
        ...

    def answers(self) -> dict[str, Any]:
        """Answers to interrupts that are about no action, by interrupt id."""
        ...


class Driveable(Protocol):
    """What a drive asks of a workflow: `Workflow` is the agent's, `runs.foreign.workflow` somebody's own graph."""

    @property
    def recursion_limit(self) -> int:
        """The super-steps of one invocation at most."""
        ...

    def compile(self, saver: Saver) -> Graph:
        """The graph with this checkpointer."""
        ...

    def initial(self, run: Run) -> Any:
        """The state that a run starts with."""
        ...

    def invoke(self, graph: Graph, given: Any, config: RunnableConfig, context: Any, control: RunControl) -> None:
        """One invocation, until the graph ends, waits, or is drained."""
        ...

    def move(self, snapshot: StateSnapshot, said: Answers) -> Move:
        """Where the run goes on."""
        ...

    def decides(self, action: Action) -> bool:
        """Whether the run's outcome hangs on this action: claimed before a cancel, it is too late to cancel."""
        ...

    def goes_on(self, unknown: Action) -> bool:
        """Whether the graph itself can go on with this UNKNOWN action, so that no person is asked before it tries."""
        ...


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """One workflow version: its graph, the super-steps of one invocation at most, its input, and where it goes on."""

    build: Callable[[], StateGraph[Any, Any, Any, Any]]
    recursion_limit: int = 100

    def compile(self, saver: Saver) -> Graph:
        """The graph with this checkpointer."""
        return cast(Graph, self.build().compile(checkpointer=saver))

    def initial(self, run: Run) -> Any:
        """The state that a run starts with."""
        return {"input": run.input, "asks": run.asks}

    def invoke(self, graph: Graph, given: Any, config: RunnableConfig, context: Any, control: RunControl) -> None:
        """One invocation, until the graph ends, waits, or is drained."""
        graph.invoke(given, config, context=context, durability="sync", control=control)

    def move(self, snapshot: StateSnapshot, said: Answers) -> Move:
        """Where the run goes on."""
        position = read_position(snapshot)
        asked = {question.action_id for question in position.questions if question.action_id}
        return next_move(position, said.decisions(asked), said.receipts(position.delivered_by))

    def decides(self, action: Action) -> bool:
        """Whether the run's outcome hangs on this action: claimed before a cancel, it is too late to cancel."""
        return cancelling.decides(action)

    def goes_on(self, unknown: Action) -> bool:
        """See Driveable. The ledger has just asked the provider, and knows no more."""
        return False


@dataclass(frozen=True, kw_only=True)
class Seat:
    """What the context of one drive is made from."""

    run: Run
    epoch: int
    recorder: DriveRecorder
    scratch: Path


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a drive works with.

    `open_database` opens what the drive reads and writes rows through; the drive closes it. `workflow` raises KeyError
    for a version that is not served here; `check_run` raises a RunError for a run that this installation cannot drive
    for another reason (its model is not there), before anything of it is touched. `foreign` is asked instead of
    `workflow` for a run of kind "graph"; it raises OtherVersion or GraphError.
    """

    store: Store
    open_database: Callable[[], Database]
    ledger: Ledger
    ledger_id: str
    objects_url: str
    workflow: Callable[[str], Driveable]
    make_context: Callable[[Seat], AbstractContextManager[Context]]
    check_run: Callable[[Run], None]
    scratch: Path
    lease_seconds: float
    drain: Drain
    driver_kind: str = "driver"
    foreign: Callable[[Run], Driveable] | None = None
