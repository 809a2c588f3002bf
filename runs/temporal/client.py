"""Speaking to Temporal: where it is, starting a run's workflow, and signalling it.

Address, namespace, API key and TLS are those of Temporal's own tools: `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE` and the
rest, or a profile in its configuration file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from runs.errors import RunNotFound, ServiceUnreachable
from runs.temporal.values import DECIDED, WORKFLOW, Cancel, Left, Order

DEFAULT_ADDRESS = "localhost:7233"


@dataclass(frozen=True, kw_only=True)
class Where:
    """Which Temporal: what is null comes from Temporal's own settings."""

    address: str | None = None
    namespace: str | None = None


async def connect(where: Where) -> Client:
    """A client. Raises ServiceUnreachable."""
    config: dict[str, Any] = {"target_host": DEFAULT_ADDRESS, **ClientConfig.load_client_connect_config()}
    given = {"target_host": where.address, "namespace": where.namespace}
    config |= {name: value for name, value in given.items() if value is not None}
    try:
        return await Client.connect(**config)
    except RuntimeError as error:
        raise unreachable(config["target_host"], error) from error


def unreachable(address: str, error: Exception) -> ServiceUnreachable:
    """Temporal does not answer."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return ServiceUnreachable(f"Temporal at {address} does not answer: {first}. Start it, or set TEMPORAL_ADDRESS.")


async def start(client: Client, order: Order) -> WorkflowHandle[Any, Left]:
    """Start the workflow of a run. One that runs is used as it is; one that has ended is begun again, and looks."""
    return await client.start_workflow(
        WORKFLOW,
        order,
        id=order.run_id,
        task_queue=order.queue,
        result_type=Left,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    )


async def signal_decided(client: Client, run_id: str) -> None:
    """Say that somebody has decided, or settled an unknown outcome."""
    await _signal(client, run_id, DECIDED)


async def signal_cancel(client: Client, run_id: str, asked: Cancel) -> None:
    """Cancel a run for good."""
    await _signal(client, run_id, "cancel", asked)


async def _signal(client: Client, run_id: str, name: str, *values: object) -> None:
    try:
        await client.get_workflow_handle(run_id).signal(name, args=values)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise RunNotFound(
                f"No workflow of the run {run_id} is open in Temporal. Start it: onward temporal start {run_id}"
            ) from error
        raise
