"""Small graphs of every kind that LangGraph has. Each has effects: lines in a file of the thread.

Importing this prints, and leaves a thread and an open connection behind, as modules of people do.
"""

from __future__ import annotations

import asyncio
import operator
import os
import sqlite3
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import httpx
import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt

sys.stdout.write("their module prints when it is imported\n")
threading.Thread(target=threading.Event().wait, name="left behind").start()
CONNECTION = sqlite3.connect(":memory:")
WORLD = Path(os.environ.get("ANYGRAPH_WORLD", "."))


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    token: str


def effect(config: RunnableConfig, line: str, *, once: bool = False) -> None:
    """Append a line to the thread's file; `once` looks first, as a provider with keys does."""
    file = WORLD / f"{config['configurable']['thread_id']}.txt"
    if once and file.exists() and line in file.read_text().splitlines():
        return
    with file.open("a") as out:
        out.write(f"{line}\n")


def send(state: State, config: RunnableConfig) -> State:
    effect(config, "sent")
    return {"done": ["send"], "token": uuid.uuid4().hex}


def rest(state: State) -> State:
    return {"done": ["rest"]}


def line_of(*nodes: Any, state: Any = State) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(state)
    for before, node in zip((START, *(node.__name__ for node in nodes)), nodes, strict=False):
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
    builder.add_edge(nodes[-1].__name__, END)
    return builder


# --- a builder, something compiled, factories -------------------------------------------------------------------------

builder = line_of(send, rest)
compiled = builder.compile(checkpointer=InMemorySaver())


def factory(checkpointer: Any) -> Any:
    return builder.compile(checkpointer=checkpointer)


def bare_factory() -> Any:
    return builder


async def async_factory() -> Any:
    return compiled


def failing_factory() -> Any:
    raise RuntimeError("no model configured")


def factory_of_nothing() -> Any:
    return 5


nothing = 5


