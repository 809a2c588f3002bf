"""`onward temporal worker`, `start` and `signal`: the settings, the row, and then Temporal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import closing
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


def worker(
    place: Place, *, concurrency: int, grace: float, graph: str | None, store: StoreKind | None, output: Format
) -> int:
    """See `onward temporal worker`. Raises UsageError for a store that is not Postgres."""
    where = place.where()
    from runs.commands.work import tell
    from runs.temporal.activities import Activities
    from runs.temporal.client import connect
    from runs.temporal.drivers import Drivers
    from runs.temporal.means import canceller, means_for
    from runs.temporal.worker import NotEnded, Service, serve, stop_on_signals
    from runs.worker import postgres_store

    versions = frozenset(_versions(graph))
    service = Service(queue=place.queue, versions=versions, concurrency=concurrency, grace_seconds=grace)

    def on_ready(stop: asyncio.Event) -> None:
        stop_on_signals(stop)
        tell(f"Worker {os.getpid()}: ready for {concurrency} runs at once of workflow version {', '.join(versions)}.")
        if output == "json":
            about = {"pid": os.getpid(), "queue": place.queue, "versions": sorted(versions)}
            write_json({**about, "concurrency": concurrency})

    with opened(settings_for(store)) as here, closing(Drivers(here.settings, graph)) as drivers:
        postgres_store(here.settings)
        drivers.warm_up()
        means = means_for(here, drivers, versions=versions, grace_seconds=grace)
        activities = Activities(means, canceller(here))

        async def go() -> None:
            client = await connect(where)
            try:
                await serve(client, activities, service, on_ready)
            except NotEnded as error:
                tell(error.message)
                os._exit(error.exit_code)  # what waits for an answer cannot be interrupted; drivers end with us

        _talk(go())
    return 0


def _versions(graph: str | None) -> tuple[str, ...]:
    if graph is None:
        from graph.versions import SERVED

        return tuple(SERVED)
    from runs.foreign.serving import versions_of

    return versions_of(graph)


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

        if run.finished:
            say(f"The run {run.run_id} is finished: {run.status}. No workflow is started.")
        else:
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
