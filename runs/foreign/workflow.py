"""Somebody's graph behind the interface that `runs.drive` drives: their code, our checkpointer, our rule.

The process has loaded their file, and belongs to this one run from then on: their folder is its working directory.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl
from langgraph.types import StateSnapshot

from graph.errors import OutcomeUnknown
from onward_ledger.action import Action
from onward_ledger.errors import LedgerError, UnknownOutcome
from onward_ledger.objects import Objects
from runs.foreign import loading
from runs.foreign.errors import GraphError
from runs.foreign.next_move import next_move, read_position
from runs.foreign.plain import cut, plain
from runs.foreign.recording import StepRecorder
from runs.foreign.specs import GraphSpec, specs_of
from runs.next_move import Finish, Move, Wait
from runs.registry import Run
from tools.files import Files, Ref

if TYPE_CHECKING:
    from runs.parts import Answers, Seat

# LangGraph's own, where neither the run nor the graph says otherwise.
RECURSION_LIMIT = 10_007


class ForeignWorkflow:
    """One graph for one drive of one run. `recursion_limit` is known when the graph is compiled.

    Loading is the first thing that happens: what cannot be imported raises GraphError, and the run stays as it is.
    """

    def __init__(self, spec: GraphSpec, run: Run, objects: Objects) -> None:
        self.recursion_limit = RECURSION_LIMIT
        self._spec = spec
        self._files = Files(objects, run.run_id)
        self._given: Mapping[str, Any] = run.params
        self._runner = asyncio.Runner()
        self._asynchronous = bool(self._given.get("ainvoke"))
        self._side_by_side = False
        self._graph: Any = None
        self._seat: Seat | None = None
        self._asked: list[dict[str, Any]] | None = None
        self._found = load(spec)

    @contextmanager
    def context(self, seat: Seat) -> Generator[Any]:
        """The runtime context of the drive: what the run was started with. Everything of the drive ends with it."""
        self._seat = seat
        with self._runner:
            yield self._given.get("context")

    def close(self) -> None:
        """For whoever only looks at the graph and drives nothing; a drive ends it with its context."""
        self._runner.close()

    def compile(self, saver: Any) -> Any:
        """Their graph with our checkpointer in the place of theirs. Raises GraphError where that cannot be."""
        spec = self._spec
        allowed = getattr(self._found, "_serde_allowlist", None) or set[tuple[str, str]]()
        saver = saver.with_allowlist(allowed | loading.classes_in(spec.file, *spec.paths))
        graph = self._runner.run(loading.with_checkpointer(self._found, spec.attribute, saver))
        _refuse_below(graph, spec)
        self._asynchronous = self._asynchronous or loading.needs_async(graph)
        config = self._given.get("config") or {}
        self.recursion_limit = (
            config.get("recursion_limit") or (graph.config or {}).get("recursion_limit") or RECURSION_LIMIT
        )
        # One at a time, who waits for a function under @task waits for ever. Without that limit its result can become
        # durable behind what follows it; a kill in between runs the function once more, which a guard notices.
        self._side_by_side = loading.is_functional(graph) or loading.has_tasks(spec.file, *spec.paths)
        self._graph = graph
        return graph

    def initial(self, run: Run) -> Any:
        """The input that the run was started with."""
        ref = Ref(key=run.input_key, digest=run.input_digest, size=run.input_size)
        return json.loads(self._files.get(ref))

    def invoke(self, graph: Any, given: Any, config: RunnableConfig, context: Any, control: RunControl) -> None:
        """One invocation. What a guarded tool leaves open for a person is raised as OutcomeUnknown."""
        assert self._seat is not None
        theirs = self._given.get("config") or {}
        both = {**theirs, **config, "callbacks": [StepRecorder(self._seat.recorder)]}
        if self._side_by_side:
            del both["max_concurrency"]
        both["configurable"] = {**theirs.get("configurable", {}), **(config.get("configurable") or {})}
        options: dict[str, Any] = {"durability": "sync", "control": control}
        if context is not None:
            options["context"] = context
        try:
            if self._asynchronous:
                self._runner.run(graph.ainvoke(given, both, **options))
            else:
                graph.invoke(given, both, **options)
        except Exception as error:
            if (unknown := _unknown_outcome(error)) is not None:
                raise OutcomeUnknown(unknown) from error
            raise

    def move(self, snapshot: StateSnapshot, said: Answers) -> Move:
        """Where the run goes on. What it asks, and what it ends with, is recorded before."""
        graph = self._graph
        position = read_position(
            snapshot, stops_before=graph.interrupt_before_nodes, stops_behind=self._stops_behind(snapshot)
        )
        move = next_move(position, said.answers() if position.questions else {})
        if isinstance(move, Wait):
            self._record_questions([each.to_json() for each in position.questions])
        elif isinstance(move, Finish):
            self._record_result(snapshot.values)
        return move

    def decides(self, action: Action) -> bool:
        """No effect of a graph that we do not know is its outcome: a cancel is never too late, and lists them all."""
        return False

    def goes_on(self, unknown: Action) -> bool:
        """Its guard asks the world when the node runs again, and stops the run where nobody can tell."""
        return True

    def _stops_behind(self, snapshot: StateSnapshot) -> tuple[str, ...]:
        """Nodes that have just ended and have a breakpoint behind them."""
        stops: Any = self._graph.interrupt_after_nodes
        if not stops or snapshot.parent_config is None:
            return ()
        ended = self._graph.get_state(snapshot.parent_config).next
        return tuple(name for name in ended if stops == "*" or name in stops)

    def _record_questions(self, asked: list[dict[str, Any]]) -> None:
        assert self._seat is not None
        if asked != self._asked:
            self._asked = asked
            self._seat.recorder.record("asked", {"questions": asked})

    def _record_result(self, values: Any) -> None:
        """The whole result as an object of the run; what fits a screen as an event."""
        assert self._seat is not None
        shown: Any = self._graph.output_channels
        if isinstance(values, dict) and isinstance(shown, list | tuple):
            names = set(cast(list[str], shown))
            values = {name: value for name, value in cast(dict[str, Any], values).items() if name in names}
        result = plain(values)
        ref = self._files.put(json.dumps(result, ensure_ascii=False).encode())
        self._seat.recorder.record("result", {"values": cut(result), "object": dict(ref)})


def load(spec: GraphSpec) -> Any:
    """What their file has under that name. This process becomes one of theirs: variables, working directory, path."""
    for name, value in spec.env.items():
        os.environ.setdefault(name, value)
    os.chdir(spec.folder)
    with loading.keeping_ours():
        return loading.load(spec.file, spec.attribute, spec.paths)


def check_all(graph: str) -> None:
    """Load each of these graphs in this process, which is of no other use then. Raises GraphError."""
    for spec in specs_of(graph):
        _refuse_below(asyncio.run(loading.with_checkpointer(load(spec), spec.attribute, None)), spec)


def _refuse_below(graph: Any, spec: GraphSpec) -> None:
    """Subgraphs have to be such that a run of ours can stop and go on in them."""
    if kept := loading.own_checkpointers(graph):
        raise GraphError(
            f"{spec.text}: the graph in {', '.join(kept)} keeps a checkpointer of its own, which is not replaced: it "
            "would be written without a fence. Compile it without one; it then uses that of the graph around it."
        )
    if stops := loading.inner_breakpoints(graph):
        raise GraphError(
            f"{spec.text}: the graph in {', '.join(stops)} has breakpoints (interrupt_before, interrupt_after), which "
            "a run cannot wait at inside of another graph. Call interrupt() in a node instead."
        )


def _unknown_outcome(error: BaseException) -> Action | None:
    """The action of which a guard says that only a person can tell whether it happened."""
    told: Any = error
    inner = getattr(error, "error", None)  # onward_ledger.langgraph.Stopped
    if isinstance(inner, LedgerError):
        told = inner
    return told.action if isinstance(told, UnknownOutcome) else None
