"""Begin and record: the transaction before an effect, and the one behind it.

`begin` is the one place where a send can start. Its order is the protocol: the fence, the request hash, the replay, the
approval, the claim. Time alone never grants a second send.
"""

from __future__ import annotations

import uuid
from collections.abc import Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from onward_ledger.action import FINAL, Action, Decision, Intent, Status
from onward_ledger.database import Row, statement
from onward_ledger.errors import FenceClosed, InProgress, NotApplied, ParamsConflict, StaleEpoch
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    Found,
    NotSent,
    Outcome,
    Provider,
    Refused,
    SendingProvider,
    TransactionalProvider,
    Verdict,
)
from onward_ledger.store.approvals import approve_by_grant, why_not_approved
from onward_ledger.store.records import Cause, Records, seen

# How soon a caller may look again at what somebody else performs.
LOOK_AGAIN_SECONDS = 0.1

# Back-off between sends that were definitely not accepted: doubling from the first to the longest.
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 60.0

# The record may be written this much later than the send's own hard deadline before others call the outcome unknown.
RECORD_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Answered:
    """Nothing is to be sent; this is the answer."""

    action: Action


@dataclass(frozen=True)
class Claimed:
    """IN_FLIGHT under a new claim token: send now, then record."""

    action: Action


@dataclass(frozen=True)
class Verify:
    """A transactional effect may be applied: check what is to be applied, then begin again with the verdict."""

    action: Action


@dataclass(frozen=True)
class Unsettled:
    """UNKNOWN: ask the provider, then begin again."""

    action: Action


Step = Answered | Claimed | Verify | Unsettled


@dataclass(frozen=True)
class Sender:
    """This service process: its instance, and the claims that its threads are performing at this moment.

    A claim of this instance that is not among them is an orphan: its commit, or its record, was lost with the
    connection to the database.
    """

    instance: str
    performing: Set[str]

    def performs(self, action: Action, now: datetime) -> bool:
        """Whether a thread of this process has this action in hand, within its deadline."""
        mine = action.instance == self.instance and action.claim_token in self.performing
        return mine and action.deadline_at is not None and now < action.deadline_at


@dataclass(frozen=True, kw_only=True)
class Call:
    """One PUT: what is wanted, whether it stops at PREPARED, who performs, and the verdict where one was asked for."""

    intent: Intent
    provider: Provider
    propose: bool
    sender: Sender
    claim_token: str = field(default_factory=lambda: str(uuid.uuid4()))
    principal: str | None = None
    verdict: Verdict | None = None

    @property
    def cause(self) -> Cause:
        """For the events of this call."""
        return Cause(principal=self.principal, instance=self.sender.instance)


class EpochAhead(Exception):
    """The action's epoch was not announced: announce it first, then begin again."""


def at_a_glance(row: Row, call: Call) -> Step | None:
    """The next step where a plain look (`look_at_action`) is enough to know it; None where the record may move."""
    looked = seen(row)
    busy = looked.status is Status.IN_FLIGHT and not call.propose and call.sender.performs(looked, row["now_at"])
    if looked.status in FINAL or busy:
        _refuse_stale(call.intent, row["fence_epoch"])
        return Answered(_unless_in_progress(_same_request(looked, call.intent)))
    if _may_be_applied(looked, call, row["now_at"]):
        _refuse_stale(call.intent, row["fence_epoch"])
        return Verify(_same_request(looked, call.intent))
    return None


def _may_be_applied(looked: Action, call: Call, now: datetime) -> bool:
    """Whether it comes to a verdict: what is approved is read before the transaction that decides about everything."""
    if looked.status is not Status.PREPARED or call.propose or not isinstance(call.provider, TransactionalProvider):
        return False
    needed = call.provider.needs_approval and looked.approval_id is None
    return not needed or why_not_approved(looked, now) is None


