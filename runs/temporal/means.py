"""What a worker sees to runs with, and how it cancels them: from its settings, as the other commands do."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from runs import local_ledger, registry
from runs.cancelling import Asked
from runs.commands.cancel import ask
from runs.temporal.activities import Canceller
from runs.temporal.tending import Means

if TYPE_CHECKING:
    from onward_ledger import LedgerClient
    from runs.commands.services import Opened
    from runs.temporal.drivers import Drivers


def means_for(opened: Opened, drivers: Drivers, *, versions: frozenset[str], grace_seconds: float) -> Means:
    """The ledger is asked anew each time: it may have been started again elsewhere."""
    settings = opened.settings

    def ledger() -> AbstractContextManager[LedgerClient]:
        return local_ledger.connect(settings)

    return Means(
        database=opened.database,
        ledger=ledger,
        start=drivers.start,
        versions=versions,
        grace_seconds=grace_seconds,
    )


def canceller(opened: Opened) -> Canceller:
    """Cancelling as `onward cancel` asks for it: the row, then the ledger's fence. Whoever drives the run stops it."""

    def cancel(run_id: str, principal: str, reason: str) -> str:
        run, late = ask(opened, registry.get(opened.database, run_id), Asked(principal=principal, reason=reason))
        if late is not None:
            return f"too late: {late.kind} {late.resource} was claimed before"
        return str(run.status)

    return cancel
