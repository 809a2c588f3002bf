"""Cancelling a run, as far as whoever asks for it goes: the request, and what the ledger's fence says of it.

    1  the row        cancel_requested, with who asked and why                            whoever asks
    2  the fence      the ledger's is closed: what was claimed before keeps its outcome,  whoever asks, or a driver
                      what waits is withdrawn, and nothing is claimed any more
    3  the work       ends at its next check; children at once; the process after a grace a living driver
    4  the outcome    nothing is in flight; what happened is taken back, where its kind   a driver, under its epoch
                      says how; then `cancelled`, with a report of what was sent

Three facts (asked for, decided, stopped), each durable before the next. The deciding point is the second. If the action
that decides the run's outcome was claimed before, cancelling came too late, and the run ends by that action. So cancel
and success have one winner, in whatever order anybody dies: each line can be done again, and a driver that finds the
first does the others (see `runs.stopping`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from onward_ledger.action import Action, Status
from onward_ledger.database import Database
from runs import events, registry
from runs.registry import Run


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Who wants a run cancelled, and why."""

    principal: str
    reason: str | None = None

    @property
    def words(self) -> str:
        """For the ledger's fence and the run's message."""
        return f"asked for by {self.principal}" + (f": {self.reason}" if self.reason else "")


def request(database: Database, run: Run, asked: Asked) -> Run:
    """The run, to be cancelled from now on: the intent is durable, whatever happens to whoever asks.

    The first request stands. A run that has ended meanwhile is returned as it is.
    """
    while not (run.finished or run.status is registry.Status.CANCEL_REQUESTED):
        with database.transaction() as tx:
            tx.send("lock_run", run_id=run.run_id)
            if registry.move(tx, run, "request_cancel", reason="cancelled", message=f"Cancelling, {asked.words}"):
                data = {"principal": asked.principal, "reason": asked.reason}
                events.send(tx, run.run_id, "cancel_requested", data)
        run = registry.get(database, run.run_id)
    return run


def who_asked(database: Database, run_id: str) -> Asked | None:
    """Who wants the run cancelled; None where only the ledger's fence says so."""
    rows = database.read("last_event", run_id=run_id, kind="cancel_requested")
    return Asked(**rows[0]["data"]) if rows else None


def decides(action: Action) -> bool:
    """Whether this is the action that the outcome of an analysis hangs on: the publication, in the step `deliver`."""
    return action.step.partition("#")[0] == "deliver" and not action.key.is_undo


def too_late(actions: Iterable[Action], decides: Callable[[Action], bool] = decides) -> Action | None:
    """The action by which the run ends because it was claimed before the fence was closed, once it is settled."""
    settled = [a for a in actions if a.status in (Status.SUCCEEDED, Status.FAILED) and decides(a)]
    return settled[-1] if settled else None
