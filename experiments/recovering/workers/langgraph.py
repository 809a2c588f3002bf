"""A process that begins or resumes threads of plain LangGraph with its Postgres checkpointer, each time it is called.

Nobody resumes a thread of LangGraph by itself: whoever has its id calls. A call is a datagram with the id.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver

from experiments.recovering import work
from experiments.recovering.children import Told, told
from experiments.recovering.graph import five_steps


def main(orders: Told) -> None:
    """Answer calls until killed: go on where the thread is, to its end, and leave a file that says so."""
    calls = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    address = Path(orders.settings["address"])
    address.unlink(missing_ok=True)
    calls.bind(str(address))
    with PostgresSaver.from_conn_string(orders.settings["dsn"]) as saver:
        graph = five_steps(lambda run_id, _: work.post(run_id)).compile(checkpointer=saver)
        orders.is_ready()
        while True:
            run_id = calls.recv(100).decode()
            config: Any = {"configurable": {"thread_id": run_id}}
            begun = graph.get_state(config).created_at is not None
            graph.invoke(None if begun else {"done": []}, config, durability="sync")
            (address.parent / f"{run_id}.ended").touch()


if __name__ == "__main__":
    main(told(__doc__))
