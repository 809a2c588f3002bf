"""Begin: the transaction before an effect, the one place where a send can start.

Its order is the protocol: the fence, the request hash, the replay, the approval, the claim. A glance without a lock
tells most calls all they need: a replay reads it and is done, a new action is inserted and claimed in one message.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from onward_ledger.action import FINAL, Action, Decision, Intent, Status
from onward_ledger.database import Database, Row, Statement, statement
from onward_ledger.errors import FenceClosed, InProgress, NotApplied, ParamsConflict, StaleEpoch
from onward_ledger.providers.interface import (
    NotSent,
    Refused,
    SendingProvider,
    TransactionalProvider,
)
from onward_ledger.receipts import fit
from onward_ledger.store.approvals import approve_by_grant, why_not_approved
from onward_ledger.store.calls import Answered, Call, Claimed, LookFirst, Sender, Step, Unsettled, Verify
from onward_ledger.store.identity import held
from onward_ledger.store.outbox import entering, is_its_turn
from onward_ledger.store.outcomes import doubt
from onward_ledger.store.records import Cause, Records, insertion, moved, proposed, seen, written

# How soon a caller may look again at what somebody else performs.
LOOK_AGAIN_SECONDS = 0.1

# The record may be written this much later than the send's own hard deadline before others call the outcome unknown.
RECORD_GRACE_SECONDS = 5.0


class EpochAhead(Exception):
    """The action's epoch was not announced: announce it first, then begin again."""


# --- at a glance ------------------------------------------------------------------------------------------------------


def at_a_glance(glance: Row, call: Call) -> Step | None:
    """The next step where a plain look is enough to know it; None where the record may move."""
    if glance["action_id"] is None:
        return None
    looked = seen(glance)
    busy = looked.status is Status.IN_FLIGHT and not call.propose and call.sender.performs(looked, glance["now_at"])
    if looked.status in FINAL or (busy and not call.replaces(looked)):
        _refuse_stale(call, glance["fence_epoch"])
        return Answered(_unless_in_progress(_same_request(looked, call.intent)))
    if _may_be_applied(looked, call, glance["now_at"]):
        _refuse_stale(call, glance["fence_epoch"])
        return Verify(_same_request(looked, call.intent))
    return None


def _may_be_applied(looked: Action, call: Call, now: datetime) -> bool:
    """Whether it comes to a verdict: what is approved is read before the transaction that decides about everything."""
    if looked.status is not Status.PREPARED or call.propose or not isinstance(call.provider, TransactionalProvider):
        return False
    policy = call.provider.approval
    return policy is None or looked.approval_id is not None or why_not_approved(looked, policy, now) is None


def begin_at_once(database: Database, glance: Row, call: Call) -> Step | None:
    """A new action in one message: proposed, or proposed and claimed; None where it takes more than that.

    What the glance saw may be over. The message says so itself: it inserts only under this epoch, while the run is
    open, the ledger not held and the id free. Else nothing is written, and the longer way finds out why.
    """
    if not _is_simple(glance, call):
        return None
    call.provider.validate(call.intent.key.run_id, call.intent.resource, call.intent.params)
    now, epoch = glance["now_at"], call.intent.epoch
    action, event = proposed(call.intent, now, call.cause)
    events = [event]
    if not call.propose:
        assert isinstance(call.provider, SendingProvider)
        action, event = moved(action, "claim", Status.IN_FLIGHT, now, call.cause, **_claim(call, action, now))
        events.append(event)
    fence = _fence_first(glance, call.intent)
    write = insertion(action, call.intent, newest_epoch=epoch)
    answers = database.at_once(*fence, *written(write, action, *events), *entering(action, call.later))
    if answers[len(fence)].count != 1:
        return None
    return Answered(action) if call.propose else Claimed(action)


def _is_simple(glance: Row, call: Call) -> bool:
    if glance["action_id"] is not None or glance["fence_closed_at"] is not None:
        return False
    if glance["fence_epoch"] is not None and glance["fence_epoch"] > call.intent.epoch:
        return False
    if call.propose:
        return not (call.provider.approval is not None and glance["has_grants"])
    sending = isinstance(call.provider, SendingProvider) and call.provider.approval is None
    return sending and glance["held_reason"] is None and not _looks_first(glance, call)


