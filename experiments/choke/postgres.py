"""Exchanges with Postgres: everything that psycopg sends and waits for goes through `Connection.wait`.

The calls that users make are too many, and miss what matters: in a run of five nodes `Pipeline.sync` is called 0 times,
while the commits are the exits of 13 pipelines. A wait that never has to wait exchanged nothing (a commit where no
transaction is open) and is taken back.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from experiments.boundaries import Watch

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_WRITE = re.compile(
    r"(?<!for )(?<!key )\b(insert(?: or \w+)? into|delete from|update) (?!set\b|nowait\b|skip\b|of\b)\"?([\w.]+)",
    re.IGNORECASE,
)
_PREPOSITION = {"insert": " into", "delete": " from", "update": ""}
_READ = re.compile(r"\bfrom \"?([\w.]+)", re.I)
# A new connection prepares its statements. Nothing outside of the session is changed or shown by it, so a kill there is
# a kill before the exchange that follows; and which thread is the first to use a connection is chance.
PREPARING = "prepare"

_PREPARED = re.compile(r"\bexecute (\w+)", re.IGNORECASE)
_CALL = re.compile(r"select ([\w.]+)\s*\(", re.I)

# What the generators do that are no statements, by the names that psycopg gives them.
_GENERATORS = {
    ("Connection", "_commit_gen"): "commit",
    ("Connection", "_rollback_gen"): "rollback",
    ("Transaction", "_enter_gen"): "begin",
    ("Transaction", "_exit_gen"): "end of transaction",
    ("Pipeline", "_enter_gen"): "enter pipeline",
    ("Pipeline", "_exit_gen"): "exit pipeline",
    ("Pipeline", "_sync_gen"): "sync pipeline",
    ("Pipeline", "_fetch_gen"): "answer of a pipeline",
}


def install(watch: Watch) -> None:
    """Watch psycopg in this process, sync and async."""
    import psycopg

    for cls in (psycopg.Connection, psycopg.AsyncConnection):
        cls.connect = classmethod(_connecting(watch, cls.connect.__func__))  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    psycopg.connect = psycopg.Connection.connect  # a name of its own for what stood there at import
    psycopg.Connection.wait = _waiting(watch, psycopg.Connection.wait)
    psycopg.AsyncConnection.wait = _waiting_async(watch, psycopg.AsyncConnection.wait)


def statement_label(query: object) -> str:
    """A statement in a few words: `insert into checkpoints`, `select from runs`, `select pg_advisory_lock`.

    Of a statement with several parts the last one that writes counts; else the last one that is prepared, by its name.
    """
    text = query.decode(errors="replace") if isinstance(query, bytes) else str(query)
    text = " ".join(_COMMENT.sub(" ", text).split())
    if text.lower().startswith("prepare "):
        return PREPARING
    if writes := _WRITE.findall(text):
        verb, table = writes[-1]
        return f"{verb.split()[0].lower()}{_PREPOSITION[verb.split()[0].lower()]} {table.lower()}"
    if prepared := _PREPARED.findall(text):
        return f"execute {prepared[-1]}"
    if called := _CALL.match(text):
        return f"select {called[1].lower()}"
    if read := _READ.search(text):
        return f"select from {read[1].lower()}"
    return text[:40].lower() or "empty query"


def label_of(gen: Generator[Any, Any, Any]) -> str:
    """What a generator that nobody has started yet is going to send."""
    frame = getattr(gen, "gi_frame", None)  # a generator of C code has none
    variables: dict[str, Any] = frame.f_locals if frame is not None else {}
    if "query" in variables:
        return statement_label(variables["query"])
    owner = type(variables.get("self")).__name__.removeprefix("Async").removeprefix("Base")
    name = getattr(gen, "__name__", "exchange")
    return _GENERATORS.get((owner, name), name.strip("_").removesuffix("_gen").replace("_", " "))


def _connecting(watch: Watch, connect: Callable[..., Any]) -> Callable[..., Any]:
    if _is_async(connect):

        @functools.wraps(connect)
        async def connected_async(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
            with watch.operation("connect to Postgres"):
                return await connect(cls, *args, **kwargs)

        return connected_async

    @functools.wraps(connect)
    def connected(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        with watch.operation("connect to Postgres"):
            return connect(cls, *args, **kwargs)

    return connected


def _is_async(function: Callable[..., Any]) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function)


class _Exchange:
    """A generator of psycopg's with an eye on it: one that never yields did not wait for anything."""

    def __init__(self, gen: Generator[Any, Any, Any]) -> None:
        self._gen = gen
        self.waited = False

    def forward(self) -> Generator[Any, Any, Any]:
        """The same generator."""
        answer: Any = None
        while True:
            try:
                wanted = self._gen.send(answer)
            except StopIteration as end:
                return end.value
            self.waited = True
            try:
                answer = yield wanted
            except BaseException as error:  # psycopg throws in here what interrupts it
                self._gen.throw(error)
                raise


def _waiting(watch: Watch, wait: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wait)
    def waiting(self: Any, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        if (label := label_of(gen)) == PREPARING:
            return wait(self, gen, *args, **kwargs)
        operation, exchange = watch.begin(label), _Exchange(gen)
        try:
            return wait(self, exchange.forward(), *args, **kwargs)
        finally:
            operation.end(real=exchange.waited)

    return waiting


def _waiting_async(watch: Watch, wait: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @functools.wraps(wait)
    async def waiting(self: Any, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        if (label := label_of(gen)) == PREPARING:
            return await wait(self, gen, *args, **kwargs)
        operation, exchange = watch.begin(label), _Exchange(gen)
        try:
            return await wait(self, exchange.forward(), *args, **kwargs)
        finally:
            operation.end(real=exchange.waited)

    return waiting
