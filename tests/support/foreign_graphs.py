"""Graphs as somebody else writes them, in a file of their own that runs load. Effects are lines in a file.

Plain functions at the top are imported by nobody: the text of this module is copied into a project of a test.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

WORLD = Path(os.environ.get("WORLD", "world"))  # beside the working directory of whoever runs it


def act(what: str) -> None:
    """An effect."""
    with WORLD.open("a") as file:
        file.write(f"{what}\n")


@dataclasses.dataclass
class Order:
    """A class of theirs in the state."""

    number: int
    lines: list[str]


class State(TypedDict, total=False):
    """Their state."""

    order: Order
    log: Annotated[list[str], lambda old, new: [*old, *new]]
    answer: Any


def begin(state: State) -> State:
    act("begin")
    return {"order": Order(7, ["tea"]), "log": [f"begin for {state.get('answer')}"]}


def work(state: State) -> State:
    assert isinstance(state["order"], Order), type(state["order"])
    act("work")
    return {"log": ["work"]}


def ask(state: State) -> State:
    return {"answer": interrupt({"question": "pay?", "order": state["order"]})}


def ask_twice(state: State) -> State:
    return {"log": [f"{interrupt('first?')} then {interrupt('second?')}"]}


async def work_async(state: State) -> State:
    await asyncio.sleep(0)
    act("work_async")
    return {"log": ["work_async"]}


def raises(state: State) -> State:
    raise ValueError("the oven is cold")


def chain(*nodes: Any) -> StateGraph[State]:
    """A graph of these nodes, one after the other."""
    built = StateGraph(State)
    before = START
    for node in nodes:
        built.add_node(node.__name__, node)
        built.add_edge(before, node.__name__)
        before = node.__name__
    built.add_edge(before, END)
    return built


graph = chain(begin, work)
asking = chain(begin, ask, work).compile()
twice = chain(begin, ask_twice)
running_async = chain(begin, work_async)
broken = chain(begin, raises)
careful = chain(begin, work).compile(interrupt_before=["work"])
behind = chain(begin, work).compile(interrupt_after=["begin"])

both = StateGraph(State)
both.add_node("left", lambda state: {"log": [f"left {interrupt('left?')}"]})
both.add_node("right", lambda state: {"log": [f"right {interrupt('right?')}"]})
both.add_edge(START, "left")
both.add_edge(START, "right")


def choose(state: State) -> str:
    raise ConnectionError("no answer from the shop")


routed = StateGraph(State)
routed.add_node("begin", begin)
routed.add_node("work", work)
routed.add_edge(START, "begin")
routed.add_conditional_edges("begin", choose, ["work"])


@task
def brew(what: str) -> str:
    act(f"brew {what}")
    return f"{what} is ready"


@entrypoint()
def functional(wish: str) -> str:
    done = brew(wish).result()
    return f"{done}, {interrupt('sugar?')}"


async def make_graph(config: Any) -> Any:
    """A function that makes a graph, as a langgraph.json may name."""
    return chain(begin, work)


inner = chain(begin).compile(checkpointer=InMemorySaver())
outer = StateGraph(State)
outer.add_node("inner", inner)
outer.add_edge(START, "inner")
stops_inside = StateGraph(State)
stops_inside.add_node("inner", chain(begin).compile(interrupt_before=["begin"]))
stops_inside.add_edge(START, "inner")
no_graph = 5
