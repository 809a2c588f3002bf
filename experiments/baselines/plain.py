"""The control: the same five nodes on plain LangGraph, as its documentation shows it.

Same graph, same workbook, same stock checkpointer with `durability="sync"`, resumed by the original thread id. Taken
away is what Onward adds: a node performs its effect by itself instead of asking the ledger, and nothing fences the
checkpoints. The provider does what it is told, like a mail server: its world is the oracle's log.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.boundaries import Watch
from experiments.narrator import receipt_name
from experiments.oracle import Oracle
from experiments.story import COMMITTED, Story
from graph.context import Context
from graph.state import InputRef
from onward_ledger.action import Action, ActionKey, Decision, Status, request_hash
from onward_ledger.objects import Objects
from tools.action import Actions, Build


@dataclass(frozen=True, kw_only=True)
class PlainRun:
    """One run of the control. `dsn` is a Postgres connection string, or the path of an SQLite file."""

    thread_id: str
    store: str
    dsn: str
    objects: Path
    input: InputRef
    asks: tuple[str, ...]
    scratch: Path
    oracle: Oracle


class DirectActions(Actions):
    """Performs every effect where it is asked for. Remembers nothing: a node that runs again performs it again."""

    def __init__(self, run: PlainRun, objects: Objects, story: Story, watch: Watch) -> None:
        self._run = run
        self._objects = objects
        self._story = story
        self._watch = watch

    def perform(self, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        """Do it: the draft's files to their keys, and one entry at the provider."""
        resource, params = build()
        self._watch.point(f"{step}: before effect")
        for item in params["objects"]:
            if "source" in item:
                self._objects.put_once(f"{resource}/{item['name']}", self._objects.read(item["source"]))
        with self._watch.operation("the effect"):
            entry = self._run.oracle.record(
                run_id=self._run.thread_id, kind=kind, resource=resource, digest=params["digest"]
            )
        receipt = {"entry": entry, "digest": params["digest"]}
        self._story.tell(COMMITTED + receipt_name(kind, receipt))
        self._watch.point(f"{step}: after effect")
        return unkept(self._run.thread_id, step, slot, kind, resource, params, Status.SUCCEEDED, receipt)

    def propose(self, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        """Whoever started the run has approved the publication."""
        resource, params = build()
        return unkept(self._run.thread_id, step, slot, kind, resource, params, Status.PREPARED, None)


def unkept(
    run_id: str,
    step: str,
    slot: str,
    kind: str,
    resource: str,
    params: dict[str, Any],
    status: Status,
    receipt: dict[str, Any] | None,
) -> Action:
    """What the nodes read of an action. It is kept nowhere."""
    now, key = datetime.now(UTC), ActionKey(run_id, step, slot)
    decision = Decision(
        decision_id=0,
        action_id=key.action_id,
        decision="approve",
        principal="the control",
        request_hash=request_hash(kind, resource, params),
        resource=resource,
        scope=kind,
        decided_at=now,
    )
    return Action(
        action_id=key.action_id,
        run_id=run_id,
        step=step,
        slot=slot,
        rev=1,
        kind=kind,
        resource=resource,
        params=params,
        request_hash=decision.request_hash,
        status=status,
        receipt=receipt,
        epoch=0,
        version=1,
        events=0,
        head="",
        created_at=now,
        updated_at=now,
        decision=decision,
    )


class SilentRecorder:
    """A recorder (see `graph.context.Recorder`) that records nothing: plain LangGraph has no run history."""

    def check(self) -> None:
        """Nothing can be lost."""

    def step_started(self, step: str) -> int:
        """Attempts are not counted."""
        return 1

    def step_finished(self, step: str) -> None:
        """Nothing to note."""

    def progress(self, step: str, text: str, *, done: int | None = None, total: int | None = None) -> None:
        """Nobody follows."""

    def model_call_started(self, step: str, model: str) -> str:
        """A new id, as the protocol asks."""
        return str(uuid.uuid4())

    def model_call_finished(
        self,
        call_id: str,
        *,
        finish_reason: str | None,
        input_tokens: int | None,
        output_tokens: int | None,
        cost_usd: float | None,
    ) -> None:
        """Nothing to note."""

    def receipt(self, action: Action, *, replayed: bool) -> None:
        """Nothing to note."""


def drive(run: PlainRun, story: Story, watch: Watch) -> str:
    """Begin the run, or resume it by its thread id; the outcome in the final state."""
    from graph.build import RECURSION_LIMIT, build
    from graph.models import OfflineAnalyst
    from tools.files import Files
    from tools.query import QueryServer

    objects = Objects(str(run.objects))
    run.scratch.mkdir(parents=True, exist_ok=True)
    with open_plain_saver(run.store, run.dsn) as saver, QueryServer() as queries:
        context = Context(
            run_id=run.thread_id,
            epoch=0,
            principal="the control",
            actions=DirectActions(run, objects, story, watch),
            files=Files(objects, run.thread_id),
            recorder=SilentRecorder(),
            model=OfflineAnalyst(),
            scratch=run.scratch,
            queries=lambda: queries,
        )
        graph = build().compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": run.thread_id}, "recursion_limit": RECURSION_LIMIT}
        begun = graph.get_state(config).created_at is not None
        given: Any = None if begun else {"input": run.input, "asks": list(run.asks)}
        graph.invoke(given, config, context=context, durability="sync")
        return str(graph.get_state(config).values.get("outcome"))


@contextmanager
def open_plain_saver(store: str, dsn: str) -> Generator[Any]:
    """The stock checkpointer of either store, with its tables made."""
    if store == "sqlite":
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(dsn, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver
    else:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(dsn) as saver:
            saver.setup()
            yield saver