def _fence_first(glance: Row, intent: Intent) -> tuple[Statement, ...]:
    """What makes the run's fence row stand at this epoch, where it does not."""
    mine = {"run_id": intent.key.run_id, "epoch": intent.epoch}
    if glance["fence_epoch"] is None:
        return (statement("ensure_fence", **mine),)
    return (statement("raise_fence", **mine),) if glance["fence_epoch"] < intent.epoch else ()


# --- step by step -----------------------------------------------------------------------------------------------------


def begin(records: Records, call: Call, *, known: bool = True) -> Step:
    """What is to be done for this call, decided and committed. `known`: whether the action may be recorded already."""
    fence, action, decision, entry, now = _enter(records, call, known=known)
    fresh = False
    while action is None:
        _refuse_closed(call, fence)
        call.provider.validate(call.intent.key.run_id, call.intent.resource, call.intent.params)
        action = records.insert(call.intent, now, call.cause, derived=call.derived)
        fresh = action is not None
        if action is None:  # somebody else has just inserted it
            action, now = records.lock(call.intent.key.action_id)
            decision = records.standing(call.intent.key.action_id)
            entry = records.tx.one("outbox_entry", action_id=call.intent.key.action_id)
    action = replace(_same_request(action, call.intent), decision=decision, replayed=not fresh)
    if action.status not in FINAL:
        for each in entering(action, call.later):
            records.tx.send(each.name, **each.params)
    if action.status is Status.PREPARED and not is_its_turn(entry, dispatched=call.dispatched):
        call = replace(call, propose=True)
    return _advance(records, call, action, fence, now)


def _unless_in_progress(action: Action) -> Action:
    if action.status is Status.IN_FLIGHT:
        raise InProgress(
            f"Action {action.action_id} ({action.step}/{action.slot}) is being performed.",
            action=action,
            retry_after_seconds=LOOK_AGAIN_SECONDS,
        )
    return action


def _enter(
    records: Records, call: Call, *, known: bool
) -> tuple[Row, Action | None, Decision | None, Row | None, datetime]:
    """The run's fence row, shared until the transaction ends; then the action, locked, with its decision and its row in
    the outbox; the time.

    StaleEpoch when a newer driver was announced. Raising the epoch needs the fence row alone, and two that share it
    would wait for each other: EpochAhead ends this transaction first.
    """
    intent = call.intent
    fence = statement("share_fence", run_id=intent.key.run_id)
    names = ("lock_action", "standing_decision", "outbox_entry") if known else ()
    recorded = [statement(name, action_id=intent.key.action_id) for name in names]
    shared, *found, clock = records.tx.at_once(fence, *recorded, statement("clock"))
    if shared.row is None:
        first = statement("ensure_fence", run_id=intent.key.run_id, epoch=intent.epoch)
        _, shared, clock = records.tx.at_once(first, fence, statement("clock"))
    assert shared.row is not None
    _refuse_stale(call, shared.row["epoch"])
    if shared.row["epoch"] < intent.epoch:
        raise EpochAhead
    action, decision, entry = (answer.row for answer in found) if known else (None, None, None)
    return (
        shared.row,
        Action.from_row(action) if action else None,
        Decision.from_row(decision) if decision else None,
        entry,
        clock.rows[0]["now_at"],
    )


def _refuse_stale(call: Call, epoch: int) -> None:
    if call.is_stale(epoch):
        raise StaleEpoch(
            f"Epoch {call.intent.epoch} of run {call.intent.key.run_id} is over: epoch {epoch} has been announced.",
            fence_epoch=epoch,
        )


