"""Guards: the transactions around an effect that its caller performs.

The claim is the same as for every other kind. Two things differ, since the one who performs is outside: its claim token
is its own choice, so that a lost answer to a claim is asked for again; and its answer comes as a request, any number of
times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from onward_ledger.action import Action, Json, Status
from onward_ledger.database import Database
from onward_ledger.errors import NotFound
from onward_ledger.providers.interface import NotSent, Outcome, Refused
from onward_ledger.store import outcomes
from onward_ledger.store.claims import Call
from onward_ledger.store.records import Cause, Records


@dataclass(frozen=True)
class Lost:
    """The caller does not know what became of it: its function raised, or never came back."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class GuardCall(Call):
    """One request for a claim of the caller's own; `declared` goes into the history of the action."""

    declared: Json

    @property
    def cause(self) -> Cause:
        """For the events of this call."""
        return Cause(principal=self.principal, instance=self.sender.instance, detail={"declared": self.declared})

    def replaces(self, action: Action) -> bool:
        """A newer epoch is a newer driver: the one that claimed it under an older epoch has been replaced.

        It may still be alive. That makes the claim UNKNOWN, never free.
        """
        return action.epoch < self.intent.epoch


def complete_at_once(
    database: Database, claimed: Action, outcome: Outcome | Lost, cause: Cause, now: datetime
) -> Action | None:
    """The answer in one message, where the record stands as it was claimed; None where it takes more."""
    if claimed.status is not Status.IN_FLIGHT or isinstance(outcome, Lost):
        return None
    return outcomes.record_at_once(database, claimed, outcome, cause, now)


def complete(records: Records, asked: Action, token: str, outcome: Outcome | Lost, cause: Cause) -> Action:
    """What the caller knows about its claim: at any time, at any epoch, and any number of times.

    `asked`: the action as it was looked up. NotFound when the token never claimed it.
    """
    action, _ = records.lock(asked.action_id, fence_of=asked.run_id)
    assert action is not None
    if action.claim_token == token:
        if _is_said(action, outcome):
            return action
    elif records.tx.one("claim_event", action_id=action.action_id, claim_token=token) is None:
        raise NotFound(f"{token} is no claim of action {action.action_id}.")
    claimed = replace(action, claim_token=token)
    if isinstance(outcome, Lost):
        return outcomes.lose(records, claimed, replace(cause, reason=outcome.reason))
    return outcomes.record(records, claimed, outcome, cause)


def _is_said(action: Action, outcome: Outcome | Lost) -> bool:
    """Whether the record says so already: the same answer again, because its receipt was lost."""
    match outcome:
        case Refused():
            return action.status is Status.FAILED
        case NotSent():
            return action.status in (Status.PREPARED, Status.WITHDRAWN)
        case _:
            return False
