"""Waking a run that waits for a person: has the ledger the answer that it waits for?

The ledger holds decisions and resolutions; a run only looks. So nothing is lost when whoever decided dies before it
tells the run: the driver looks once more after it has written `waiting_human`, and every `resume` looks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from onward_ledger.action import Action, Status
from onward_ledger.database import Database
from onward_ledger.errors import InProgress, NotFound
from onward_ledger.values import Fence
from runs import registry
from runs.registry import Run

UNKNOWN_OUTCOME = "unknown_outcome"


class Ledger(Protocol):
    """What driving needs of the ledger's client."""

    def fence(self, run_id: str, epoch: int, *, holder: str) -> Fence:
        """Announce an epoch; what is recorded for the run."""
        ...

    def action(self, action_id: str) -> Action:
        """One action, with its decision."""
        ...

    def reconcile(self, action_id: str) -> Action:
        """Settle an action in flight or unknown as far as its provider can tell."""
        ...

    def close_fence(self, run_id: str, *, reason: str) -> Fence:
        """Nothing is claimed for the run any more; what waits to be sent is withdrawn."""
        ...

    def compensate(self, action_id: str, *, epoch: int) -> Action:
        """Take back an effect that happened; NotCompensable where nothing says how."""
        ...


def decision_of(ledger: Ledger, action_id: str, now: datetime) -> dict[str, Any] | None:
    """The decision on an action as JSON, if there is one that counts: whole, and not run out before it was used."""
    try:
        decision = ledger.action(action_id).decision
    except NotFound:
        return None
    if decision is None or decision.is_half:
        return None
    if decision.consumed_at is None and decision.expires_at is not None and decision.expires_at <= now:
        return None
    return decision.to_json()


def is_answered(ledger: Ledger, reason: str | None, action_ids: Iterable[str], now: datetime) -> bool:
    """Whether the ledger's records hold what a run waits for: a decision, or the end of an unknown outcome.

    It only reads. A driver looks here once more after it has written `waiting_human`; if that had the provider asked
    again, a provider that can look but not perform would keep the run going round for ever.
    """
    if reason == UNKNOWN_OUTCOME:
        return any(ledger.action(action_id).status is not Status.UNKNOWN for action_id in action_ids)
    return any(decision_of(ledger, action_id, now) is not None for action_id in action_ids)


def wake_if_decided(database: Database, ledger: Ledger, run: Run) -> Run:
    """Queue a waiting run if the ledger holds an answer for it; the run as it stands then.

    A person asks for this (`resume`), so about an unknown outcome the provider is asked once more: it may have been
    away before. Harmless for a run that does not wait, and when several do it at once.
    """
    if run.status is not registry.Status.WAITING_HUMAN:
        return run
    if run.kind == registry.FOREIGN:
        return _wake_foreign(database, run)
    action_ids = waits_for(database, run.run_id)
    if run.reason == UNKNOWN_OUTCOME:
        for action_id in action_ids:
            with suppress(InProgress):  # somebody performs it now: its answer will settle it
                ledger.reconcile(action_id)
    if not is_answered(ledger, run.reason, action_ids, database.now()):
        return run
    return registry.queue_decided(database, run.run_id)


def _wake_foreign(database: Database, run: Run) -> Run:
    """Somebody's graph: an unknown outcome is asked about by the guard in it, which only runs when the graph does."""
    if run.reason == UNKNOWN_OUTCOME:
        return registry.queue_decided(database, run.run_id)
    from runs.foreign.answering import wake_if_answered

    return wake_if_answered(database, run)


def waits_for(database: Database, run_id: str) -> list[str]:
    """The actions that a run said it waits for when it last began to wait."""
    rows = database.read("last_event", run_id=run_id, kind="waiting")
    return list(rows[0]["data"]["action_ids"]) if rows else []
