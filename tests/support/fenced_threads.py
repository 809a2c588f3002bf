"""A graph on a stock PostgresSaver, in processes that are stopped at its pipelines.

In a module of its own, so that a forked process imports nothing that its fork server has not imported already.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TypedDict

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph

from tests.support.runs_processes import stop_in_pipeline

NODES = ("one", "two")
END_STATE = {"n": len(NODES)}


class State(TypedDict):
    n: int


def builder():
    graph = StateGraph(State)
    previous = START
    for name in NODES:
        graph.add_node(name, lambda state: {"n": state["n"] + 1})
        graph.add_edge(previous, name)
        previous = name
    graph.add_edge(previous, END)
    return graph


def go_on(conninfo, thread_id):
    """Drive the thread to its end: the same call for a new thread and for one that somebody left."""
    config = {"configurable": {"thread_id": thread_id}, "max_concurrency": 1}
    with PostgresSaver.from_conn_string(conninfo) as saver:
        graph = builder().compile(checkpointer=saver)
        given = None if graph.get_state(config).created_at else {"n": 0}
        return graph.invoke(given, config, durability="sync")


def driving(folder, conninfo, thread_id, pipeline, inside):
    """Drive the thread, and be stopped at a pipeline: inside of it, behind its statements, or just before it begins."""
    if inside:
        stop_in_pipeline(pipeline)
    else:
        stop_before_pipeline(pipeline)
    try:
        return {"values": go_on(conninfo, thread_id)}
    except psycopg.Error as error:
        return {"sqlstate": error.sqlstate, "error": str(error)}


def stop_before_pipeline(number):
    original, count = psycopg.Pipeline.__enter__, [0]

    def enter(self):
        count[0] += self.level == 0
        if self.level == 0 and count[0] == number:
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.1)  # the stop reaches the threads one after the other, and this one must not go on before
        return original(self)

    psycopg.Pipeline.__enter__ = enter
