"""Runs the refund on LangGraph's own checkpointer, as its documentation says: `python run.py 7`, again to go on."""

import os
import sys

from langgraph.checkpoint.postgres import PostgresSaver
from safe import graph as builder

from onward_ledger.langgraph import fence

url, order_id = os.environ["DATABASE_URL"], sys.argv[1]
thread_id = f"refund of {order_id}"
config = {"configurable": {"thread_id": thread_id}, "max_concurrency": 1}

with PostgresSaver.from_conn_string(url) as saver:
    saver.setup()
fence.install(url)
epoch = fence.take(url, thread_id)
with PostgresSaver.from_conn_string(fence.fenced(url, thread_id, epoch)) as saver:
    graph = builder.compile(checkpointer=saver)
    began = graph.get_state(config).created_at is not None
    print(graph.invoke(None if began else {"order_id": order_id}, config, durability="sync"))