def begin(records: Records, call: Call, *, known: bool = True) -> Step:
    """What is to be done for this call, decided and committed. `known`: whether the action may be recorded already."""
    fence, action, decision, now = _enter(records, call.intent, known=known)
    fresh = False
    while action is None:
        _refuse_closed(fence)
        call.provider.validate(call.intent.key.run_id, call.intent.resource, call.intent.params)
        action = records.insert(call.intent, now, call.cause)
        fresh = action is not None
        if action is None:  # somebody else has just inserted it
            action, now = records.lock(call.intent.key.action_id)
            decision = records.standing(call.intent.key.action_id)
    action = replace(_same_request(action, call.intent), decision=decision, replayed=not fresh)
    return _advance(records, call, action, fence, now)


def _unless_in_progress(action: Action) -> Action:
    if action.status is Status.IN_FLIGHT:
        raise InProgress(
            f"Action {action.action_id} ({action.step}/{action.slot}) is being performed.",
            action=action,
            retry_after_seconds=LOOK_AGAIN_SECONDS,
        )
    return action


def _enter(records: Records, intent: Intent, *, known: bool) -> tuple[Row, Action | None, Decision | None, datetime]:
    """The run's fence row, shared until the transaction ends; then the action, locked, with its decision; the time.

    StaleEpoch when a newer driver was announced. Raising the epoch needs the fence row alone, and two that share it
    would wait for each other: EpochAhead ends this transaction first.
    """
    fence = statement("share_fence", run_id=intent.key.run_id)
    mine = {"action_id": intent.key.action_id}
    recorded = [statement("lock_action", **mine), statement("standing_decision", **mine)] if known else []
    shared, *found, clock = records.tx.at_once(fence, *recorded, statement("clock"))
    if shared.row is None:
        first = statement("ensure_fence", run_id=intent.key.run_id, epoch=intent.epoch)
        _, shared, clock = records.tx.at_once(first, fence, statement("clock"))
    assert shared.row is not None
    _refuse_stale(intent, shared.row["epoch"])
    if shared.row["epoch"] < intent.epoch:
        raise EpochAhead
    action, decision = (answer.row for answer in found) if known else (None, None)
    return (
        shared.row,
        Action.from_row(action) if action else None,
        Decision.from_row(decision) if decision else None,
        clock.rows[0]["now_at"],
    )


def _refuse_stale(intent: Intent, epoch: int) -> None:
    if intent.epoch < epoch:
        raise StaleEpoch(
            f"Epoch {intent.epoch} of run {intent.key.run_id} is over: epoch {epoch} has been announced.",
            fence_epoch=epoch,
        )


def _refuse_closed(fence: Row) -> None:
    if fence["closed_at"] is not None:
        raise FenceClosed(
            f"Run {fence['run_id']} was cancelled: {fence['closed_reason']}",
            closed_at=fence["closed_at"],
            fence_epoch=fence["epoch"],
        )


def _same_request(action: Action, intent: Intent) -> Action:
    if action.request_hash != intent.request_hash:
        raise ParamsConflict(
            f"Action {action.action_id} ({action.step}/{action.slot}) is recorded with another request; "
            "nothing was sent.",
            action=action,
        )
    return replace(action, replayed=True)


def _advance(records: Records, call: Call, action: Action, fence: Row, now: datetime) -> Step:
    """From where the locked record stands to the next step of this call."""
    match action.status:
        case Status.PREPARED:
            _refuse_closed(fence)
            return _prepared(records, call, action, now)
        case Status.IN_FLIGHT if not call.propose:
            return Unsettled(lose_if_due(records, action, call.sender, now))
        case Status.UNKNOWN if not call.propose:
            return Unsettled(action)
        case _:
            return Answered(action)


def lose_if_due(records: Records, action: Action, sender: Sender, now: datetime) -> Action:
    """IN_FLIGHT becomes UNKNOWN when its deadline is over or its sender is gone; else somebody performs it now."""
    assert action.deadline_at is not None
    if now >= action.deadline_at:
        reason = "Its deadline has passed without an answer."
    elif action.instance == sender.instance and action.claim_token not in sender.performing:
        reason = "The service lost its database while it performed it."
    elif records.tx.one("gone_in_flight", me=sender.instance, action_id=action.action_id):
        reason = "The service that sent it is gone."
    else:
        return _unless_in_progress(action)
    cause = Cause(instance=sender.instance, reason=reason)
    return records.move(action, "lose", Status.UNKNOWN, now, cause, reason=reason)


