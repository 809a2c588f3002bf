"""What travels through Temporal between the workflow, its activities and whoever signals it: small JSON values.

Temporal keeps them in its own database. So they name a run and say how it stands; they carry no content of it.
"""

from __future__ import annotations

from dataclasses import dataclass

WORKFLOW = "onward.run"
DRIVE = "onward.drive"
LOOK = "onward.look"
CANCEL = "onward.cancel"
DECIDED = "decided"

DEFAULT_QUEUE = "onward"


def drives_queue(queue: str, workflow_version: str) -> str:
    """The task queue of drives of one workflow version: only workers that have the version serve it."""
    return f"{queue}-{workflow_version}"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a workflow is started with.

    heartbeat_seconds: a worker of which nothing is heard for so long is taken for dead, and another one drives.
    poll_seconds: how often a run that waits for a person, or for a worker of its version, is looked at: a signal may be
        lost, and a run may have another version by now.
    """

    run_id: str
    workflow_version: str
    queue: str = DEFAULT_QUEUE
    heartbeat_seconds: float = 5.0
    poll_seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What a drive is asked for. `signalled`: somebody said that there is news, so providers may be asked too."""

    run_id: str
    signalled: bool


@dataclass(frozen=True, kw_only=True)
class Cancel:
    """Somebody wants a run to stop for good. `principal` is asserted by whoever sends the signal."""

    principal: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CancelOrder:
    """What the activity `cancel` is asked for."""

    run_id: str
    principal: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Left:
    """How a run stands when nobody drives it, as its row says.

    ended: nothing is left to do.
    wake_seconds: the row says to go on by itself after this time; null when a person has to do something first.
    """

    run_id: str
    status: str
    reason: str | None
    message: str | None
    workflow_version: str
    epoch: int
    ended: bool
    wake_seconds: float | None
