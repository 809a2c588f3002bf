"""What people do to records beside deciding: settle an UNKNOWN, take back what is PREPARED."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from onward_ledger.action import Action, Json, Status
from onward_ledger.errors import BadRequest, Conflict, NotFound, TooLate, VersionConflict
from onward_ledger.receipts import LONGEST_ID, text
from onward_ledger.store.outcomes import take_back
from onward_ledger.store.records import Cause, Records


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """An operator's word on an UNKNOWN action, bound to the version that the operator has seen."""

    action_id: str
    status: Status
    reason: str
    expected_version: int
    principal: str
    receipt: Json | None = None

    def check(self) -> None:
        """BadRequest when the word cannot be meant."""
        if self.status not in (Status.SUCCEEDED, Status.FAILED):
            raise BadRequest("An operator resolves to SUCCEEDED or FAILED.")
        if (self.status is Status.SUCCEEDED) != (self.receipt is not None):
            raise BadRequest("SUCCEEDED needs a receipt: what proves that it happened. FAILED has none.")

    @property
    def detail(self) -> Json:
        """What the event keeps, and what tells a repetition from another word."""
        return {"expected_version": self.expected_version, "status": self.status.value, "receipt": self.receipt}


def resolve(records: Records, word: Resolution) -> Action:
    """Settle by a person's word. The same word again is harmless; refused when the record has moved on."""
    action, now = _locked(records, word.action_id)
    if action.version != word.expected_version:
        if _said_before(records, word):
            return replace(action, replayed=True)
        raise VersionConflict(
            f"The action is at version {action.version} ({action.status}), not {word.expected_version}; look again.",
            action=action,
        )
    if action.status is not Status.UNKNOWN:
        raise Conflict(f"Only an UNKNOWN action can be resolved; this one is {action.status}.", action=action)
    cause = Cause(principal=word.principal, reason=word.reason, detail=word.detail)
    provider_id = (word.receipt or {}).get("provider_id")
    return records.move(
        action,
        "resolve",
        word.status,
        now,
        cause,
        receipt=word.receipt,
        provider_id=text(provider_id, LONGEST_ID) if provider_id is not None else None,
        reason=word.reason,
        in_doubt=False,
    )


def _said_before(records: Records, word: Resolution) -> bool:
    row = records.tx.one("last_event", action_id=word.action_id)
    return (
        row is not None
        and (row["word"], row["principal"], row["reason"]) == ("resolve", word.principal, word.reason)
        and row["detail"].items() >= word.detail.items()
    )


def withdraw(records: Records, action_id: str, principal: str | None, reason: str) -> Action:
    """Take back a PREPARED action. One that is withdrawn already is answered as it is; one in doubt becomes UNKNOWN."""
    action, now = _locked(records, action_id)
    if action.status is Status.WITHDRAWN:
        return replace(action, replayed=True)
    if action.status is not Status.PREPARED:
        raise TooLate(f"The action is {action.status}; only a PREPARED one can be withdrawn.", action=action)
    return take_back(records, action, now, Cause(principal=principal, reason=reason))


def _locked(records: Records, action_id: str) -> tuple[Action, datetime]:
    action, now = records.lock(action_id)
    if action is None:
        raise NotFound(f"There is no action {action_id}.")
    return action, now