def _refuse_closed(call: Call, fence: Row) -> None:
    if fence["closed_at"] is not None and not (call.derived and fence["pruned_at"] is None):
        pruned = " Its records were removed by age." if fence["pruned_at"] is not None else ""
        raise FenceClosed(
            f"Run {fence['run_id']} was cancelled: {fence['closed_reason']}{pruned}",
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
    return action.but(replayed=True)


def _advance(records: Records, call: Call, action: Action, fence: Row, now: datetime) -> Step:
    """From where the locked record stands to the next step of this call."""
    match action.status:
        case Status.PREPARED:
            _refuse_closed(call, fence)
            return _prepared(records, call, action, fence, now)
        case Status.IN_FLIGHT if not call.propose:
            return Unsettled(lose_if_due(records, action, call.sender, now, replaced=call.replaces(action)))
        case Status.UNKNOWN if not call.propose:
            return Unsettled(action)
        case _:
            return Answered(action)


def lose_if_due(records: Records, action: Action, sender: Sender, now: datetime, *, replaced: bool = False) -> Action:
    """IN_FLIGHT becomes UNKNOWN when its deadline is over or its sender is gone; else somebody performs it now."""
    assert action.deadline_at is not None
    if now >= action.deadline_at:
        reason = "Its deadline has passed without an answer."
    elif replaced:
        reason = f"The driver that performed it, of epoch {action.epoch}, has been replaced."
    elif action.instance == sender.instance and action.claim_token not in sender.performing:
        reason = "The service lost its database while it performed it."
    elif records.tx.one("gone_in_flight", me=sender.instance, action_id=action.action_id):
        reason = "The service that sent it is gone."
    else:
        return _unless_in_progress(action)
    cause = Cause(instance=sender.instance, reason=reason)
    return records.move(action, "lose", Status.UNKNOWN, now, cause, reason=reason)


def _prepared(records: Records, call: Call, action: Action, fence: Row, now: datetime) -> Step:
    policy = call.provider.approval
    if policy is not None and action.decision is None:
        action = approve_by_grant(records, action, policy, now)
    if call.propose:
        return Answered(action)
    if policy is not None and action.approval_id is None:
        missing = why_not_approved(action, policy, now)
        if missing is not None:
            return Answered(replace(action, reason=missing))
    _refuse_held(fence)
    if action.not_before_at is not None and now < action.not_before_at:
        raise NotApplied(
            action.reason or "The provider could not be reached.",
            action=action,
            retry_after_seconds=(action.not_before_at - now).total_seconds(),
        )
    if isinstance(call.provider, TransactionalProvider):
        return _apply(records, call, call.provider, action, now)
    assert isinstance(call.provider, SendingProvider)
    if action.in_doubt and not call.provider.remembers(action, now):
        cause = replace(call.cause, reason="The provider no longer remembers the first request.")
        return Unsettled(doubt(records, action, now, cause))
    if _looks_first(fence, call):  # also what was claimed before: later claims of it may be what was lost
        return LookFirst(action)
    if call.dispatched:
        records.tx.send("count_attempt", action_id=action.action_id)
    claim = _claim_of(records, call, action, now)
    return Claimed(records.move(action, "claim", Status.IN_FLIGHT, now, call.cause, **claim))


def _refuse_held(fence: Row) -> None:
    if fence["held_reason"] is not None:
        raise held(fence["held_reason"])


def _looks_first(ledger: Row, call: Call) -> bool:
    """Whether a first send waits for a look-up: the ledger was restored, and what it sent since may be forgotten."""
    provider = call.provider
    return (
        bool(ledger["looks_first"]) and not call.looked and isinstance(provider, SendingProvider) and provider.looks_up
    )


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
    applied = fit(provider.apply(records.tx, action, now))
    changes = common | {"provider_id": applied.provider_id, "receipt": applied.receipt, "reason": None}
    return Answered(records.move(action, "apply", Status.SUCCEEDED, now, call.cause, **changes))


def _claim_of(records: Records, call: Call, action: Action, now: datetime) -> dict[str, object]:
    """What a claim changes, the approval that it uses up included."""
    return _claim(call, action, now) | {"approval_id": _consume(records, action, now), "replayed": False}


def _claim(call: Call, action: Action, now: datetime) -> dict[str, object]:
    assert isinstance(call.provider, SendingProvider)
    return {
        "epoch": call.intent.epoch,
        "claims": action.claims + 1,
        "claim_token": call.claim_token,
        "instance": call.sender.instance,
        "deadline_at": now + timedelta(seconds=call.provider.deadline_seconds + RECORD_GRACE_SECONDS),
        "first_sent_at": action.first_sent_at or now,
        "not_before_at": None,
        "reason": None,
    }


def _consume(records: Records, action: Action, now: datetime) -> int | None:
    """The approval is used up here, in the transaction that claims; a later safe resend needs no second one."""
    decision: Decision | None = action.decision
    if action.approval_id is not None or decision is None:
        return action.approval_id
    used = records.tx.run("consume_decision", decision_id=decision.decision_id, now_at=now)
    assert used == 1, f"decision {decision.decision_id} was consumed before"
    return decision.decision_id
