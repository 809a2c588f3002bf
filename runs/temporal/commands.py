"""`onward temporal worker`, `start` and `signal`: the settings, the row, and then Temporal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from runs.commands.answer import exit_code_of, view_of, write_run
from runs.commands.output import Format, say, write_json
from runs.commands.services import found, opened, settings_for
from runs.errors import ServiceUnreachable, UsageError
from runs.temporal.values import DEFAULT_QUEUE, Cancel, Order

if TYPE_CHECKING:
    from runs.settings import StoreKind
    from runs.temporal.client import Where

T = TypeVar("T")

MISSING = "Driving runs under Temporal needs the package temporalio. Install it with: uv sync --group temporal"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the command line says of Temporal."""

    address: str | None = None
    namespace: str | None = None
    queue: str = DEFAULT_QUEUE

    def where(self) -> Where:
        """Raises UsageError when the package is missing."""
        try:
            from runs.temporal.client import Where
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "temporalio":
                raise
            raise UsageError(MISSING) from error
        return Where(address=self.address, namespace=self.namespace)


def _talk(conversation: Coroutine[Any, Any, T]) -> T:
    """Have a conversation with Temporal. Raises ServiceUnreachable when it breaks off."""
    from temporalio.service import RPCError

    try:
        return asyncio.run(conversation)
    except RPCError as error:
        raise ServiceUnreachable(f"Temporal answered with an error: {error.message}") from error


def worker(place: Place, *, concurrency: int, grace: float, store: StoreKind | None, output: Format) -> int:
    """See `onward temporal worker`."""
    where = place.where()
    from graph.versions import SERVED
    from runs.temporal.activities import Activities
    from runs.temporal.client import connect
    from runs.temporal.means import canceller, means_for
    from runs.temporal.worker import Service, serve

    service = Service(queue=place.queue, versions=frozenset(SERVED), concurrency=concurrency, grace_seconds=grace)

    def ready() -> None:
        about = {"pid": os.getpid(), "versions": sorted(service.versions), "concurrency": concurrency}
        if output == "json":
            write_json({**about, "queue": place.queue})
        else:
            say(f"Worker {about['pid']} serves the queue {place.queue}: {concurrency} drives at once.")

    async def go() -> None:
        await serve(await connect(where), activities, service, ready)

    with opened(settings_for(store)) as here:
        activities = Activities(means_for(here, grace_seconds=grace), canceller(here))
        _talk(go())
    return 0


def start(
    run_id: str, place: Place, *, wait: bool, heartbeat: float, poll: float, store: StoreKind | None, output: Format
) -> int:
    """See `onward temporal start`."""
    where = place.where()
    from runs.temporal import client

    with found(run_id, store) as (here, run):
        order = Order(
            run_id=run.run_id,
            workflow_version=run.workflow_version,
            queue=place.queue,
            heartbeat_seconds=heartbeat,
            poll_seconds=poll,
        )

        async def go() -> None:
            handle = await client.start(await client.connect(where), order)
            say(f"The workflow {order.run_id} runs; a worker of the queue {order.queue} drives it.")
            if wait:
                await handle.result()

        _talk(go())
        if not wait:
            return 0
        write_run(view_of(here, run.run_id), output)
        from runs import registry

        return exit_code_of(registry.get(here.database, run.run_id))


def signal(
    run_id: str, word: Literal["decided", "cancel"], place: Place, *, reason: str, store: StoreKind | None
) -> int:
    """See `onward temporal signal`."""
    where = place.where()
    from runs.temporal import client

    with found(run_id, store) as (here, run):
        asked = Cancel(principal=here.settings.principal, reason=reason)

        async def go() -> None:
            temporal = await client.connect(where)
            if word == "cancel":
                await client.signal_cancel(temporal, run.run_id, asked)
            else:
                await client.signal_decided(temporal, run.run_id)

        _talk(go())
    say(f"The workflow {run.run_id} was told: {word}.")
    return 0
