"""The control: what plain LangGraph does when the checkpoint of one version meets the graph of the other.

The head of a waiting run is copied into memory, with its pending question, and resumed with the new graph. Nothing is
called that belongs to Onward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from experiments.upgrading import second
from onward_ledger.database import Database
from runs.checkpoints import serializer
from runs.joined import head_of, saver_in


@dataclass(frozen=True, kw_only=True)
class Control:
    """What came of it. `waited`: it was at a question. `finished`: nothing is left to do. `outcome`: the state's."""

    waited: bool
    finished: bool
    outcome: str | None
    error: str | None

    @property
    def went_wrong(self) -> bool:
        """Whether the run passes for finished, or breaks, without having come to an outcome."""
        return self.waited and self.outcome is None and (self.finished or self.error is not None)


def resumed_plainly(database: Database, run_id: str) -> Control:
    """Resume a waiting run of version "1" with the graph of version "2", in memory."""
    config: Any = {"configurable": {"thread_id": run_id, "checkpoint_ns": ""}}
    memory = InMemorySaver(serde=serializer())
    with database.reading() as tx, saver_in(tx) as saver:
        saved = head_of(saver, run_id)
    assert saved is not None
    head = memory.put(config, saved.checkpoint, saved.metadata, saved.checkpoint["channel_versions"])
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in saved.pending_writes or []:
        by_task.setdefault(task, []).append((channel, value))
    for task, writes in by_task.items():
        memory.put_writes(head, writes, task)
    waited = any(channel == "__interrupt__" for writes in by_task.values() for channel, _ in writes)
    graph = second.build().compile(checkpointer=memory)
    error = None
    try:
        graph.invoke(Command(resume={"decision": "approve"}), config)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    snapshot = graph.get_state(config)
    values = cast(dict[str, Any], snapshot.values)
    return Control(waited=waited, finished=not snapshot.next, outcome=values.get("outcome"), error=error)
