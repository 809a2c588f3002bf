"""Where a process can be killed, and how it notices that it passes such a point.

A point is (step, when). For a step with an effect there are three, as in the experiment that this one repeats:

    before effect      everything is ready; the request that asks for the effect has not left the process
    after effect       the effect has happened and its answer has come back; the graph's checkpoint knows nothing of it
    after checkpoint   the checkpoint that holds the step's result is durable; the next step has not begun

`watch` finds them by wrapping the classes that every process of a run goes through anyway: the HTTP transport, the door
to the world (`tools.action.Actions`), the stock checkpointers, the five nodes. It is installed in a process that an
experiment started, never in the product.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from experiments.story import COMMITTED, EXECUTE, REUSE, Story

When = Literal["before effect", "after effect", "after checkpoint"]

# How the story tells of a crash there.
WORDS: dict[When, str] = {
    "before effect": "before effect, its request not sent",
    "after effect": "after effect commit, before graph checkpoint",
    "after checkpoint": "after graph checkpoint, before the next step",
}

STEPS = ("write_draft", "deliver")  # the steps that change the world
NODES = ("plan", "analyze", "write_draft", "test", "deliver")


@dataclass(frozen=True, kw_only=True)
class Point:
    """A place in a run where a process can be killed."""

    step: str
    when: When

    def __str__(self) -> str:
        return f"{self.step}: {self.when}"


POINTS = tuple(Point(step=step, when=when) for step in STEPS for when in WORDS)

Passing = Callable[[Point], None]


def watch(story: Story, passing: Passing) -> None:
    """Make this process tell its story, and call `passing` at every point that it passes."""
    _watch_nodes(story)
    _watch_requests(passing)
    _watch_actions(story, passing)
    _watch_checkpoints(passing)


def receipt_name(kind: str, receipt: dict[str, Any]) -> str:
    """A receipt in one word, the same for the same receipt: `draft-7854be0b31d5`, `report-…`."""
    import hashlib

    text = json.dumps(receipt, sort_keys=True, ensure_ascii=False)
    return f"{kind.partition('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _watch_nodes(story: Story) -> None:
    """EXECUTE lines. The graph is built after this, so it takes the wrapped functions."""
    from graph import nodes

    def telling(name: str, node: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(node)
        def run(*args: Any, **kwargs: Any) -> Any:
            story.tell(EXECUTE + name)
            return node(*args, **kwargs)

        return run

    for name in NODES:
        setattr(nodes, name, telling(name, getattr(nodes, name)))


def _watch_requests(passing: Passing) -> None:
    """Before effect: the last moment before the bytes of the request go out."""
    import httpx

    send = httpx.HTTPTransport.handle_request

    def handle_request(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        asks_for_effect = request.method == "PUT" and request.url.path.startswith("/v1/actions/")
        if asks_for_effect and "propose" not in request.url.params:
            passing(Point(step=json.loads(request.content)["step"], when="before effect"))
        return send(self, request)

    httpx.HTTPTransport.handle_request = handle_request


def _watch_actions(story: Story, passing: Passing) -> None:
    """TOOL lines, and after effect: the receipt is in this process's hands and nowhere in its graph."""
    from onward_ledger.action import Action, Status
    from tools.action import Actions, Build

    perform = Actions.perform

    def watched(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        action = perform(self, step, slot, kind, build, rev=rev)
        if action.status is Status.SUCCEEDED:
            word = REUSE if action.replayed else COMMITTED
            story.tell(word + receipt_name(kind, action.receipt or {}))
            passing(Point(step=step, when="after effect"))
        return action

    Actions.perform = watched


def _watch_checkpoints(passing: Passing) -> None:
    """After checkpoint: `put` of the stock checkpointer has returned, so the commit has been acknowledged."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver

    def watched(put: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(put)
        def putting(self: Any, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            stored = put(self, config, checkpoint, metadata, new_versions)
            for step in STEPS:
                if step in checkpoint["versions_seen"]:  # LangGraph's own note of which nodes have run
                    passing(Point(step=step, when="after checkpoint"))
            return stored

        return putting

    PostgresSaver.put = watched(PostgresSaver.put)
    SqliteSaver.put = watched(SqliteSaver.put)
