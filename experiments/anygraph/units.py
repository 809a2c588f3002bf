"""Their nodes, tasks and tools as operations of a Watch: a process can be killed before each and right after it.

Right after is the moment that matters: the function has returned, its effects have happened, and LangGraph has not
begun to store its result. The hooks are LangGraph's own runner of one task (`run_with_retry`, which nodes, subgraphs
and `@task` functions all pass) and the base class of tools. Which unit does something is kept in a context variable:
LangGraph hands contexts on to its threads, so a boundary knows its unit in threads and coroutines alike.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from experiments import boundaries
from experiments.anygraph import storing
from experiments.boundaries import Watch

UnitKind = Literal["node", "task", "tool"]
Outcome = Literal["returned", "interrupted", "raised"]

THREADS = {"main": "LangGraph", "background": "LangGraph, a thread"}
NODE, TOOL = "node", "tool "  # labels of operations
FRESH = frozenset(
    {"uuid1", "uuid4", "token_hex", "token_urlsafe", "randint", "random", "now", "utcnow", "time", "time_ns"}
)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What is being executed: `path` names it (`agent/tools`), `role` also tells apart those that run side by side.

    `task` is LangGraph's id, the same for the same piece of work in another process; `step` its super-step. `fresh`
    names what its function calls that is new each time: uuid4, now.
    """

    path: str
    role: str
    kind: UnitKind
    task: str
    step: int = 0
    fresh: tuple[str, ...] = ()


class Observer(Protocol):
    """Is told of every unit. May wait: nothing of the unit has begun, or all of it is done."""

    def entered(self, unit: Unit) -> None:
        """It begins."""
        ...

    def left(self, unit: Unit, outcome: Outcome) -> None:
        """It is over."""
        ...


_current: ContextVar[Unit | None] = ContextVar("unit", default=None)


def role_of(thread: threading.Thread) -> str:
    """For a Watch: LangGraph's store or the unit that does it; outside of both, the thread as elsewhere."""
    unit, name = _current.get(), boundaries.role_of(thread)
    return storing.role() or (unit.role if unit is not None else THREADS.get(name, f"a thread, {name}"))


def install(watch: Watch, observer: Observer) -> None:
    """Watch LangGraph and LangChain's tools in this process."""
    from langchain_core.tools import BaseTool
    from langgraph.pregel import _runner as runner

    storing.install()
    hooks = _Hooks(watch, observer)
    runner.run_with_retry = hooks.running(runner.run_with_retry)
    runner.arun_with_retry = hooks.running_async(runner.arun_with_retry)
    BaseTool.run = hooks.calling(BaseTool.run)
    BaseTool.arun = hooks.calling_async(BaseTool.arun)


class _Hooks:
    def __init__(self, watch: Watch, observer: Observer) -> None:
        self._watch = watch
        self._observer = observer

    def running(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def watched(task: Any, *args: Any, **kwargs: Any) -> Any:
            with self._unit(_of_task(task), NODE):
                return run(task, *args, **kwargs)

        return watched

    def running_async(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        async def watched(task: Any, *args: Any, **kwargs: Any) -> Any:
            with self._unit(_of_task(task), NODE):
                return await run(task, *args, **kwargs)

        return watched

    def calling(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def watched(tool: Any, *args: Any, **kwargs: Any) -> Any:
            with self._unit(_of_tool(tool), TOOL + str(tool.name)):
                return run(tool, *args, **kwargs)

        return watched

    def calling_async(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        async def watched(tool: Any, *args: Any, **kwargs: Any) -> Any:
            with self._unit(_of_tool(tool), TOOL + str(tool.name)):
                return await run(tool, *args, **kwargs)

        return watched

    @contextmanager
    def _unit(self, unit: Unit | None, label: str) -> Generator[None]:
        if unit is None:
            yield
            return
        before = _current.set(unit)
        try:
            with self._watch.operation(label):
                self._observer.entered(unit)
                try:
                    yield
                except BaseException as error:
                    self._observer.left(unit, _outcome(error))
                    raise
                self._observer.left(unit, "returned")
        finally:
            _current.reset(before)


def _of_task(task: Any) -> Unit | None:
    """The unit of a PregelExecutableTask. LangGraph's own first task, which takes the input in, is none."""
    if task.name == "__start__":
        return None
    path: Sequence[Any] = task.path
    called = len(path) > 3 and path[3] is True  # a function under @task; its path holds the number of the call
    pushed = path[0] == "__pregel_push"
    number = (path[2] if called else path[1]) if pushed else 0
    unit = _below(task.name, "task" if called else "node", task.id, number if isinstance(number, int) else 0)
    step = (task.config.get("metadata") or {}).get("langgraph_step", 0)
    return replace(unit, step=step, fresh=_fresh(_function_of(task.proc)))


def _of_tool(tool: Any) -> Unit:
    above = _current.get()
    unit = _below(str(tool.name), "tool", above.task if above else "")
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    return replace(unit, step=above.step if above else 0, fresh=_fresh(function))


def _below(name: str, kind: UnitKind, task: str, number: int = 0) -> Unit:
    above = _current.get()
    path, role = (f"{above.path}/", f"{above.role}/") if above else ("", "")
    numbered = f"{name} #{number + 1}" if number else name
    return Unit(path=path + name, role=role + numbered, kind=kind, task=task)


def _function_of(proc: Any) -> Any:
    """What a node or task runs, out of LangGraph's wrapping."""
    first = proc.steps[0] if getattr(proc, "steps", None) else proc
    return getattr(first, "func", None) or getattr(first, "afunc", None)


def _fresh(function: Any) -> tuple[str, ...]:
    """Names in its code that stand for something new each time. A hint for advice, no proof."""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return tuple(name for name in code.co_names if name in FRESH) if code is not None else ()


def _outcome(error: BaseException) -> Outcome:
    from langgraph.errors import GraphInterrupt

    return "interrupted" if isinstance(error, GraphInterrupt) else "raised"
