"""The negative control: an activity of Temporal's that does its effect itself does it twice when it is killed.

The same kill as in test_temporal.py, between the effect and the record of it. Temporal retries the activity, as it
promises: at least once.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.support.runs_processes import Child, pause_at
from tests.support.runs_world import effects_in

pytestmark = pytest.mark.exhaustive

pytest_plugins = ("tests.support.temporal_fixtures",)

QUEUE = "plain"


@workflow.defn
class PlainPayment:
    """One effect, the plain way."""

    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(
            "pay", start_to_close_timeout=timedelta(seconds=60), heartbeat_timeout=timedelta(seconds=1)
        )


def serving(folder: Path, address: str, effects: Path, pauses: bool) -> dict[str, Any]:
    """A worker whose activity pays. With `pauses` it stops between the payment and its record."""

    @activity.defn(name="pay")
    def pay() -> str:
        activity.heartbeat()
        with effects.open("a") as world:
            world.write('{"effect": "payment"}\n')
        if pauses:
            pause_at(folder, "paid")
        return "paid"

    async def serve() -> None:
        client = await Client.connect(address)
        with ThreadPoolExecutor(1) as pool:
            await Worker(
                client,
                task_queue=QUEUE,
                workflows=[PlainPayment],
                activities=[pay],
                activity_executor=pool,
                workflow_runner=UnsandboxedWorkflowRunner(),
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
            ).run()

    asyncio.run(serve())
    return {"pid": os.getpid()}


def test_negative_control_a_plain_activity_pays_twice(temporal_address, tmp_path):
    effects = tmp_path / "effects"

    async def order() -> None:
        client = await Client.connect(temporal_address)
        await client.start_workflow(PlainPayment.run, id="payment", task_queue=QUEUE)

    async def outcome() -> str:
        return await (await Client.connect(temporal_address)).get_workflow_handle("payment").result()

    asyncio.run(order())
    first = Child(serving, tmp_path / "first", temporal_address, effects, True)
    first.reached("paid")
    first.kill()
    second = Child(serving, tmp_path / "second", temporal_address, effects, False)
    assert asyncio.run(outcome()) == "paid"
    second.kill()
    assert effects_in(effects) == ["payment", "payment"]
