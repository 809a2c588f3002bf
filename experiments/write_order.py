"""Forces the order in which a super-step's checkpoint and the writes of its tasks become durable.

LangGraph waits for the checkpoint of each super-step, but not for the tasks' writes, which go to a thread pool
(langgraph#8039). The product runs that pool with one thread, so the writes come first. Here each checkpoint comes
first and the writes that it holds follow: the order that the pool may choose when nobody sees to it. A process that
dies in between leaves neither, and the node runs again although its effect has happened.
"""

from __future__ import annotations

import threading
from typing import Any


def install() -> None:
    """In this process: hold the writes back until the next checkpoint of their thread is stored."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver

    for saver in (PostgresSaver, SqliteSaver):
        _checkpoint_first(saver)


def _checkpoint_first(saver: type[Any]) -> None:
    put, put_writes = saver.put, saver.put_writes
    lock = threading.Lock()
    held: list[tuple[Any, ...]] = []

    def putting_writes(self: Any, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        with lock:
            held.append((self, config, writes, task_id, task_path))

    def putting(self: Any, *args: Any) -> Any:
        stored = put(self, *args)
        with lock:
            late, held[:] = list(held), []
        for others in late:
            put_writes(*others)
        return stored

    saver.put, saver.put_writes = putting, putting_writes
