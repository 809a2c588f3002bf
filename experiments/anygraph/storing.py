"""LangGraph's writes to its store as roles of their own, whichever thread does them.

Which thread stores a result is chance: the one that computed it, or one that was free. What is stored is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

CHECKPOINT, RESULTS = "LangGraph, storing a checkpoint", "LangGraph, storing results"
_METHODS = {"put": CHECKPOINT, "put_writes": RESULTS, "aput": CHECKPOINT, "aput_writes": RESULTS}

_current: ContextVar[str | None] = ContextVar("storing", default=None)


def role() -> str | None:
    """The role of whoever stores something now."""
    return _current.get()


def install() -> None:
    """Watch the stock checkpointers, and let aiosqlite's thread know who has asked it."""
    import aiosqlite
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    for cls in (PostgresSaver, SqliteSaver):
        for name in ("put", "put_writes"):
            setattr(cls, name, _in_role(_METHODS[name], getattr(cls, name)))
    for cls in (AsyncPostgresSaver, AsyncSqliteSaver):
        for name in ("aput", "aput_writes"):
            setattr(cls, name, _in_role_async(_METHODS[name], getattr(cls, name)))
    aiosqlite.Connection._execute = _with_context(aiosqlite.Connection._execute)  # pyright: ignore[reportPrivateUsage] - the one way into its thread


def _in_role(role: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def storing(*args: Any, **kwargs: Any) -> Any:
        before = _current.set(role)
        try:
            return method(*args, **kwargs)
        finally:
            _current.reset(before)

    return storing


def _in_role_async(role: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def storing(*args: Any, **kwargs: Any) -> Any:
        before = _current.set(role)
        try:
            return await method(*args, **kwargs)
        finally:
            _current.reset(before)

    return storing


def _with_context(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    def executing(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return execute(self, functools.partial(copy_context().run, function), *args, **kwargs)

    return executing
