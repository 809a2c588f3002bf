"""How a record changes: inside one transaction, by one known transition, with one event chained behind the last.

Lock order everywhere: fence row, then action row, then grant, then the feed's head.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from onward_ledger.action import NOTES, Action, Decision, Intent, Json, Status, check_transition
from onward_ledger.audit import FIRST, event_hash
from onward_ledger.database import Row, Transaction, statement
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

    def insert(self, intent: Intent, now: datetime, cause: Cause) -> Action | None:
        """A new PREPARED action; None when somebody else has just inserted it."""
        check_transition(None, "propose", Status.PREPARED)
        key = intent.key
        event = _first_event(key.action_id, intent.epoch, now, cause)
        row = self.tx.one(
            "insert_action",
            **asdict(key),
            action_id=key.action_id,
            kind=intent.kind,
            resource=intent.resource,
            params=intent.params_text,
            request_hash=intent.request_hash,
            status=Status.PREPARED,
            epoch=intent.epoch,
            events=1,
            head=event.hash,
            now_at=now,
        )
        if row is None:
            self._refuse_second_revision(intent)
            return None
        self._insert_event(event)
        return Action.from_row(row)

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
        check_transition(action.status, word, after)
        moved = self._write(action, word, replace(action, status=after, **changes), now, cause)
        if action.status is Status.UNKNOWN:
            self.feed("resolution", moved, now, status=after)
        return moved

    def note(self, action: Action, word: str, now: datetime, cause: Cause, **changes: Any) -> Action:
        """Write an event that changes no status."""
        assert word in NOTES, word
        return self._write(action, word, replace(action, **changes), now, cause)

    def _write(self, before: Action, word: str, after: Action, now: datetime, cause: Cause) -> Action:
        """The action as it stands with the commit.

        The row is locked, so only a bug can make the compare-and-set fail. It must not pass in silence: the event is
        then refused, and the transaction with it.
        """
        event = _next_event(before, word, after, now, cause)
        after = replace(after, version=before.version + 1, events=event.seq, head=event.hash, updated_at=now)
        self.tx.send(
            "update_action",
            action_id=after.action_id,
            version=before.version,
            status=after.status,
            provider_id=after.provider_id,
            receipt=after.receipt,
            reason=after.reason,
            alarm=after.alarm,
            epoch=after.epoch,
            claims=after.claims,
            claim_token=after.claim_token,
            instance=after.instance,
            deadline_at=after.deadline_at,
            first_sent_at=after.first_sent_at,
            not_before_at=after.not_before_at,
            approval_id=after.approval_id,
            events=after.events,
            head=after.head,
            now_at=now,
        )
        self._insert_event(event)
        return after

    def _insert_event(self, event: Event) -> None:
        self.tx.send("insert_event", **{name: getattr(event, name) for name in Event.__dataclass_fields__})

    def feed(
        self, what: str, action: Action, now: datetime, *, seq: int | None = None, status: Status | None = None
    ) -> None:
        """Add a line to the feed; a decision brings the number that it was given."""
        self.tx.send(
            "insert_feed",
            seq=seq if seq is not None else self.next_seq(),
            what=what,
            run_id=action.run_id,
            action_id=action.action_id,
            decision_id=seq,
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


def _first_event(action_id: str, epoch: int, now: datetime, cause: Cause) -> Event:
    return _hashed(
        Event(
            action_id=action_id,
            seq=1,
            word="propose",
            from_status=None,
            to_status=Status.PREPARED,
            epoch=epoch,
            principal=cause.principal,
            instance=cause.instance,
            claim_token=None,
            reason=cause.reason,
            detail=cause.detail,
            recorded_at=now,
            previous_hash=FIRST,
            hash="",
        )
    )


def _next_event(before: Action, word: str, after: Action, now: datetime, cause: Cause) -> Event:
    return _hashed(
        Event(
            action_id=after.action_id,
            seq=before.events + 1,
            word=word,
            from_status=before.status,
            to_status=after.status,
            epoch=after.epoch,
            principal=cause.principal,
            instance=cause.instance,
            claim_token=after.claim_token,
            reason=cause.reason,
            detail=cause.detail,
            recorded_at=now,
            previous_hash=before.head,
            hash="",
        )
    )


def _hashed(event: Event) -> Event:
    return replace(event, hash=event_hash(event))
