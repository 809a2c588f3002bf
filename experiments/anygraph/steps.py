"""How a thread goes on: one rule over what LangGraph's snapshot says, for invoke and ainvoke alike.

    no checkpoint      invoke with the input
    question open      invoke with its answer; none left: it waits
    task pending       invoke with None: LangGraph runs what is pending
    none of these      finished

`next == ()` is not asked: it is empty also when the writes of a step are durable and its checkpoint is not.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

from experiments.anygraph.answers import Answers, question


@dataclass(frozen=True)
class Invoke:
    """Call the graph with this input; None goes on with what is pending."""

    given: Any


@dataclass(frozen=True)
class Look:
    """Read the thread's state."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a process leaves a thread. `question` is what it waits for, `values` the final state."""

    state: Literal["finished", "waiting", "stuck"]
    values: Any = None
    question: str | None = None
    node: str | None = None


Steps = Generator[Invoke | Look, Any, Ending]


def go_on(given: Any, answers: Answers) -> Steps:
    """Drive the thread as far as it goes."""
    from langgraph.types import Command

    before = object()
    while True:
        snapshot = yield Look()
        if snapshot.created_at is None:
            next_input: Any = given
        elif not snapshot.tasks:
            return Ending(state="finished", values=snapshot.values)
        elif snapshot.interrupts:
            answer = answers.to(snapshot)
            if answer is None:
                return _waiting(snapshot)
            next_input = Command(resume=answer)
        else:
            next_input = None
        now = _place(snapshot)
        if now == before:
            return Ending(state="stuck", node=", ".join(task.name for task in snapshot.tasks))
        before = now
        yield Invoke(next_input)


def once_more() -> Steps:
    """Resume a thread that should be finished, as somebody does who does not know; nothing may execute."""
    yield Invoke(None)
    snapshot = yield Look()
    return Ending(state="finished" if not snapshot.tasks else "stuck", values=snapshot.values)


def _waiting(snapshot: Any) -> Ending:
    asking = [task.name for task in snapshot.tasks if task.interrupts]
    return Ending(state="waiting", question=question(snapshot), node=", ".join(asking))


def _place(snapshot: Any) -> object:
    """Changes whenever a thread gets on."""
    configurable = snapshot.config["configurable"]
    asked = tuple(interrupt.id for interrupt in snapshot.interrupts)
    return (configurable.get("checkpoint_id"), asked) if snapshot.created_at else None


def run(steps: Steps, graph: Any, config: Any, options: dict[str, Any]) -> Ending:
    """With invoke."""
    told: Any = None
    while True:
        try:
            step = steps.send(told)
        except StopIteration as end:
            return end.value
        match step:
            case Look():
                told = graph.get_state(config)
            case Invoke(given):
                told = graph.invoke(given, config, **options)


async def run_async(steps: Steps, graph: Any, config: Any, options: dict[str, Any]) -> Ending:
    """With ainvoke."""
    told: Any = None
    while True:
        try:
            step = steps.send(told)
        except StopIteration as end:
            return end.value
        match step:
            case Look():
                told = await graph.aget_state(config)
            case Invoke(given):
                told = await graph.ainvoke(given, config, **options)
