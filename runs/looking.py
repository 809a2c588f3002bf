"""Look before touching: what has to hold before anything of a run is done, each time that somebody takes it up.

The order in which a driver recovers a run, each step of it an event:

    looked       is it to be cancelled, may its owner still act, is time, money and are tokens left, which version
    claimed      the lease under the next epoch
    announced    the ledger refuses older epochs from here on, and says what it has recorded of the run
    settled      one each: what an older epoch left in flight or unknown is verified, never assumed
    continued    where LangGraph goes on; committed results are reused, actions answer with their receipts
    receipt …    what was done, and proved
    status       how it ended, with the release of the lease

A run that waited for a person for a week is looked at as one that was killed a second ago.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onward_ledger.database import Database
from runs.errors import NotPermitted
from runs.registry import Run, Status


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was found. `barred`: why the owner may not act any more."""

    cancel: bool
    barred: str | None
    seconds_left: float | None
    micros_left: int | None
    tokens_left: int | None
    version: str

    def to_json(self) -> dict[str, Any]:
        """As the event `looked` holds it; null: not limited."""
        return {
            "cancel": self.cancel,
            "owner": "allowed" if self.barred is None else "barred",
            "seconds_left": None if self.seconds_left is None else round(self.seconds_left, 1),
            "micros_left": self.micros_left,
            "tokens_left": self.tokens_left,
            "version": self.version,
        }

    def refuse(self, run: Run) -> None:
        """Raise NotPermitted where the owner may not act: nothing more is done in their name."""
        if self.barred is not None:
            raise NotPermitted(f"{run.owner}, who owns this run, may not act any more: {self.barred}")


def look(database: Database, run: Run) -> Looked:
    """One question; the rest is in the row. Deadline and budget refuse by themselves, at the first check."""
    barred = database.read("barred", tenant=run.tenant, principal=run.owner)
    return Looked(
        cancel=run.status is Status.CANCEL_REQUESTED,
        barred=barred[0]["reason"] if barred else None,
        seconds_left=(run.deadline_at - run.now_at).total_seconds() if run.deadline_at is not None else None,
        micros_left=run.budget_micros - run.spent_micros if run.budget_micros is not None else None,
        tokens_left=run.budget_tokens - run.tokens if run.budget_tokens is not None else None,
        version=run.workflow_version,
    )
