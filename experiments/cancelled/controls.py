"""Two planted defects of cancelling. A judgement that lets one of them pass proves nothing.

no fence     `cancelled` is written, and the ledger's fence is not closed
not too late what was claimed before the fence was closed is taken for nothing
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from experiments.story import Story
from experiments.workload import Onward, Role, drive_onward
from onward_ledger.values import Fence
from runs import stopping
from runs.settings import Settings


class NoFence(Onward):
    """Drivers that take an open fence for a closed one."""

    def __init__(self) -> None:
        super().__init__()
        self.work = drive_without_fence


class NotTooLate(Onward):
    """Drivers to which no cancel comes too late."""

    def __init__(self) -> None:
        super().__init__()
        self.work = drive_never_too_late


def drive_without_fence(story: Story, run_id: str, settings: Settings, role: Role) -> str:
    """The life of such a driver."""

    def closed(stop: stopping.Stop) -> Fence:
        return replace(stop.announce(), closed_at=datetime.now(UTC))

    stopping._closed = closed  # pyright: ignore[reportPrivateUsage] - a mutant reaches inside
    return drive_onward(story, run_id, settings, role)


def drive_never_too_late(story: Story, run_id: str, settings: Settings, role: Role) -> str:
    """The life of such a driver."""

    def never(actions: Any, decides: Any) -> None:
        return None

    stopping.too_late = never
    return drive_onward(story, run_id, settings, role)
