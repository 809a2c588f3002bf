"""The same graphs on plain LangGraph, as its documentation shows it: stock `PostgresSaver`, `durability="sync"`.

Taken away is what Onward adds: no run row, no lease, no fence, no events, and a node performs its effect by itself. The
draft's objects are put under their keys and the publication is one row, as the ledger's providers do them, so that
both sides change the world alike.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver

from experiments.baselines.plain import SilentRecorder, unkept
from experiments.benchmarks.graphs import Graph
from experiments.benchmarks.product import ASKS, NAME, workbook
from experiments.benchmarks.services import Services
from graph.build import RECURSION_LIMIT
from graph.context import Context
from graph.models import OfflineAnalyst
from onward_ledger.action import Action, Status
from onward_ledger.objects import Objects
from tools.action import Actions, Build
from tools.files import Files
from tools.query import QueryServer

Durability = Literal["sync", "async", "exit"]


class DirectActions(Actions):
    """Performs every effect where it is asked for, and remembers nothing."""

    def __init__(self, run_id: str, objects: Objects, connection: psycopg.Connection[Any]) -> None:
        self._run_id = run_id
        self._objects = objects
        self._connection = connection

    def perform(self, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        """The draft's objects to their keys; or one publication."""
        resource, params = build()
        if kind == "draft.save":
            for item in params["objects"]:
                data = self._objects.read_checked(item["source"], item["digest"])
                self._objects.put_once(f"{resource}/{item['name']}", data)
        else:
            for item in params["objects"]:
                self._objects.read_checked(item["key"], item["digest"])
            self._connection.execute(
                "insert into publications (resource, digest, params) values (%s, %s, %s)",
                (resource, params["digest"], json.dumps(params)),
            )
        return unkept(self._run_id, step, slot, kind, resource, params, Status.SUCCEEDED, {"digest": params["digest"]})

    def propose(self, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        """Whoever started the run has approved the publication."""
        resource, params = build()
        return unkept(self._run_id, step, slot, kind, resource, params, Status.PREPARED, None)


@dataclass(frozen=True, kw_only=True)
class Plain:
    """Plain LangGraph on the same server and in the same folder of objects."""

    dsn: str
    objects: Objects
    effects: psycopg.Connection[Any]
    scratch: Path

    def begin(self) -> dict[str, Any]:
        """A new thread's id, and the reference to its staged input."""
        thread_id = str(uuid.uuid4())
        return {"thread_id": thread_id, "name": NAME, **Files(self.objects, thread_id).put(workbook())}

    @contextmanager
    def set_up(self) -> Generator[PostgresSaver]:
        """What a process sets up before it invokes: its connection, and a look whether all tables are there."""
        with PostgresSaver.from_conn_string(self.dsn) as saver:
            saver.setup()
            yield saver

    def drive(
        self,
        begun: dict[str, Any],
        saver: PostgresSaver,
        build: Callable[[], Graph],
        *,
        steps: int = RECURSION_LIMIT,
        durability: Durability = "sync",
    ) -> None:
        """Compile and invoke."""
        thread_id = begun["thread_id"]
        given = {"input": {name: begun[name] for name in ("name", "key", "digest", "size")}, "asks": list(ASKS)}
        config: Any = {"configurable": {"thread_id": thread_id}, "recursion_limit": steps + 10}
        with self._context(thread_id) as context:
            graph = build().compile(checkpointer=saver)
            graph.invoke(given, config, context=context, durability=durability)

    @contextmanager
    def _context(self, thread_id: str) -> Generator[Context]:
        scratch = self.scratch / thread_id
        scratch.mkdir(parents=True)
        with ExitStack() as stack:
            started: list[QueryServer] = []

            def queries() -> QueryServer:
                if not started:
                    started.append(stack.enter_context(QueryServer()))
                return started[0]

            yield Context(
                run_id=thread_id,
                epoch=0,
                principal="benchmark",
                actions=DirectActions(thread_id, self.objects, self.effects),
                files=Files(self.objects, thread_id),
                recorder=SilentRecorder(),
                model=OfflineAnalyst(),
                scratch=scratch,
                queries=queries,
            )


@contextmanager
def plain(services: Services) -> Generator[Plain]:
    """Plain LangGraph in this process, its tables made."""
    with psycopg.connect(services.plain_dsn, autocommit=True) as effects:
        effects.execute(
            "create table if not exists publications (publication_id bigint generated always as identity primary key,"
            " resource text not null, digest text not null, params json not null)"
        )
        theirs = Plain(
            dsn=services.plain_dsn,
            objects=Objects((services.folder / "plain-objects").as_uri()),
            effects=effects,
            scratch=services.folder / "plain-tmp",
        )
        with theirs.set_up():
            yield theirs
