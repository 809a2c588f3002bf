"""A worker of plain Procrastinate: the job is the whole work, and jobs of stalled workers are retried, as its docs say.

A job has no steps that are recorded, so one that is retried begins anew. Who looks for stalled jobs is up to the user:
here a loop beside each worker, once a second, since a periodic task would itself be a job of a worker that may be gone.
"""

from __future__ import annotations

import asyncio
from typing import Any

import procrastinate
from procrastinate.connector import BaseConnector

from experiments.recovering import work
from experiments.recovering.children import Told, told

LOOK_EVERY_SECONDS = 1.0
QUEUE = "work"
TASK = "five-steps"


def application(connector: BaseConnector) -> procrastinate.App:
    """The app with its one task; also for whoever defers."""
    app = procrastinate.App(connector=connector)

    @app.task(name=TASK, queue=QUEUE)
    def five_steps(run_id: str) -> None:
        for number in range(1, work.STEPS + 1):
            work.step(run_id, number, work.post)

    assert five_steps.name == TASK
    return app


async def _retry_stalled(app: procrastinate.App, stalled_after_seconds: float | None) -> None:
    """The recipe "retry stalled jobs" of Procrastinate's documentation, as a loop."""
    given: dict[str, Any] = {}
    if stalled_after_seconds is not None:
        given["seconds_since_heartbeat"] = stalled_after_seconds
    while True:
        for job in await app.job_manager.get_stalled_jobs(**given):
            await app.job_manager.retry_job(job)
        await asyncio.sleep(LOOK_EVERY_SECONDS)


async def _serve(orders: Told) -> None:
    app = application(procrastinate.PsycopgConnector(conninfo=orders.settings["dsn"]))
    async with app.open_async():
        reaper = asyncio.create_task(_retry_stalled(app, orders.settings["stalled_after_seconds"]))
        orders.is_ready()
        await app.run_worker_async(queues=[QUEUE], concurrency=1, **orders.settings["worker"])
        reaper.cancel()


if __name__ == "__main__":
    asyncio.run(_serve(told(__doc__)))
