"""Runs as rows: making, finding and moving them. The row is the truth.

    queued ─▶ running ─▶ succeeded | failed
       ▲       │ ↺ take-over (epoch + 1)
       │       ├──▶ waiting_human ──(decision)──▶ queued
       └───────┤
               └──▶ cancel_requested ──(stop confirmed)──▶ cancelled
    queued, waiting_human ──▶ cancel_requested too: only a holder that saw the fence closed writes `cancelled`

Every transition compares (status, version), and from a driver the epoch. Lock order everywhere: run row, then lease.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from onward_ledger.database import Database, Row, Transaction, statement
from onward_ledger.objects import Objects
from runs import events
from runs.errors import AmbiguousRun, OtherStore, RunNotFound, StateChanged, UnknownTransition, UsageError
from tools.files import Files


class Status(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_HUMAN = "waiting_human"
    CANCEL_REQUESTED = "cancel_requested"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


# The kind of runs of somebody's own graph (see runs.foreign).
FOREIGN = "graph"

FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})

# (from, word, to), in reading order. `claim` keeps the status of a run whose cancelling was asked for.
TRANSITIONS: tuple[tuple[Status, str, Status], ...] = (
    (Status.QUEUED, "claim", Status.RUNNING),
    (Status.RUNNING, "claim", Status.RUNNING),
    (Status.RUNNING, "succeed", Status.SUCCEEDED),
    (Status.RUNNING, "fail", Status.FAILED),
    (Status.RUNNING, "wait", Status.WAITING_HUMAN),
    (Status.RUNNING, "requeue", Status.QUEUED),
    (Status.WAITING_HUMAN, "decide", Status.QUEUED),
    (Status.QUEUED, "request_cancel", Status.CANCEL_REQUESTED),
    (Status.RUNNING, "request_cancel", Status.CANCEL_REQUESTED),
    (Status.WAITING_HUMAN, "request_cancel", Status.CANCEL_REQUESTED),
    (Status.CANCEL_REQUESTED, "claim", Status.CANCEL_REQUESTED),
    (Status.CANCEL_REQUESTED, "confirm_cancel", Status.CANCELLED),
    (Status.CANCEL_REQUESTED, "succeed", Status.SUCCEEDED),  # the effect was claimed before: too late to cancel
    (Status.CANCEL_REQUESTED, "fail", Status.FAILED),
)


def target(before: Status, word: str) -> Status:
    """Where a word leads from a status. An unknown transition is a bug and raises."""
    for source, name, after in TRANSITIONS:
        if source is before and name == word:
            return after
    raise UnknownTransition(f"There is no transition {word!r} from {before}.")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as it stood when it was read, with who drives it (`epoch` … `server_is_young`, null without a lease)."""

    run_id: str
    kind: str
    status: Status
    reason: str | None
    message: str | None
    version: int
    owner: str
    tenant: str
    workflow_version: str
    input_name: str
    input_key: str
    input_digest: str
    input_size: int
    asks: list[str]
    model: str | None
    params: dict[str, Any]
    deadline_at: datetime | None
    budget_micros: int | None
    spent_micros: int
    input_tokens: int
    output_tokens: int
    failures: int
    wake_at: datetime | None
    parent: str | None
    store: str
    objects: str
    ledger: str
    last_seq: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    takeovers: int
    budget_tokens: int | None
    allowed_kinds: list[str] | None
    epoch: int | None
    holder_id: int | None
    expires_at: datetime | None
    missed_at: datetime | None
    lease_seconds: float | None
    host: str | None
    pid: int | None
    process_started: float | None
    driver_kind: str | None
    holder_alive: bool
    server_is_young: bool
    now_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> Run:
        """From a row of the statement `run`."""
        flags = {name: bool(row[name]) for name in ("holder_alive", "server_is_young")}
        values: dict[str, Any] = {**row, **flags, "status": Status(row["status"])}
        return cls(**values)

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.status in FINAL

    @property
    def driven(self) -> bool:
        """Whether the status says that somebody drives it (who may be dead: see `driver`)."""
        return self.status in (Status.RUNNING, Status.CANCEL_REQUESTED)

    @property
    def driver(self) -> str | None:
        """None where nobody needs to drive; else "alive", "hanging" (its lease is over) or "gone"."""
        if not self.driven:
            return None
        if self.holder_id is None or not self.holder_alive:
            return "gone"
        return "alive" if self.expires_at is not None and self.expires_at > self.now_at else "hanging"

    @property
    def tokens(self) -> int:
        """What its model calls have used so far, input and output together, over all epochs."""
        return self.input_tokens + self.output_tokens

    @property
    def input(self) -> dict[str, Any]:
        """The reference to the staged input, as the graph's state holds it."""
        return {
            "name": self.input_name,
            "key": self.input_key,
            "digest": self.input_digest,
            "size": self.input_size,
        }

    def to_json(self) -> dict[str, Any]:
        """Every field, JSON values only; `driver` added."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in values.items()}
        return {**shown, "status": str(self.status), "driver": self.driver}


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """What is decided at creation and never changes. Money in millionths of a dollar.

    `allowed_kinds`: the kinds of effects that the run may use, whoever drives it later; null: any. `wake_seconds`: so
    long the run is left to whoever creates it, before a worker may claim it.
    """

    owner: str
    workflow_version: str
    store: str
    ledger: str
    kind: str = "workbook"
    tenant: str = "default"
    asks: Sequence[str] = ()
    model: str | None = None
    params: dict[str, Any] | None = None
    deadline_at: datetime | None = None
    budget_micros: int | None = None
    budget_tokens: int | None = None
    allowed_kinds: Sequence[str] | None = None
    parent: str | None = None
    wake_seconds: float | None = None


def create(database: Database, objects: Objects, path: Path, new: NewRun) -> Run:
    """Stage the input file, then write the row: a run whose input is missing never exists.

    A kill in between leaves an object that nobody refers to. Raises UsageError when the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"The input {path} cannot be read: {error.strerror}.") from error
    name = os.fsencode(path.name).decode("utf-8", "replace")  # a file's name need not be text
    return create_from(database, objects, data, name, new)


