"""What a worker sees to runs with, from its settings."""

from __future__ import annotations

import contextlib
import subprocess
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from graph.versions import SERVED
from runs import local_ledger, registry
from runs.commands.driving import Driver as DriverProcess
from runs.registry import Status
from runs.temporal.activities import Canceller
from runs.temporal.tending import Means

if TYPE_CHECKING:
    from onward_ledger import LedgerClient
    from runs.commands.services import Opened
    from runs.settings import Settings


class ProcessDriver:
    """See `runs.temporal.tending.Driver`: `python -m runs.driver`, its own words in `drivers.log`."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._driver = DriverProcess(settings, run_id)
        self.pid = self._driver.process.pid

    def has_ended(self, within_seconds: float) -> bool:
        """See Driver.has_ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._driver.process.wait(within_seconds)
        return self._driver.process.returncode is not None

    def drain(self) -> None:
        """See Driver.drain."""
        self._driver.process.terminate()

    def kill(self) -> None:
        """See Driver.kill."""
        self._driver.process.kill()

    def told(self) -> str:
        """See Driver.told."""
        return self._driver.ended().message

    def close(self) -> None:
        """See Driver.close."""
        self._driver.close()


def means_for(opened: Opened, *, grace_seconds: float) -> Means:
    """Drivers are processes of this software with these settings; the ledger is asked anew each time."""
    settings = opened.settings

    def ledger() -> AbstractContextManager[LedgerClient]:
        return local_ledger.connect(settings)

    return Means(
        database=opened.database,
        ledger=ledger,
        start=lambda run_id: ProcessDriver(settings, run_id),
        versions=frozenset(SERVED),
        grace_seconds=grace_seconds,
    )


def canceller(opened: Opened) -> Canceller:
    """Cancelling as `onward cancel` does it."""

    def cancel(run_id: str, principal: str, reason: str) -> str:
        run = registry.get(opened.database, run_id)
        if run.finished:
            return f"The run has ended: {run.status}."
        with local_ledger.connect(opened.settings) as ledger:
            ledger.close_fence(run_id, principal=principal, reason=reason)
        if run.status is not Status.CANCEL_REQUESTED:
            registry.transition(opened.database, run, "request_cancel", reason="cancelled", message=reason)
        return "Cancelling is requested."

    return cancel
