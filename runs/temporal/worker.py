"""The worker: `onward temporal worker`. It serves workflows and drives runs, each in a process of its own.

Workflows and `cancel` come over one task queue that all workers serve; drives over one for each workflow version that
this software has. SIGTERM: takes nothing new, drains its drivers at the next super-step, kills them after the grace
period. SIGKILL: its drivers die with it, and another worker goes on once its heartbeats are missed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from runs.errors import Exit, ServiceUnreachable
from runs.temporal.activities import LONGEST_PACE_SECONDS, Activities
from runs.temporal.values import drives_queue
from runs.temporal.workflow import RunWorkflow

# A workflow's next step is offered to the worker that had the last one first. That one may be dead: then to any.
STICKY_SECONDS = 1.0
# Behind the grace period: the time to write down how a killed driver left its run.
AFTERMATH_SECONDS = 5.0
OTHERS_AT_ONCE = 2


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a worker serves. `concurrency`: drives at once, for each workflow version."""

    queue: str
    versions: frozenset[str]
    concurrency: int
    grace_seconds: float


class NotEnded(ServiceUnreachable):
    """Temporal does not answer, so a worker that shall end cannot take its leave."""


async def serve(
    client: Client, activities: Activities, service: Service, on_ready: Callable[[asyncio.Event], None]
) -> None:
    """Serve until the event is set that `on_ready` is given once everything is connected. Raises NotEnded."""
    stop = asyncio.Event()
    threads = service.concurrency * len(service.versions) + OTHERS_AT_ONCE
    with ThreadPoolExecutor(threads, thread_name_prefix="activity") as pool:
        workers = _workers(client, activities, service, pool)
        running = [asyncio.create_task(worker.run()) for worker in workers]
        on_ready(stop)
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait([asked, *running], return_when=asyncio.FIRST_COMPLETED)
        leaving = [asyncio.create_task(worker.shutdown()) for worker in workers]
        _, left = await asyncio.wait([*running, *leaving], timeout=service.grace_seconds + 2 * AFTERMATH_SECONDS)
        if left:
            raise NotEnded("Temporal did not answer while this worker was ending; it ends all the same.")
        await asyncio.gather(*running)


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and Ctrl-C set the event; a second one ends the process at once, and its drivers with it.

    For the main thread, inside of its loop.
    """

    def asked() -> None:
        if stop.is_set():
            os._exit(Exit.HANDED_BACK)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked)


def _workers(client: Client, activities: Activities, service: Service, pool: ThreadPoolExecutor) -> list[Worker]:
    grace = timedelta(seconds=service.grace_seconds + AFTERMATH_SECONDS)
    deciding = Worker(
        client,
        task_queue=service.queue,
        workflows=[RunWorkflow],
        activities=[activities.cancel, activities.look],
        activity_executor=pool,
        max_concurrent_activities=OTHERS_AT_ONCE,
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
            max_heartbeat_throttle_interval=timedelta(seconds=LONGEST_PACE_SECONDS),
        )
        for version in sorted(service.versions)
    ]
    return [deciding, *driving]
