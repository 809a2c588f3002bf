"""A world for runs without the agent: a small graph, a ledger in this process's memory, and real stores.

Used by tests in their own process, and by `python -m tests.support.runs_driver` in processes that are killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import psycopg
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from onward_ledger.action import Action, ActionKey, Decision, Status, request_hash
from onward_ledger.errors import FenceClosed, NotCompensable, NotFound, StaleEpoch
from onward_ledger.objects import Objects
from onward_ledger.values import Fence
from runs import registry
from runs.drain import Drain
from runs.holder import lock_is_held
from runs.parts import Parts, Workflow
from runs.registry import NewRun, Run

LEDGER_ID = "ledger of the test"
VERSION = "test"


def _nothing_undoes(action: Action) -> Action:
    raise NotCompensable(f"The kind {action.kind} does not say how.", action=action)


class MemoryLedger:
    """The part of a ledger that driving needs, with its rules: fences by epoch and holder, first decision wins."""

    def __init__(self) -> None:
        self.actions: dict[str, Action] = {}
        self.fences: dict[str, tuple[int, str]] = {}
        self.closed: dict[str, datetime] = {}
        self.asked: list[tuple[str, str]] = []
        self.settle: Callable[[Action], Action] = lambda action: action
        self.undo: Callable[[Action], Action] = _nothing_undoes
        self.reasons: list[str] = []

    def fence(self, run_id: str, epoch: int, *, holder: str) -> Fence:
        self.asked.append(("fence", run_id))
        stands = self.fences.get(run_id, (0, ""))
        if epoch < stands[0] or (epoch == stands[0] and holder != stands[1]):
            raise StaleEpoch("stale", fence_epoch=stands[0])
        self.fences[run_id] = (epoch, holder)
        mine = tuple(a for a in self.actions.values() if a.run_id == run_id)
        return Fence(run_id=run_id, epoch=epoch, holder=holder, closed_at=self.closed.get(run_id), actions=mine)

    def action(self, action_id: str) -> Action:
        self.asked.append(("action", action_id))
        if action_id not in self.actions:
            raise NotFound("There is no such action.")
        return self.actions[action_id]

    def reconcile(self, action_id: str) -> Action:
        self.asked.append(("reconcile", action_id))
        self.actions[action_id] = self.settle(self.actions[action_id])
        return self.actions[action_id]

    def put(self, run_id: str, step: str, status: Status = Status.PREPARED, epoch: int = 1) -> Action:
        """Record an action; what is recorded already stands."""
        if run_id in self.closed:
            raise FenceClosed("closed", closed_at=self.closed[run_id])
        key = ActionKey(run_id, step, "slot")
        now = datetime.now(UTC)
        action = Action(
            action_id=key.action_id,
            run_id=run_id,
            step=step,
            slot="slot",
            rev=1,
            kind="test",
            resource="r",
            params={},
            request_hash=request_hash("test", "r", {}),
            status=status,
            receipt={"ok": True} if status is Status.SUCCEEDED else None,
            epoch=epoch,
            version=1,
            events=1,
            head="0" * 64,
            created_at=now,
            updated_at=now,
        )
        return self.actions.setdefault(action.action_id, action)

    def decide(self, action_id: str, decision: str, **more: Any) -> None:
        action = self.actions[action_id]
        given = Decision(
            decision_id=len(self.actions),
            action_id=action_id,
            decision=decision,
            principal="somebody",
            request_hash=action.request_hash,
            resource=action.resource,
            scope=action.kind,
            decided_at=datetime.now(UTC),
            **more,
        )
        self.actions[action_id] = replace(action, decision=given)

    def close(self, run_id: str) -> None:
        """Close the fence: nothing is recorded any more, and what waits is withdrawn."""
        self.closed.setdefault(run_id, datetime.now(UTC))
        for action in self.recorded(run_id):
            if action.status is Status.PREPARED:
                self.actions[action.action_id] = replace(action, status=Status.WITHDRAWN)

    def close_fence(self, run_id: str, *, reason: str) -> Fence:
        self.asked.append(("close", run_id))
        self.reasons.append(reason)
        self.close(run_id)
        epoch, holder = self.fences.get(run_id, (0, ""))
        return Fence(
            run_id=run_id,
            epoch=epoch,
            holder=holder,
            closed_at=self.closed[run_id],
            closed_reason=reason,
            actions=tuple(self.recorded(run_id)),
        )

    def compensate(self, action_id: str, *, epoch: int) -> Action:
        self.asked.append(("compensate", action_id))
        return self.undo(self.actions[action_id])

    def recorded(self, run_id: str) -> list[Action]:
        """Every action of a run."""
        return [action for action in self.actions.values() if action.run_id == run_id]

    def succeed(self, action_id: str) -> None:
        self.actions[action_id] = replace(self.actions[action_id], status=Status.SUCCEEDED, receipt={"ok": True})


class State(TypedDict, total=False):
    input: dict[str, Any]
    asks: list[str]
    log: list[str]
    delivery: dict[str, Any]
    outcome: str


@dataclass(frozen=True, kw_only=True)
class TestContext:
    """What the nodes of these tests get."""

    __test__ = False

    run_id: str
    epoch: int
    recorder: Any
    ledger: MemoryLedger
    effects: Path | None
    hooks: dict[str, Callable[[Any], None]] = field(default_factory=dict[str, Callable[[Any], None]])

    def at(self, place: str) -> None:
        """A place where a test may do something."""
        if place in self.hooks:
            self.hooks[place](self)

    def effect(self, name: str) -> None:
        """One line in the world: what was done, by which epoch."""
        if self.effects is not None:
            with self.effects.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"effect": name, "epoch": self.epoch, "pid": os.getpid()}) + "\n")


STEPS = ("plan", "analyze", "write_draft", "test")


def build(*, asks_person: bool = False, outcome: str = "published") -> StateGraph[Any, Any, Any, Any]:
    """plan → analyze → write_draft → test → deliver; `deliver` asks a person first where that is wanted."""

    def step(name: str) -> Callable[..., State]:
        def node(state: State, runtime: Runtime[TestContext]) -> State:
            context = runtime.context
            context.recorder.step_started(name)
            context.at(f"in {name}")
            context.effect(name)
            context.recorder.step_finished(name)
            context.at(f"after {name}")
            return {"log": [*state.get("log", []), name]}

        return node

    def deliver(state: State, runtime: Runtime[TestContext]) -> State:
        context = runtime.context
        context.recorder.step_started("deliver")
        action = context.ledger.put(context.run_id, "deliver", epoch=context.epoch)
        context.at("in deliver")
        if asks_person and action.decision is None:
            interrupt({"approval": {"action_id": action.action_id}})
        if outcome == "published":
            context.ledger.succeed(action.action_id)
        context.effect("deliver")
        context.recorder.step_finished("deliver")
        return {
            "log": [*state.get("log", []), "deliver"],
            "outcome": outcome,
            "delivery": {"action_id": action.action_id, "receipt": {"ok": True}},
        }

    graph = StateGraph(State, context_schema=TestContext)
    for name in STEPS:
        graph.add_node(name, step(name))
    graph.add_node("deliver", deliver)
    for source, end in zip((START, *STEPS, "deliver"), (*STEPS, "deliver", END), strict=True):
        graph.add_edge(source, end)
    return graph


def new_run(database: Any, objects: Objects, folder: Path, **more: Any) -> Run:
    """A queued run with a small input."""
    path = folder / f"input-{uuid.uuid4().hex[:6]}.csv"
    path.write_bytes(b"month,revenue\n1,2\n")
    given = {"owner": "alice", "workflow_version": VERSION, "store": "postgres", "ledger": LEDGER_ID, **more}
    return registry.create(database, objects, path, NewRun(**given))


def parts(
    store: Any,
    ledger: MemoryLedger,
    objects: Objects,
    folder: Path,
    *,
    graph: Callable[[], StateGraph[Any, Any, Any, Any]] = build,
    hooks: dict[str, Callable[[Any], None]] | None = None,
    lease_seconds: float = 5.0,
    effects: Path | None = None,
    drain: Drain | None = None,
    **more: Any,
) -> Parts:
    """Parts of a drive with the small graph."""

    @contextmanager
    def make_context(seat: Any) -> Iterator[Any]:
        yield TestContext(
            run_id=seat.run.run_id,
            epoch=seat.epoch,
            recorder=seat.recorder,
            ledger=ledger,
            effects=effects,
            hooks=hooks or {},
        )

    def workflow(version: str) -> Workflow:
        if version != VERSION:
            raise KeyError(version)
        return Workflow(build=graph)

    given: dict[str, Any] = {
        "store": store,
        "open_database": store.database,
        "ledger": ledger,
        "ledger_id": LEDGER_ID,
        "objects_url": objects.url,
        "workflow": workflow,
        "make_context": make_context,
        "check_run": lambda run: None,
        "scratch": folder / "tmp",
        "lease_seconds": lease_seconds,
        "drain": drain or Drain(),
    }
    return Parts(**{**given, **more})


def effects_in(path: Path) -> list[str]:
    """The names of the effects in the world, in order."""
    if not path.exists():
        return []
    return [json.loads(line)["effect"] for line in path.read_text(encoding="utf-8").splitlines()]


def until(condition: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Wait for a condition; what it returned. Fails the test when it does not come."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "the condition did not come"
        time.sleep(0.01)


def is_alive(store: Any) -> Callable[[int], bool]:
    """What a store says of a holder, by its id: whether it lives."""
    if store.kind == "sqlite":
        return lambda holder_id: lock_is_held(store.locks, holder_id)

    def alive(holder_id: int) -> bool:
        with psycopg.connect(store.dsn, options="-c search_path=onward") as connection:
            return connection.execute("select onward_holder_alive(%s)", (holder_id,)).fetchone()[0]

    return alive


def close(holder: Any, store: Any) -> None:
    """End a holder, and wait until the server has noticed (milliseconds, on a machine that is not busy)."""
    holder.close()
    until(lambda: not is_alive(store)(holder.holder_id))


def digest(text: str) -> str:
    """The hex sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
