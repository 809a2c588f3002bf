"""The outbox: actions that are stored now and performed by the service (mode async).

An action and its row here are one commit, and so are its settlement and the end of that row (by a trigger). What is in
the outbox is the service's to perform: everybody else who asks for it is answered with the record.

In order: rows of one kind and resource make a line. Their order is the order in which they were committed, and only the
head of a line is ever sent, so that nothing is sent while an earlier one is PREPARED, IN_FLIGHT, UNKNOWN or dead.

A row that was not sent in `MOST_ATTEMPTS` attempts, or that its provider refuses to take, is dead: it waits for a
person. Its record stays PREPARED, since nothing is known to have failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from onward_ledger.action import FINAL, Action, Status
from onward_ledger.database import Database, Row, Statement, statement
from onward_ledger.errors import Conflict, NotFound
from onward_ledger.store.records import Cause, Records, seen

# With the back-off between sends that is a quarter of an hour.
MOST_ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class Later:
    """Store it for the service to perform; `in_order` behind what its kind and resource have waiting."""

    in_order: bool = False


@dataclass(frozen=True, kw_only=True)
class Due:
    """What may be sent now, and how many attempts there were."""

    action: Action
    attempts: int


def entering(action: Action, later: Later | None) -> tuple[Statement, ...]:
    """What puts this record, as it was just written or locked, into the outbox."""
    if later is None:
        return ()
    line = {"kind": action.kind, "resource": action.resource}
    first = (statement("lock_line", **line),) if later.in_order else ()
    written = {"written_events": action.events, "written_head": action.head}
    return (*first, statement("put_into_outbox", action_id=action.action_id, in_order=later.in_order, **written))


def is_its_turn(entry: Row | None, *, dispatched: bool) -> bool:
    """Whether a call may perform what stands PREPARED: the service what is in the outbox, everybody else the rest."""
    return entry is not None and entry["dead_at"] is None if dispatched else entry is None


def hand_over(records: Records, entry: Row | None, successor: Action) -> None:
    """An edited action was in the outbox: its successor takes its place there, or the last one of another line."""
    if entry is None:
        return
    if successor.resource != entry["resource"]:
        for each in entering(successor, Later(in_order=bool(entry["in_order"]))):
            records.tx.send(each.name, **each.params)
        return
    records.tx.send(
        "take_over_place",
        action_id=successor.action_id,
        kind=successor.kind,
        resource=successor.resource,
        in_order=bool(entry["in_order"]),
        stored_at=entry["stored_at"],
    )


class Outbox:
    """The rows, as the dispatcher and people see and change them. May be shared by threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, approved_kinds: list[str], limit: int) -> list[Due]:
        """What may be sent now. `approved_kinds` are those that need an approval. Nothing while the ledger is held."""
        rows = self._database.read("due_outbox", approved_kinds=approved_kinds, limit=limit)
        return [Due(action=Action.from_row(row), attempts=row["attempts"]) for row in rows]

    def put_off(self, action_id: str, *, attempts: int, seconds: float) -> None:
        """Not before these seconds have passed; `attempts` is how many there were by now."""
        dispatch_at = self._database.now() + timedelta(seconds=seconds)
        self._database.at_once(statement("put_off", action_id=action_id, attempts=attempts, dispatch_at=dispatch_at))

    def bury(self, action_id: str, *, attempts: int, reason: str, instance: str) -> None:
        """A dead letter from now on, if it is still there to be sent."""
        with self._database.transaction() as tx:
            records = Records(tx)
            action, now = records.lock(action_id)
            if action is None or action.status is not Status.PREPARED:
                return
            if tx.run("mark_dead", action_id=action_id, attempts=attempts, reason=reason, now_at=now) == 1:
                records.note(action, "dead", now, Cause(instance=instance, reason=reason))

    def retry(self, action_id: str, *, principal: str, reason: str | None) -> Action:
        """A person lets a dead letter be tried again, with all its attempts. Any other is answered as it stands."""
        with self._database.transaction() as tx:
            records = Records(tx)
            action, now = records.lock(action_id)
            if action is None:
                raise NotFound(f"There is no action {action_id}.")
            if tx.run("revive", action_id=action_id, now_at=now) == 1:
                action = records.note(
                    action, "retry", now, Cause(principal=principal, reason=reason), not_before_at=None
                )
            elif action.status not in FINAL and tx.one("outbox_entry", action_id=action_id) is None:
                raise Conflict(f"Action {action_id} is not in the outbox: its caller performs it.", action=action)
        return replace(action, replayed=True)

    def entries(self, *, dead: bool | None, run_id: str | None, after: str | None, limit: int) -> list[Action]:
        """Actions in the outbox, in the order of their storing, behind the action `after`; each with its row."""
        rows = self._database.read("list_outbox", dead=dead, run_id=run_id, after=after, limit=limit)
        return [seen(row) for row in rows]

    def look(self, action_id: str) -> Action:
        """One action with its decision, its row here, and its look-ups in the background."""
        rows = self._database.read("look_closely", action_id=action_id)
        if not rows:
            raise NotFound(f"There is no action {action_id}.")
        return seen(rows[0])
