"""A run's durable history: numbered events that commit in the order of their numbers.

Kinds, and what `data` holds:

    created              {}
    status               {"from", "to", "reason"}                       every transition
    claimed              {"why", "before", "host", "pid", "former_host", "former_pid"}   before: the old epoch or 0
    epoch_raised         {"from", "to"}                                         the ledger's fence was ahead
    settled              {"action_id", "kind", "before", "status"}      what an older epoch had left open
    continued            {"move"}                                       where the driver goes on
    step_started         {"attempt"}        step_finished  {}           progress  {"text", "done", "total"}
    model_call_started   {"call_id", "model"}
    model_call_finished  {"call_id", "finish_reason", "input_tokens", "output_tokens", "cost_usd"}
    receipt, action      {"action_id", "kind", "resource", "status", "replayed", "provider_id", "digest"}
    waiting              {"reason", "action_ids"}
    error                {"error", "message", "definite"}
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward_ledger.database import Database, Row, Transaction

# How many events one read answers at most; ask again behind the last one's seq.
PAGE = 500


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of a run's history. `epoch` is null where no driver wrote it."""

    run_id: str
    seq: int
    epoch: int | None
    kind: str
    step: str | None
    data: dict[str, Any]
    created_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> Event:
        """From a row of `events_after`."""
        return cls(**row)

    def to_json(self) -> dict[str, Any]:
        """The documented form: as the fields, the instant in ISO 8601."""
        return {
            "run_id": self.run_id,
            "seq": self.seq,
            "epoch": self.epoch,
            "kind": self.kind,
            "step": self.step,
            "data": self.data,
            "created_at": self.created_at.isoformat(),
        }


def append(
    tx: Transaction, run_id: str, kind: str, data: dict[str, Any], *, step: str | None = None, epoch: int | None = None
) -> int | None:
    """Add an event inside the caller's transaction; its seq, or None when `epoch` no longer drives the run.

    The caller has executed `lock_run` in this transaction, so the numbers commit in their order.
    """
    row = tx.one("next_seq", run_id=run_id, epoch=epoch)
    if row is None:
        return None
    tx.run("insert_event", run_id=run_id, seq=row["seq"], epoch=epoch, kind=kind, step=step, data=data)
    return int(row["seq"])


def read(database: Database, run_id: str, *, after: int = 0, limit: int = PAGE) -> list[Event]:
    """Events behind the cursor `after`, in order, at most `limit`. A number that was seen hides none before it."""
    with database.reading() as tx:
        rows = tx.all("events_after", run_id=run_id, after=after, limit=limit)
    return [Event.from_row(row) for row in rows]


def read_all(database: Database, run_id: str) -> list[Event]:
    """The whole history."""
    found: list[Event] = []
    while page := read(database, run_id, after=found[-1].seq if found else 0):
        found += page
    return found
