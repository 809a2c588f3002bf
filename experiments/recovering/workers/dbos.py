"""An executor of DBOS: a durable workflow of five steps, taken from a queue, as its documentation shows it.

Without DBOS Conductor, an executor that starts recovers the pending workflows of its own executor id, and no others.
"""

from __future__ import annotations

import threading
from typing import Any

from dbos import DBOS, DBOSConfig

from experiments.recovering import work
from experiments.recovering.children import Told, told

QUEUE = "work"
WORKFLOW = "five_steps"
VERSION = "1"


def configuration(url: str, executor_id: str) -> DBOSConfig:
    """Defaults, but for what has to be named, and quiet."""
    return {
        "name": "recovering",
        "system_database_url": url,
        "executor_id": executor_id,
        "application_version": VERSION,
        "log_level": "WARNING",
    }


@DBOS.step()
def one_step(run_id: str, number: int) -> int:
    """A step: recorded when it has returned."""
    return work.step(run_id, number, work.post)


@DBOS.workflow(name=WORKFLOW)
def five_steps(run_id: str) -> None:
    """The work."""
    for number in range(1, work.STEPS + 1):
        one_step(run_id, number)


def main(orders: Told) -> None:
    """Be an executor until killed."""
    config: Any = configuration(orders.settings["url"], orders.settings["executor_id"])
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=1)
    orders.is_ready()
    threading.Event().wait()


if __name__ == "__main__":
    main(told(__doc__))