class Stubborn(StateGraph[Any, Any, Any, Any]):
    def compile(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("it is compiled elsewhere")


stubborn = Stubborn(State)


# --- async ------------------------------------------------------------------------------------------------------------


async def send_async(state: State, config: RunnableConfig) -> State:
    await asyncio.sleep(0)
    effect(config, "sent")
    return {"done": ["send_async"]}


only_async = line_of(send_async, rest).compile()


# --- parallel ---------------------------------------------------------------------------------------------------------


def left(state: State, config: RunnableConfig) -> State:
    effect(config, "left")
    return {"done": ["left"]}


def right(state: State, config: RunnableConfig) -> State:
    effect(config, "right", once=True)
    return {"done": ["right"]}


def worker(state: dict[str, int], config: RunnableConfig) -> State:
    effect(config, f"worker {state['n']}")
    return {"done": [f"worker {state['n']}"]}


def spread(state: State) -> list[Send]:
    return [Send("worker", {"n": n}) for n in range(2)]


careful = line_of(right)

parallel = StateGraph(State)
parallel.add_node(left)
parallel.add_node(right)
parallel.add_edge(START, "left")
parallel.add_edge(START, "right")

fan_out = StateGraph(State)
fan_out.add_node(worker)
fan_out.add_conditional_edges(START, spread, ["worker"])


# --- subgraph ---------------------------------------------------------------------------------------------------------

subgraph = StateGraph(State)
subgraph.add_node("inner", line_of(send).compile())
subgraph.add_edge(START, "inner")


# --- functional -------------------------------------------------------------------------------------------------------


@task
def pay(amount: int, config: RunnableConfig) -> int:
    effect(config, f"paid {amount}")
    return amount


@entrypoint(checkpointer=InMemorySaver())
def functional(amounts: list[int], config: RunnableConfig) -> dict[str, int]:
    effect(config, "began")
    return {"paid": sum(pay(amount).result() for amount in amounts)}


@task
async def pay_async(amount: int, config: RunnableConfig) -> int:
    effect(config, f"paid {amount}")
    return amount


@entrypoint()
async def async_functional(amounts: list[int]) -> int:
    return sum(await asyncio.gather(*(pay_async(amount) for amount in amounts)))


def pays(state: State) -> State:
    return {"done": [str(pay(amount).result()) for amount in (1, 2)]}


def pays_too(state: State) -> State:
    return {"done": [str(pay(3).result())]}


tasks_in_nodes = StateGraph(State)
tasks_in_nodes.add_node(pays)
tasks_in_nodes.add_node(pays_too)
tasks_in_nodes.add_edge(START, "pays")
tasks_in_nodes.add_edge(START, "pays_too")


# --- interrupts -------------------------------------------------------------------------------------------------------


def ask_after(state: State, config: RunnableConfig) -> State:
    effect(config, "told the manager")
    return {"done": [interrupt({"amount": 7}), interrupt("sure?")]}


asking = line_of(ask_after).compile()


def ask_left(state: State) -> State:
    return {"done": [f"left {interrupt('left?')}"]}


def ask_right(state: State) -> State:
    return {"done": [f"right {interrupt('right?')}"]}


two_questions = StateGraph(State)
two_questions.add_node(ask_left)
two_questions.add_node(ask_right)
two_questions.add_node(right)
two_questions.add_edge(START, "ask_left")
two_questions.add_edge(START, "ask_right")
two_questions.add_edge(["ask_left", "ask_right"], "right")


# --- context and configuration ----------------------------------------------------------------------------------------


@dataclass
class Context:
    tenant: str


def with_context(state: State, config: RunnableConfig, runtime: Runtime[Context]) -> State:
    effect(config, f"{runtime.context.tenant} {config['configurable']['colour']}")
    return {"done": [runtime.context.tenant]}


contextual = StateGraph(State, context_schema=Context)
contextual.add_node(with_context)
contextual.add_edge(START, "with_context")


# --- effects elsewhere ------------------------------------------------------------------------------------------------


def post(state: State, config: RunnableConfig) -> State:
    httpx.post(f"{os.environ['ANYGRAPH_HTTP']}/sent", json=config["configurable"]["thread_id"])
    return {"done": ["post"]}


over_http = line_of(post)


async def insert(state: State, config: RunnableConfig) -> State:
    async with await psycopg.AsyncConnection.connect(os.environ["ANYGRAPH_POSTGRES"], autocommit=True) as connection:
        thread_id = config["configurable"]["thread_id"]
        await connection.execute("insert into sent (thread_id, what) values (%s, 'mail')", (thread_id,))
    return {"done": ["insert"]}


in_postgres = line_of(insert)


# --- what can go wrong otherwise --------------------------------------------------------------------------------------


def background(state: State, config: RunnableConfig) -> State:
    """Takes a marker for the effect: lost when it dies between the two."""
    marker = WORLD / f"{config['configurable']['thread_id']}.marker"
    if not marker.exists():
        marker.touch()
        effect(config, "sent")
    return {"done": ["background"]}


losing = line_of(background)


def strict(state: State, config: RunnableConfig) -> State:
    """Refuses to do it twice, instead of taking what is there for success."""
    (WORLD / f"{config['configurable']['thread_id']}.txt").open("x").write("once\n")
    return {"done": ["strict"]}


sticking = line_of(strict)


def first_time(state: State, config: RunnableConfig) -> State:
    """Its result says whether it was the first time."""
    before = (WORLD / f"{config['configurable']['thread_id']}.txt").exists()
    effect(config, "sent", once=True)
    return {"done": ["again" if before else "first"]}


differing = line_of(first_time)


def first_run_only(state: State, config: RunnableConfig) -> State:
    """Opens a file in the first of all runs, and in no other."""
    if not (WORLD / "opened").exists():
        with (WORLD / "opened").open("w") as file:
            file.write("once")
    effect(config, "sent", once=True)
    return {"done": ["first_run_only"]}


varying = line_of(first_run_only)


def silent(state: State) -> State:
    return {"done": ["silent"]}


without_effects = line_of(silent)


def failing(state: State) -> State:
    raise ValueError("no such order: 7")


broken = line_of(failing)


def count(thread_id: str) -> int:
    """For `--effects python:…`."""
    file = WORLD / f"{thread_id}.txt"
    return len(file.read_text().splitlines()) if file.exists() else 0


def count_all() -> list[str]:
    """Of all threads: what comes between before and after belongs to the one that runs."""
    return [line for file in sorted(WORLD.glob("*.txt")) for line in file.read_text().splitlines()]


def count_badly(thread_id: str) -> str:
    return "many"
