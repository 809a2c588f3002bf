"""How a record changes: by one known transition, with one event chained behind the last.

`proposed`, `moved` and `noted` make the next record and its event, without any I/O. `Records` writes them inside one
open transaction; `written` are the statements that write them in one message, for who knows the record as it stands.

Lock order everywhere: fence row, then action row, then grant, then the feed's head.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward_ledger.action import NOTES, Action, Decision, Intent, Json, Status, check_transition
from onward_ledger.audit import FIRST, event_hash
from onward_ledger.canonical import LARGEST_INTEGER, digest
from onward_ledger.database import Row, Statement, Transaction, statement
from onward_ledger.errors import OtherRevision
from onward_ledger.values import Event


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Who or what moved a record, and why: what an event keeps beside the transition."""

    principal: str | None = None
    instance: str | None = None
    reason: str | None = None
    detail: Json | None = None


def seen(row: Row) -> Action:
    """An action from the view that carries the decision that stands for it."""
    return Action.from_row({**row, "decision": row["standing"]})


def proposed(intent: Intent, now: datetime, cause: Cause) -> tuple[Action, Event]:
    """A new PREPARED record, and the first event of its history."""
    check_transition(None, "propose", Status.PREPARED)
    key = intent.key
    action = Action(
        action_id=key.action_id,
        run_id=key.run_id,
        step=key.step,
        slot=key.slot,
        rev=key.rev,
        kind=intent.kind,
        resource=intent.resource,
        params=intent.params,
        request_hash=intent.request_hash,
        status=Status.PREPARED,
        epoch=intent.epoch,
        version=1,
        events=1,
        head="",
        created_at=now,
        updated_at=now,
    )
    event = _event(None, "propose", action, now, cause)
    return action.but(head=event.hash), event


def moved(
    action: Action, word: str, after: Status, now: datetime, cause: Cause, **changes: Any
) -> tuple[Action, Event]:
    """The record behind the transition `word`, and its event. Unknown transitions raise."""
    check_transition(action.status, word, after)
    return _next(action, word, action.but(status=after, **changes), now, cause)


def noted(action: Action, word: str, now: datetime, cause: Cause, **changes: Any) -> tuple[Action, Event]:
    """The record with an event that changes no status."""
    assert word in NOTES, word
    return _next(action, word, action.but(**changes), now, cause)


def _next(before: Action, word: str, after: Action, now: datetime, cause: Cause) -> tuple[Action, Event]:
    after = after.but(version=before.version + 1, events=before.events + 1, updated_at=now)
    event = _event(before, word, after, now, cause)
    return after.but(head=event.hash), event


def _event(before: Action | None, word: str, after: Action, now: datetime, cause: Cause) -> Event:
    event = Event(
        action_id=after.action_id,
        seq=after.events,
        word=word,
        from_status=before.status if before else None,
        to_status=after.status,
        epoch=after.epoch,
        principal=cause.principal,
        instance=cause.instance,
        claim_token=after.claim_token,
        reason=cause.reason,
        detail=_bound(before, after, cause.detail),
        recorded_at=now,
        previous_hash=before.head if before else FIRST,
        hash="",
    )
    return event.but(hash=event_hash(event))


def _bound(before: Action | None, after: Action, detail: Json | None) -> Json | None:
    """The chain holds what the record says beside it: the request from the first event on, the receipt from its own."""
    if before is None:
        return {"request_hash": after.request_hash, **(detail or {})}
    if after.receipt == before.receipt or after.receipt is None:
        return detail
    return {"receipt_hash": digest(after.receipt), **(detail or {})}


def insertion(
    action: Action, intent: Intent, *, newest_epoch: int = LARGEST_INTEGER, derived: bool = False
) -> Statement:
    """Insert this record, unless the run was announced beyond `newest_epoch`; see the statement."""
    return statement(
        "insert_action",
        action_id=action.action_id,
        run_id=action.run_id,
        step=action.step,
        slot=action.slot,
        rev=action.rev,
        kind=action.kind,
        resource=action.resource,
        params=intent.params_text,
        request_hash=action.request_hash,
        status=action.status,
        epoch=action.epoch,
        claims=action.claims,
        claim_token=action.claim_token,
        instance=action.instance,
        deadline_at=action.deadline_at,
        first_sent_at=action.first_sent_at,
        version=action.version,
        events=action.events,
        head=action.head,
        now_at=action.updated_at,
        newest_epoch=newest_epoch,
        derived=derived,
    )


