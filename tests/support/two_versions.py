"""The small graph of `runs_world` as version "test", and a second version of it: a renamed node and a new field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from graph.migrations import Migrate, Migrated, Values
from graph.versions import Version
from onward_ledger.action import Action
from onward_ledger.objects import Objects
from runs.parts import Workflow
from tests.support.runs_world import STEPS, VERSION, MemoryLedger, State, TestContext, build, parts

NEXT = "next"


class NextState(State, total=False):
    """With one field more."""

    audience: str


def build_asking() -> StateGraph[Any, Any, Any, Any]:
    return build(asks_person=True)


def build_next() -> StateGraph[Any, Any, Any, Any]:
    """The same steps; the node `deliver` is called `publish` and needs to know for whom."""

    def step(name: str):
        def node(state: NextState, runtime: Runtime[TestContext]) -> NextState:
            runtime.context.recorder.step_started(name)
            runtime.context.effect(name)
            runtime.context.recorder.step_finished(name)
            return {"log": [*state.get("log", []), name]}

        return node

    def publish(state: NextState, runtime: Runtime[TestContext]) -> NextState:
        context = runtime.context
        context.recorder.step_started("deliver")  # the step keeps its name, and with it its action
        action = context.ledger.put(context.run_id, "deliver", epoch=context.epoch)
        if action.decision is None:
            interrupt({"approval": {"action_id": action.action_id}})
        context.ledger.succeed(action.action_id)
        context.effect(f"deliver to {state['audience']}")
        context.recorder.step_finished("deliver")
        delivery = {"action_id": action.action_id, "receipt": {"ok": True}}
        return {"log": [*state.get("log", []), "deliver"], "outcome": "published", "delivery": delivery}

    graph = StateGraph(NextState, context_schema=TestContext)
    for name in STEPS:
        graph.add_node(name, step(name))
    graph.add_node("publish", publish)
    for source, end in zip((START, *STEPS, "publish"), (*STEPS, "publish", END), strict=True):
        graph.add_edge(source, end)
    return graph


def to_next(values: Values, pending: tuple[str, ...]) -> Migrated:
    """From "test" to "next"."""
    log = values.get("log", [])
    return Migrated(values={**values, "audience": "everybody"}, as_node=log[-1] if log else "__start__")


def node_name(node: str, *_: Any) -> str:
    """Steps are called as their nodes, but for the renamed one."""
    return "deliver" if node == "publish" else node


class NoLedger:
    """A ledger for forks that carry no effect: it holds what it is given, and performs nothing."""

    def __init__(self, actions: Sequence[Action] = ()) -> None:
        self._actions = tuple(actions)

    def actions(self, run_id: str | None = None, *_: Any, **__: Any) -> tuple[Action, ...]:
        return self._actions

    def fence(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is to be performed")

    perform = fence


def two_versions(migrate: Migrate = to_next) -> dict[str, Version]:
    """Both versions, as `graph.versions` would hold them."""

    kinds = frozenset({"test"})
    first = Version(name=VERSION, build=build_asking, recursion_limit=25, allowed_kinds=kinds, step_of=node_name)
    second = Version(
        name=NEXT,
        build=build_next,
        recursion_limit=25,
        allowed_kinds=kinds,
        step_of=node_name,
        migrations={VERSION: migrate},
    )
    return {VERSION: first, NEXT: second}


def serving(
    store: Any,
    ledger: MemoryLedger,
    objects: Objects,
    folder: Path,
    names: tuple[str, ...] = (VERSION, NEXT),
    **more: Any,
) -> Any:
    """Parts of a drive where these versions are served."""
    versions = two_versions()

    def workflow(version: str) -> Workflow:
        if version not in names:
            raise KeyError(version)
        return Workflow(build=versions[version].build)

    return parts(store, ledger, objects, folder, effects=folder / "effects", workflow=workflow, **more)
