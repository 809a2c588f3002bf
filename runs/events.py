"""A run's durable history: numbered events that commit in the order of their numbers.

Kinds, and what `data` holds:

    created              {}
    status               {"from", "to", "reason"}                       every transition
    looked               {"cancel", "owner", "seconds_left", "micros_left", "tokens_left", "version"}   runs.looking
    claimed              {"why", "before", "host", "pid", "former_host", "former_pid"}   before: the old epoch or 0
    epoch_raised         {"from", "to"}                                         the ledger's fence was ahead
    announced            {"actions", "unsettled"}                       what the ledger has recorded of the run
    settled              {"action_id", "kind", "before", "status"}      what an older epoch had left open
    continued            {"move"}                                       where the driver goes on
    step_started         {"attempt"}        step_finished  {}           progress  {"text", "done", "total"}
    model_call_started   {"call_id", "model"}
    model_call_finished  {"call_id", "finish_reason", "input_tokens", "output_tokens", "cost_usd"}
    receipt, action      {"action_id", "kind", "resource", "status", "replayed", "provider_id", "digest"}
    waiting              {"reason", "action_ids"}
    asked                {"questions": [{"question_id", "node", "kind", "value", "allowed"}]}   by somebody's graph
    answered             {"question_id", "value", "principal"}          by a person
    result               {"values", "object"}                           what somebody's graph ended with
    migrated             {"from", "to", "checkpoint_id"}                to another workflow version
    forked               {"parent", "step", "checkpoint_id", "changes"} the first of a fork, behind `created`
    cancel_requested     {"principal", "reason"}                        somebody wants it stopped
    cancel_report        {"principal", "reason", "closed_at", "sent", "compensations", "unknown", "withdrawn"}
    poison               {"takeovers", "evidence"}                      set aside; the last events before
    driver_ended         {"pid", "exit_code", "seconds"}                a worker saw it end without a word
    error                {"error", "message", "definite"}
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward_ledger.database import Database, Row, Statement, Transaction, statement

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


def numbered(
    run_id: str, kind: str, data: dict[str, Any], *, step: str | None = None, epoch: int | None = None
) -> tuple[Statement, Statement]:
    """The statements that add an event. The first returns its `seq`; no row when `epoch` no longer drives the run.

    `lock_run` stands before them in the same transaction, so the numbers commit in their order.
    """
    return (
        statement("next_seq", run_id=run_id, epoch=epoch),
        statement("insert_event", run_id=run_id, epoch=epoch, kind=kind, step=step, data=data),
    )


def append(
    tx: Transaction, run_id: str, kind: str, data: dict[str, Any], *, step: str | None = None, epoch: int | None = None
) -> int | None:
    """Add an event inside the caller's transaction; its seq, or None when `epoch` no longer drives the run.

    The caller has executed `lock_run` in this transaction.
    """
    number, _ = tx.at_once(*numbered(run_id, kind, data, step=step, epoch=epoch))
    return int(number.row["seq"]) if number.row else None


def send(tx: Transaction, run_id: str, kind: str, data: dict[str, Any], *, epoch: int | None = None) -> None:
    """Add an event with whatever this transaction does next, where it has just compared the epoch."""
    for each in numbered(run_id, kind, data, epoch=epoch):
        tx.send(each.name, **each.params)


def read(database: Database, run_id: str, *, after: int = 0, limit: int = PAGE) -> list[Event]:
    """Events behind the cursor `after`, in order, at most `limit`. A number that was seen hides none before it."""
    rows = database.read("events_after", run_id=run_id, after=after, limit=limit)
    return [Event.from_row(row) for row in rows]


def last_of(database: Database, run_id: str, count: int) -> list[Event]:
    """The last events of a run, oldest first."""
    rows = database.read("last_events", run_id=run_id, limit=count)
    return [Event.from_row(row) for row in reversed(rows)]


def read_all(database: Database, run_id: str) -> list[Event]:
    """The whole history."""
    found: list[Event] = []
    while page := read(database, run_id, after=found[-1].seq if found else 0):
        found += page
    return found