def create_from(database: Database, objects: Objects, data: bytes, name: str, new: NewRun) -> Run:
    """The same from bytes; `name` is what the input is called."""
    run_id = str(uuid.uuid4())
    staged = Files(objects, run_id).put(data)
    row = {field.name: getattr(new, field.name) for field in fields(new)}
    row |= {
        "run_id": run_id,
        "asks": list(new.asks),
        "allowed_kinds": None if new.allowed_kinds is None else list(new.allowed_kinds),
        "params": new.params or {},
        "input_name": name,
        "input_key": staged["key"],
        "input_digest": staged["digest"],
        "input_size": staged["size"],
        "objects": objects.url,
    }
    created = events.numbered(run_id, "created", {})
    *_, made = database.at_once(statement("insert_run", **row), *created, statement("run", run_id=run_id))
    assert made.row is not None
    return Run.from_row(made.row)


def get(database: Database, run_id: str) -> Run:
    """A run by its full id. Raises RunNotFound."""
    rows = database.read("run", run_id=run_id)
    if not rows:
        raise RunNotFound(f"There is no run {run_id}. `onward list` shows the runs there are.")
    return Run.from_row(rows[0])


def find(database: Database, typed: str, *, tenant: str | None = None) -> Run:
    """A run by its full id or by a unique beginning of at least four characters; of one tenant's, or of all.

    Raises RunNotFound, AmbiguousRun (naming some that fit), or UsageError for what cannot be an id.
    """
    prefix = typed.strip().lower()
    if not re.fullmatch(r"[0-9a-f-]{4,36}", prefix):
        raise UsageError(
            f"{typed!r} is not a run id. Give the id, or at least its first four characters; `onward list` shows them."
        )
    found = [row["run_id"] for row in database.read("run_ids_like", prefix=prefix, tenant=tenant)]
    if not found:
        raise RunNotFound(f"There is no run {typed}. `onward list` shows the runs there are.")
    if len(found) > 1:
        raise AmbiguousRun(f"{typed} fits several runs: {', '.join(found)}. Give more of the id.")
    return get(database, found[0])


def list_runs(
    database: Database, *, status: Status | None = None, tenant: str | None = None, limit: int = 50
) -> list[Run]:
    """The newest runs first; of one tenant's, or of all."""
    with database.reading() as tx:
        ids = tx.all("run_ids", status=status, tenant=tenant, limit=limit)
        found = tx.at_once(*(statement("run", run_id=row["run_id"]) for row in ids)) if ids else []
    return [Run.from_row(answer.row) for answer in found if answer.row is not None]


def move(
    tx: Transaction,
    run: Run,
    word: str,
    *,
    epoch: int | None = None,
    reason: str | None = None,
    message: str | None = None,
    failures: int = 0,
    wake_seconds: float | None = None,
) -> bool:
    """One transition with its event, by compare-and-set on what `run` says; False when it no longer holds.

    `epoch` is given by drivers: the transition then also fails when another one has taken over. The caller has sent
    `lock_run` in this transaction.
    """
    after = target(run.status, word)
    moved = tx.run(
        "move_run",
        run_id=run.run_id,
        from_status=str(run.status),
        to_status=str(after),
        version=run.version,
        epoch=epoch,
        reason=reason,
        message=message,
        failures=failures,
        wake_seconds=wake_seconds,
    )
    if moved:
        data = {"from": str(run.status), "to": str(after), "reason": reason}
        events.send(tx, run.run_id, "status", data, epoch=epoch)
    return moved == 1


def transition(
    database: Database, run: Run, word: str, *, reason: str | None = None, message: str | None = None
) -> Run:
    """A transition by somebody who does not drive: a decision arrived, a run is cancelled. Raises StateChanged."""
    with database.transaction() as tx:
        tx.send("lock_run", run_id=run.run_id)
        moved = move(tx, run, word, reason=reason, message=message)
    if not moved:
        now = get(database, run.run_id)
        raise StateChanged(f"The run {run.run_id} has moved to {now.status} meanwhile. Look at it and try again.")
    return get(database, run.run_id)


def refuse_elsewhere(run: Run, *, store: str, objects: str, ledger: str) -> None:
    """Raise OtherStore unless the run was made with this store kind, object store and ledger."""
    here, there = (store, objects, ledger), (run.store, run.objects, run.ledger)
    if here != there:
        raise OtherStore(
            f"The run {run.run_id} was made with store {there[0]}, objects {there[1]} and ledger {there[2]}; this "
            f"installation uses {here[0]}, {here[1]} and {here[2]}. Use the settings that it was made with."
        )


def queue_decided(database: Database, run_id: str) -> Run:
    """waiting_human → queued because somebody decided. Harmless when the run does not wait, or no longer waits."""
    run = get(database, run_id)
    if run.status is not Status.WAITING_HUMAN:
        return run
    try:
        return transition(database, run, "decide")
    except StateChanged:
        return get(database, run_id)
