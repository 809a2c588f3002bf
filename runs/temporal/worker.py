"""The worker: `onward temporal worker`. It serves workflows and drives runs, each in a process of its own.

Workflows and `cancel` come over one task queue that all workers serve; drives over one for each workflow version that
this software has. SIGTERM: takes nothing new, drains its drivers at the next super-step, kills them after the grace
period. SIGKILL: its drivers die with it, and another worker goes on once its heartbeats are missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from runs.temporal.activities import Activities
from runs.temporal.values import drives_queue
from runs.temporal.workflow import RunWorkflow

# A workflow's next step is offered to the worker that had the last one first. That one may be dead: then to any.
STICKY_SECONDS = 1.0
# Behind the grace period: the time to write down how a killed driver left its run.
AFTERMATH_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a worker serves. `concurrency`: drives at once, for each workflow version."""

    queue: str
    versions: frozenset[str]
    concurrency: int
    grace_seconds: float


async def serve(client: Client, activities: Activities, service: Service, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called once everything is connected."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    threads = service.concurrency * len(service.versions) + 2
    with ThreadPoolExecutor(threads, thread_name_prefix="activity") as pool:
        async with contextlib.AsyncExitStack() as stack:
            for worker in _workers(client, activities, service, pool):
                await stack.enter_async_context(worker)
            ready()
            await stop.wait()


def _workers(client: Client, activities: Activities, service: Service, pool: ThreadPoolExecutor) -> list[Worker]:
    grace = timedelta(seconds=service.grace_seconds + AFTERMATH_SECONDS)
    deciding = Worker(
        client,
        task_queue=service.queue,
        workflows=[RunWorkflow],
        activities=[activities.cancel],
        activity_executor=pool,
        max_concurrent_activities=2,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=STICKY_SECONDS),
        graceful_shutdown_timeout=grace,
    )
    driving = [
        Worker(
            client,
            task_queue=drives_queue(service.queue, version),
            activities=[activities.drive],
            activity_executor=pool,
            max_concurrent_activities=service.concurrency,
            graceful_shutdown_timeout=grace,
        )
        for version in sorted(service.versions)
    ]
    return [deciding, *driving]