def update(action: Action) -> Statement:
    """Write this record over the version before it."""
    return statement(
        "update_action",
        action_id=action.action_id,
        version=action.version - 1,
        status=action.status,
        provider_id=action.provider_id,
        receipt=action.receipt,
        reason=action.reason,
        alarm=action.alarm,
        epoch=action.epoch,
        claims=action.claims,
        claim_token=action.claim_token,
        instance=action.instance,
        deadline_at=action.deadline_at,
        first_sent_at=action.first_sent_at,
        not_before_at=action.not_before_at,
        approval_id=action.approval_id,
        in_doubt=action.in_doubt,
        events=action.events,
        head=action.head,
        now_at=action.updated_at,
    )


def written(write: Statement, action: Action, *events: Event) -> tuple[Statement, ...]:
    """One message: the record with its events, or none of them. The count of the first answer says which."""
    mine = {"written_events": action.events, "written_head": action.head}
    return (write, *(statement("insert_event_if_written", **_members(event), **mine) for event in events))


def _members(event: Event) -> dict[str, object]:
    return {name: getattr(event, name) for name in Event.__dataclass_fields__}


class Records:
    """The records as one transaction sees and changes them."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def now(self) -> datetime:
        """The database's time at this moment: read it behind the locks, not before them."""
        row = self.tx.one("clock")
        assert row is not None
        return row["now_at"]

    def lock(self, action_id: str, *, fence_of: str | None = None) -> tuple[Action | None, datetime]:
        """The action, held until the transaction ends, and the time behind the lock.

        `fence_of`: the run whose fence row is shared first, so that no closing of it comes in between.
        """
        fence = [statement("share_fence", run_id=fence_of)] if fence_of is not None else []
        *_, found, clock = self.tx.at_once(*fence, statement("lock_action", action_id=action_id), statement("clock"))
        return Action.from_row(found.row) if found.row else None, clock.rows[0]["now_at"]

    def insert(self, intent: Intent, now: datetime, cause: Cause, *, derived: bool = False) -> Action | None:
        """A new PREPARED action; None when somebody else has just inserted it. The run's fence row is shared."""
        action, event = proposed(intent, now, cause)
        write = insertion(action, intent, derived=derived)
        if self.tx.run(write.name, **write.params) == 0:
            self._refuse_second_revision(intent)
            return None
        self.tx.send("insert_event", **_members(event))
        return action

    def _refuse_second_revision(self, intent: Intent) -> None:
        key = intent.key
        row = self.tx.one("live_revision", run_id=key.run_id, step=key.step, slot=key.slot)
        if row is not None and str(row["action_id"]) != key.action_id:
            raise OtherRevision(
                f"Revision {row['rev']} of {key.step}/{key.slot} is live; withdraw it before there can be another.",
                action=seen(row),
            )

    def move(self, action: Action, word: str, after: Status, now: datetime, cause: Cause, **changes: Any) -> Action:
        """Take the transition `word`, with changes to other fields, and write its event. Unknown transitions raise."""
        left = action.status
        action = self._write(*moved(action, word, after, now, cause, **changes))
        if left is Status.UNKNOWN:
            self.feed("resolution", action, now, status=after)
        return action

    def note(self, action: Action, word: str, now: datetime, cause: Cause, **changes: Any) -> Action:
        """Write an event that changes no status."""
        return self._write(*noted(action, word, now, cause, **changes))

    def _write(self, action: Action, event: Event) -> Action:
        """The action as it stands with the commit.

        The row is locked, so only a bug can make the compare-and-set fail. It must not pass in silence: the event is
        then refused, and the transaction with it.
        """
        write = update(action)
        self.tx.send(write.name, **write.params)
        self.tx.send("insert_event", **_members(event))
        return action

    def feed(
        self,
        what: str,
        action: Action,
        now: datetime,
        *,
        seq: int | None = None,
        decision_id: int | None = None,
        status: Status | None = None,
    ) -> None:
        """Add a line to the feed, under its next number unless one was taken already."""
        self.tx.send(
            "insert_feed",
            seq=seq if seq is not None else self.next_seq(),
            what=what,
            run_id=action.run_id,
            action_id=action.action_id,
            decision_id=decision_id,
            status=status,
            now_at=now,
        )

    def next_seq(self) -> int:
        """The feed's next number; whoever else wants one waits until this transaction has ended."""
        row = self.tx.one("next_seq")
        assert row is not None
        return int(row["last_seq"])

    def standing(self, action_id: str) -> Decision | None:
        """The decision that stands for an action."""
        row = self.tx.one("standing_decision", action_id=action_id)
        return Decision.from_row(row) if row else None
