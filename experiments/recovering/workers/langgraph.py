"""A process that begins or resumes one thread of plain LangGraph with its Postgres checkpointer, then ends.

Nobody resumes a thread of LangGraph by itself: whoever has its id calls.
"""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver

from experiments.recovering import work
from experiments.recovering.children import Told, told
from experiments.recovering.graph import five_steps


def main(orders: Told) -> None:
    """Go on where the thread is, to its end."""
    run_id = orders.settings["run_id"]
    with PostgresSaver.from_conn_string(orders.settings["dsn"]) as saver:
        graph = five_steps(lambda run_id, _: work.post(run_id)).compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": run_id}}
        begun = graph.get_state(config).created_at is not None
        orders.is_ready()
        graph.invoke(None if begun else {"done": []}, config, durability="sync")


if __name__ == "__main__":
    main(told(__doc__))
