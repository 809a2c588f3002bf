"""The audit trail of a store: every record with its history and its decisions, of one moment, line by line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward_ledger.action import Action, Json, jsonable
from onward_ledger.database import Database, Row, Transaction
from onward_ledger.keeping import Identity
from onward_ledger.signing import Signer
from onward_ledger.trail import VERSION, written
from onward_ledger.values import Event

# Actions that are in memory at a time.
PAGE = 200

# Members of an answer that are no part of a record.
_NOT_RECORDED = ("replayed", "decision", "outbox", "look_ups")


@dataclass(frozen=True, kw_only=True)
class Filter:
    """What is exported: all, or the actions of one run, or those created at an instant and later."""

    run_id: str | None = None
    created_after: datetime | None = None

    def to_json(self) -> Json:
        """The JSON object, as the header keeps it."""
        return {"run_id": self.run_id, "created_after": jsonable(self.created_after)}


def export(database: Database, signer: Signer, wanted: Filter) -> Iterator[bytes]:
    """The lines of a signed trail (see trail.py), of one snapshot, which stays open meanwhile. Memory is bounded."""
    with database.reading() as tx:
        tx.run("one_snapshot")
        yield from written(_lines(tx, signer, wanted), signer.sign)


def _lines(tx: Transaction, signer: Signer, wanted: Filter) -> Iterator[Json]:
    found, clock = tx.one("read_ledger"), tx.one("clock")
    assert clock is not None
    yield {
        "trail": VERSION,
        "ledger": Identity.from_row(found).to_json() if found else None,
        "exported_at": jsonable(clock["now_at"]),
        "filter": wanted.to_json(),
        "public_key": signer.public_text,
    }
    for rows in _pages(
        "run_id", lambda behind: tx.all("export_pruned", run_id=wanted.run_id, behind=behind, limit=PAGE)
    ):
        yield from (_pruned(row) for row in rows)
    chosen = {"run_id": wanted.run_id, "created_after": wanted.created_after, "limit": PAGE}
    for rows in _pages("action_id", lambda behind: tx.all("export_actions", **chosen, behind=behind)):
        yield from _actions(tx, rows)


def _pages(identity: str, ask: Callable[[str | None], list[Row]]) -> Iterator[list[Row]]:
    behind: str | None = None
    while rows := ask(behind):
        yield rows
        behind = str(rows[-1][identity])


def _pruned(row: Row) -> Json:
    return {"pruned_run": str(row["run_id"])} | {k: jsonable(v) for k, v in row.items() if k != "run_id"}


def _actions(tx: Transaction, rows: list[Row]) -> Iterator[Json]:
    ids = [str(row["action_id"]) for row in rows]
    events = _grouped(tx.all("export_events", action_ids=ids))
    decisions = _grouped(tx.all("export_decisions", action_ids=ids))
    for action_id, row in zip(ids, rows, strict=True):
        yield _action(Action.from_row(row), events[action_id], decisions[action_id])


def _action(action: Action, events: list[Row], decisions: list[Row]) -> Json:
    record = {name: value for name, value in action.to_json().items() if name not in _NOT_RECORDED}
    return {
        "action_id": action.action_id,
        "events": action.events,
        "head": action.head,
        "record": record,
        "history": [Event.from_row(event).to_json() for event in events],
        "decisions": [_decision(decision) for decision in decisions],
    }


def _decision(row: Row) -> Json:
    """Every column: also what an answer does not show, such as when it was superseded."""
    return {name: bool(value) if name == "principal_asserted" else jsonable(value) for name, value in row.items()}


def _grouped(rows: list[Row]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        groups[str(row["action_id"])].append(row)
    return groups