def _prepared(records: Records, call: Call, action: Action, now: datetime) -> Step:
    if call.provider.needs_approval and action.decision is None:
        action = approve_by_grant(records, action, now)
    if call.propose:
        return Answered(action)
    if call.provider.needs_approval and action.approval_id is None:
        missing = why_not_approved(action, now)
        if missing is not None:
            return Answered(replace(action, reason=missing))
    if action.not_before_at is not None and now < action.not_before_at:
        raise NotApplied(
            action.reason or "The provider could not be reached.",
            action=action,
            retry_after_seconds=(action.not_before_at - now).total_seconds(),
        )
    if isinstance(call.provider, TransactionalProvider):
        return _apply(records, call, call.provider, action, now)
    assert isinstance(call.provider, SendingProvider)
    return Claimed(_claim(records, call, call.provider, action, now))


def _apply(records: Records, call: Call, provider: TransactionalProvider, action: Action, now: datetime) -> Step:
    """Effect, receipt and the consumed approval are this one commit."""
    if call.verdict is None:
        return Verify(action)
    consumed = _consume(records, action, now)
    common = {"epoch": call.intent.epoch, "approval_id": consumed, "not_before_at": None, "replayed": False}
    if isinstance(call.verdict, Refused):
        cause = replace(call.cause, reason=call.verdict.reason)
        reason = call.verdict.reason
        return Answered(records.move(action, "refuse", Status.FAILED, now, cause, reason=reason, **common))
    assert not isinstance(call.verdict, NotSent), "what could not be verified is never applied"
    applied = provider.apply(records.tx, action, now)
    changes = common | {"provider_id": applied.provider_id, "receipt": applied.receipt, "reason": None}
    return Answered(records.move(action, "apply", Status.SUCCEEDED, now, call.cause, **changes))


def _claim(records: Records, call: Call, provider: SendingProvider, action: Action, now: datetime) -> Action:
    return records.move(
        action,
        "claim",
        Status.IN_FLIGHT,
        now,
        call.cause,
        epoch=call.intent.epoch,
        claims=action.claims + 1,
        claim_token=call.claim_token,
        instance=call.sender.instance,
        deadline_at=now + timedelta(seconds=provider.deadline_seconds + RECORD_GRACE_SECONDS),
        first_sent_at=action.first_sent_at or now,
        not_before_at=None,
        approval_id=_consume(records, action, now),
        reason=None,
        replayed=False,
    )


def _consume(records: Records, action: Action, now: datetime) -> int | None:
    """The approval is used up here, in the transaction that claims; a later safe resend needs no second one."""
    decision: Decision | None = action.decision
    if action.approval_id is not None or decision is None:
        return action.approval_id
    used = records.tx.run("consume_decision", decision_id=decision.decision_id, now_at=now)
    assert used == 1, f"decision {decision.decision_id} was consumed before"
    return decision.decision_id


def record(records: Records, claimed: Action, outcome: Outcome, cause: Cause) -> Action:
    """What the sender of this claim knows. Late truth is never refused; what contradicts the record raises an alarm."""
    fence_of = claimed.run_id if isinstance(outcome, NotSent) else None
    action, now = records.lock(claimed.action_id, fence_of=fence_of)
    assert action is not None and claimed.claim_token is not None
    if action.claim_token != claimed.claim_token:
        earlier = records.tx.one("claim_event", action_id=action.action_id, claim_token=claimed.claim_token)
        assert earlier is not None, f"{claimed.claim_token} is no claim of action {action.action_id}"
    if isinstance(outcome, Applied):
        return _record_applied(records, action, outcome, now, cause)
    cause = replace(cause, reason=outcome.reason, detail={"claim_token": claimed.claim_token})
    return _record_not_applied(records, action, claimed, outcome, now, cause)


