"""The crash points that have a name: around the two effects of a run, as people speak of them.

    before effect      everything is ready; the request that asks for the effect has not left the process
    after effect       the effect has happened and its answer has come back; the graph's checkpoint knows nothing of it
    after checkpoint   the checkpoint that holds the step's result is durable; the next step has not begun

They are moments like all others (`experiments.boundaries` finds them by recording); here they get their names.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from experiments.boundaries import Boundary, Watch

STEPS = ("write_draft", "deliver")  # the steps that change the world
WHENS = ("before effect", "after effect", "after checkpoint")

NAMES = tuple(f"{step}: {when}" for step in STEPS for when in WHENS)


def crash_point(name: str) -> Boundary:
    """The boundary of a crash point. The thread that reaches it is the driver's main one, or its checkpoint writer."""
    role = "background" if name.endswith("checkpoint") else "main"
    return Boundary(role=role, label=name, side="at")


def install(watch: Watch) -> None:
    """Name the crash points of the product's driver in this process."""
    _name_requests(watch)
    _name_answers(watch)
    name_checkpoints(watch)


def _name_requests(watch: Watch) -> None:
    """Before effect: the last moment before the bytes of the request go out."""
    import httpx

    send = httpx.HTTPTransport.handle_request

    def handle_request(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        asks_for_effect = request.method == "PUT" and request.url.path.startswith("/v1/actions/")
        if asks_for_effect and "propose" not in request.url.params:
            watch.point(f"{json.loads(request.content)['step']}: before effect")
        return send(self, request)

    httpx.HTTPTransport.handle_request = handle_request


def _name_answers(watch: Watch) -> None:
    """After effect: the receipt is in this process's hands and nowhere in its graph."""
    from onward_ledger.action import Action, Status
    from tools.action import Actions, Build

    perform = Actions.perform

    def performed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        action = perform(self, step, slot, kind, build, rev=rev)
        if action.status is Status.SUCCEEDED:
            watch.point(f"{step}: after effect")
        return action

    Actions.perform = performed


def name_checkpoints(watch: Watch) -> None:
    """After checkpoint: `put` of the stock checkpointer has returned, so the commit has been acknowledged."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver

    def watched(put: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(put)
        def putting(self: Any, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            stored = put(self, config, checkpoint, metadata, new_versions)
            for step in STEPS:
                if step in checkpoint["versions_seen"]:  # LangGraph's own note of which nodes have run
                    watch.point(f"{step}: after checkpoint")
            return stored

        return putting

    PostgresSaver.put = watched(PostgresSaver.put)
    SqliteSaver.put = watched(SqliteSaver.put)
