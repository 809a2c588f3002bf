"""A worker of Temporal: a workflow of five activities that send heartbeats, as its documentation shows it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():  # the sandbox of workflows would import these anew
    from experiments.recovering import work
    from experiments.recovering.children import Told, told

QUEUE = "work"
HEARTBEAT_SECONDS = 2.0
# The most that one activity may take; whatever is above the work will do where there are heartbeats.
ACTIVITY_SECONDS = 30.0


@activity.defn
def one_step(run_id: str, number: int) -> int:
    """A step; it says at once that it lives."""
    activity.heartbeat()
    return work.step(run_id, number, work.post)


@workflow.defn
class FiveSteps:
    """The work. Retries are those of Temporal's defaults."""

    @workflow.run
    async def run(self, run_id: str) -> None:
        """Five activities, one after the other."""
        for number in range(1, work.STEPS + 1):
            await workflow.execute_activity(
                one_step,
                args=[run_id, number],
                start_to_close_timeout=timedelta(seconds=ACTIVITY_SECONDS),
                heartbeat_timeout=timedelta(seconds=HEARTBEAT_SECONDS),
            )


async def _serve(orders: Told) -> None:
    client = await Client.connect(orders.settings["address"])
    with ThreadPoolExecutor(max_workers=2) as threads:
        async with Worker(
            client, task_queue=QUEUE, workflows=[FiveSteps], activities=[one_step], activity_executor=threads
        ):
            orders.is_ready()
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(told(__doc__)))