def _record_not_applied(
    records: Records, action: Action, claimed: Action, outcome: Refused | NotSent, now: datetime, cause: Cause
) -> Action:
    current = action.claim_token == claimed.claim_token
    if current and action.status in (Status.IN_FLIGHT, Status.UNKNOWN):
        if isinstance(outcome, NotSent):
            return unsend(records, action, now, cause, wait=True)
        return records.move(action, "refuse", Status.FAILED, now, cause, reason=outcome.reason)
    if current and action.status is Status.SUCCEEDED:
        alarm = f"Recorded as succeeded, but its sender says that it did not happen: {outcome.reason}"
        return records.note(action, "contradiction", now, cause, alarm=alarm)
    return records.note(action, "late", now, cause)


def _record_applied(records: Records, action: Action, outcome: Applied, now: datetime, cause: Cause) -> Action:
    if action.status in (Status.IN_FLIGHT, Status.UNKNOWN, Status.PREPARED):
        changes = {"provider_id": outcome.provider_id, "receipt": outcome.receipt, "reason": None}
        return records.move(action, "record", Status.SUCCEEDED, now, cause, not_before_at=None, **changes)
    if action.status is Status.SUCCEEDED and action.provider_id == outcome.provider_id:
        return action
    alarm = f"The effect {outcome.provider_id} happened, but the record stood at {action.status} already."
    detail = {"provider_id": outcome.provider_id, "receipt": outcome.receipt}
    return records.note(action, "duplicate", now, replace(cause, reason=alarm, detail=detail), alarm=alarm)


def unsend(records: Records, action: Action, now: datetime, cause: Cause, *, wait: bool) -> Action:
    """Back to PREPARED, with back-off where asked; withdrawn at once when the run was cancelled meanwhile.

    The caller shared the fence row before it locked the action.
    """
    seconds = min(FIRST_BACKOFF_SECONDS * 2 ** (action.claims - 1), LONGEST_BACKOFF_SECONDS) if wait else 0.0
    changes = {"not_before_at": now + timedelta(seconds=seconds), "reason": cause.reason}
    action = records.move(action, "unsend", Status.PREPARED, now, cause, **changes)
    fence = records.tx.one("read_fence", run_id=action.run_id)
    if fence is not None and fence["closed_at"] is not None:
        action = withdraw_cancelled(records, action, now, fence)
    return action


def withdraw_cancelled(records: Records, action: Action, now: datetime, fence: Row) -> Action:
    """A PREPARED action of a closed run."""
    reason = f"The run was cancelled: {fence['closed_reason']}"
    cause = Cause(principal=fence["closed_by"], reason=reason)
    return records.move(action, "withdraw", Status.WITHDRAWN, now, cause, reason=reason)


def lose(records: Records, claimed: Action, cause: Cause) -> Action:
    """The sender gave up waiting: UNKNOWN, unless the record has moved on."""
    action, now = records.lock(claimed.action_id)
    assert action is not None
    if action.status is not Status.IN_FLIGHT or action.claim_token != claimed.claim_token:
        return action
    return records.move(action, "lose", Status.UNKNOWN, now, cause, reason=cause.reason)


def settle(records: Records, unknown: Action, found: Found, provider: SendingProvider, cause: Cause) -> Action:
    """What the provider said about an UNKNOWN action; nothing when the record has moved on since it was asked."""
    action, now = records.lock(unknown.action_id, fence_of=unknown.run_id)
    assert action is not None
    if action.version != unknown.version or action.status is not Status.UNKNOWN:
        return action
    if isinstance(found, Applied):
        changes = {"provider_id": found.provider_id, "receipt": found.receipt, "reason": None}
        return records.move(action, "find", Status.SUCCEEDED, now, cause, **changes)
    if isinstance(found, Absent) and provider.may_resend(action, now):
        return unsend(records, action, now, replace(cause, reason="The provider has no trace of it."), wait=False)
    return action
