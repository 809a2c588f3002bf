"""Record and settle: the transaction behind an effect, and what look-ups and the end of a sender say about one.

    record    the sender's own answer, by claim token, at any time: late truth is never refused
    lose      no answer: IN_FLIGHT becomes UNKNOWN
    settle    what a look-up says about an UNKNOWN action: one, none, several, cannot tell

Time alone never grants a second send. An effect that is not found is sent again only where the provider would not make
a second one of it, or where nothing of the first send can be under way any more and the kind asks for it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from onward_ledger.action import Action, Json, Status
from onward_ledger.database import Database, Row
from onward_ledger.errors import ServiceFault
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Found,
    NotSent,
    Outcome,
    Refused,
    SendingProvider,
    Several,
)
from onward_ledger.store.records import Cause, Records, moved, update, written

log = logging.getLogger("onward_ledger")

# Back-off between sends that were definitely not accepted: doubling from the first to the longest.
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 60.0

IN_DOUBT = "An earlier send may have had its effect."


def record_at_once(database: Database, claimed: Action, outcome: Outcome, cause: Cause, now: datetime) -> Action | None:
    """The sender's answer in one message, where the record stands as it was claimed; None where it does not.

    Compare-and-set on the version makes it safe without a lock. `now` decides nothing: it is the time in the history.
    """
    match outcome:
        case Applied(provider_id=provider_id, receipt=receipt):
            changes = {"provider_id": provider_id, "receipt": receipt, "reason": None}
            action, event = moved(claimed, "record", Status.SUCCEEDED, now, cause, in_doubt=False, **changes)
        case Refused(reason) if not claimed.in_doubt:
            action, event = moved(claimed, "refuse", Status.FAILED, now, _told(cause, claimed, reason), reason=reason)
        case _:
            return None
    write, *_ = database.at_once(*written(update(action), action, event))
    return action if write.count == 1 else None


def record(records: Records, claimed: Action, outcome: Outcome, cause: Cause) -> Action:
    """What the sender of this claim knows. Late truth is never refused; what contradicts the record raises an alarm."""
    fence_of = claimed.run_id if isinstance(outcome, NotSent) else None
    action, now = records.lock(claimed.action_id, fence_of=fence_of)
    assert claimed.claim_token is not None
    if action is None or not _is_claim_of(records, action, claimed.claim_token):
        raise _forgotten(claimed, str(outcome))
    if isinstance(outcome, Applied):
        return _record_applied(records, action, outcome, now, cause)
    return _record_not_applied(records, action, claimed, outcome, now, _told(cause, claimed, outcome.reason))


def _is_claim_of(records: Records, action: Action, token: str) -> bool:
    """Also when a later claim has replaced it."""
    if action.claim_token == token:
        return True
    return records.tx.one("claim_event", action_id=action.action_id, claim_token=token) is not None


def _forgotten(claimed: Action, said: str) -> ServiceFault:
    """The database was restored while this was sent: the log keeps what its sender says."""
    log.error("ALARM: the database has forgotten the claim of action %s. Its sender: %s", claimed.action_id, said)
    return ServiceFault(f"The ledger's database has forgotten that action {claimed.action_id} was sent; see its log.")


def _told(cause: Cause, claimed: Action, reason: str) -> Cause:
    return replace(cause, reason=reason, detail={"claim_token": claimed.claim_token})


def _record_not_applied(
    records: Records, action: Action, claimed: Action, outcome: Refused | NotSent, now: datetime, cause: Cause
) -> Action:
    current = action.claim_token == claimed.claim_token
    if current and action.status in (Status.IN_FLIGHT, Status.UNKNOWN):
        if isinstance(outcome, NotSent):
            return unsend(records, action, now, cause, wait=True)
        if not action.in_doubt:
            return records.move(action, "refuse", Status.FAILED, now, cause, reason=outcome.reason)
        if action.status is Status.IN_FLIGHT:
            reason = f"{IN_DOUBT} Sent again, it was refused: {outcome.reason}"
            return records.move(action, "lose", Status.UNKNOWN, now, replace(cause, reason=reason), reason=reason)
    # A claim in doubt has an earlier one beside it, whose success its own no does not contradict.
    if current and action.status is Status.SUCCEEDED and not claimed.in_doubt:
        alarm = f"Recorded as succeeded, but its sender says that it did not happen: {outcome.reason}"
        return records.note(action, "contradiction", now, cause, alarm=alarm)
    return records.note(action, "late", now, cause)


def _record_applied(records: Records, action: Action, outcome: Applied, now: datetime, cause: Cause) -> Action:
    if action.status in (Status.IN_FLIGHT, Status.UNKNOWN, Status.PREPARED):
        return _succeed(records, action, "record", outcome, now, cause)
    if action.status is Status.SUCCEEDED and action.provider_id == outcome.provider_id:
        return action
    alarm = f"The effect {outcome.provider_id} happened, but the record stood at {action.status} already."
    return records.note(action, "duplicate", now, replace(cause, reason=alarm, detail=_told_by(outcome)), alarm=alarm)


def _told_by(outcome: Applied) -> Json:
    return {"provider_id": outcome.provider_id, "receipt": outcome.receipt}


def _succeed(records: Records, action: Action, word: str, outcome: Applied, now: datetime, cause: Cause) -> Action:
    changes = {"provider_id": outcome.provider_id, "receipt": outcome.receipt, "reason": None}
    settled = {"in_doubt": False, "not_before_at": None}
    return records.move(action, word, Status.SUCCEEDED, now, cause, **changes, **settled)


def unsend(records: Records, action: Action, now: datetime, cause: Cause, *, wait: bool) -> Action:
    """Back to PREPARED, with back-off where asked; taken back at once when the run was cancelled meanwhile.

    The caller shared the fence row before it locked the action.
    """
    seconds = min(FIRST_BACKOFF_SECONDS * 2 ** (action.claims - 1), LONGEST_BACKOFF_SECONDS) if wait else 0.0
    changes = {"not_before_at": now + timedelta(seconds=seconds), "reason": cause.reason}
    action = records.move(action, "unsend", Status.PREPARED, now, cause, **changes)
    fence = _closed_fence(records, action)
    return action if fence is None else withdraw_cancelled(records, action, now, fence)


def _closed_fence(records: Records, action: Action) -> Row | None:
    """The fence that keeps this action from being sent; None where it may be: a compensation passes a closed one."""
    if action.key.is_undo:
        return None
    fence = records.tx.one("read_fence", run_id=action.run_id)
    return fence if fence is not None and fence["closed_at"] is not None else None


def doubt(records: Records, action: Action, now: datetime, cause: Cause) -> Action:
    """PREPARED in doubt becomes UNKNOWN again: it will not be sent, and what an earlier send did is not known."""
    assert action.in_doubt, f"nothing was sent for action {action.action_id}"
    return records.move(action, "doubt", Status.UNKNOWN, now, cause, reason=cause.reason, not_before_at=None)


def take_back(records: Records, action: Action, now: datetime, cause: Cause) -> Action:
    """A PREPARED action is withdrawn; one in doubt cannot be: it is UNKNOWN."""
    if action.in_doubt:
        return doubt(records, action, now, replace(cause, reason=f"{cause.reason} {IN_DOUBT}"))
    return records.move(action, "withdraw", Status.WITHDRAWN, now, cause, reason=cause.reason)


def withdraw_cancelled(records: Records, action: Action, now: datetime, fence: Row) -> Action:
    """A PREPARED action of a closed run."""
    cause = Cause(principal=fence["closed_by"], reason=f"The run was cancelled: {fence['closed_reason']}")
    return take_back(records, action, now, cause)


def lose(records: Records, claimed: Action, cause: Cause) -> Action:
    """The sender gave up waiting: UNKNOWN, unless the record has moved on."""
    action, now = records.lock(claimed.action_id)
    if action is None:
        raise _forgotten(claimed, cause.reason or "it has no answer.")
    if action.status is not Status.IN_FLIGHT or action.claim_token != claimed.claim_token:
        return action
    return records.move(action, "lose", Status.UNKNOWN, now, cause, reason=cause.reason)


def settle(
    records: Records, asked: Action, found: Found, provider: SendingProvider, cause: Cause, *, asked_at: datetime
) -> Action:
    """What the provider said about an action that is UNKNOWN, or PREPARED before its first send.

    `asked_at`: the database's time before the look-up began. Nothing, when the record has moved on since.
    """
    action, now = records.lock(asked.action_id, fence_of=asked.run_id)
    if action is None:
        raise _forgotten(asked, f"its provider was asked: {found}")
    if action.version != asked.version or action.status not in (Status.UNKNOWN, Status.PREPARED):
        return action
    match found:
        case Applied():
            return _succeed(records, action, "find", found, now, cause)
        case Several(effects):
            return _find_several(records, action, effects, now, cause)
        case Absent() | CannotTell() if action.status is Status.UNKNOWN:
            return _not_found(records, action, found, provider, now, cause, asked_at=asked_at)
        case _:
            return action


def _find_several(
    records: Records, action: Action, effects: tuple[Applied, ...], now: datetime, cause: Cause
) -> Action:
    """The effect is there, more than once: succeeded, with an alarm that names them all."""
    assert len(effects) > 1, "several means more than one"
    action = _succeed(records, action, "find", effects[0], now, cause)
    others = ", ".join(effect.provider_id for effect in effects[1:])
    alarm = f"The provider has this effect {len(effects)} times; beside {effects[0].provider_id} there is {others}."
    detail: Json = {"effects": [_told_by(effect) for effect in effects]}
    return records.note(action, "duplicate", now, replace(cause, reason=alarm, detail=detail), alarm=alarm)


def _not_found(
    records: Records,
    action: Action,
    found: Absent | CannotTell,
    provider: SendingProvider,
    now: datetime,
    cause: Cause,
    *,
    asked_at: datetime,
) -> Action:
    never = isinstance(found, Absent) and asked_at >= provider.settled_at(action)
    if never and provider.resend_after_absent:
        reason = "The provider has no trace of it, and nothing of it can be under way."
    elif provider.remembers(action, now) and _closed_fence(records, action) is None:
        reason = "The provider would notice a second request, so it can be sent again."
    else:
        return action
    action = replace(action, in_doubt=not never)
    return unsend(records, action, now, replace(cause, reason=reason), wait=False)
