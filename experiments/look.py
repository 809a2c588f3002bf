"""Looking at the world from outside: our own SQL on the tables, our own hash of the bytes.

Nothing here goes through the code that is on trial, except that the object store's folder is read by its layout
(`drafts/<run id>/<revision>/<file>`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rfc8785

from experiments.evidence import Checkpoint, Record, World
from experiments.lane import Lane
from experiments.oracle import Oracle
from runs.settings import Settings

MEDIA_TYPES = {".json": "application/json", ".html": "text/html", ".md": "text/markdown"}

Rows = list[tuple[Any, ...]]
Query = Callable[[str], Rows]

_RUN = "select status, reason from {runs}runs where run_id = ?"
_CLAIMS = "select epoch, created_at from {runs}events where run_id = ? and kind = 'claimed' order by seq"
_ERRORS = "select data from {runs}events where run_id = ? and kind = 'error' order by seq"
_CHECKPOINTS = """select checkpoint_id, parent_checkpoint_id from {checkpoints}checkpoints
                  where thread_id = ? and checkpoint_ns = '' order by checkpoint_id"""
_RECORDS = """select a.step, a.kind, a.status, a.receipt,
                     exists (select 1 from {ledger}action_events e
                             where e.action_id = a.action_id and e.to_status = 'UNKNOWN')
              from {ledger}actions a where a.run_id = ? order by a.created_at, a.step"""
_PUBLICATIONS = "select digest from {ledger}publications where run_id = ? order by publication_id"
_DECISIONS = """select d.decision from {ledger}decisions d join {ledger}actions a using (action_id)
                where a.run_id = ? order by d.decision_id"""


def look_at_onward(lane: Lane, run_id: str) -> World:
    """Everything that stands about one run of Onward."""
    return look_at_run(lane.settings, lane.oracle, run_id, oracle_alone=lane.ledger.spec.plain_provider)


def look_at_run(settings: Settings, oracle: Oracle, run_id: str, *, oracle_alone: bool = False) -> World:
    """The same for a run of any installation whose objects lie in a folder of its home."""
    runs, ledger = settings.database_url or settings.sqlite_path, settings.database_url or settings.ledger_sqlite_path
    with ExitStack() as stack:
        query = stack.enter_context(_reading(runs, run_id))
        ask_ledger = query if ledger == runs else stack.enter_context(_reading(ledger, run_id))
        ((status, reason),) = query(_RUN)
        claims, errors, checkpoints = query(_CLAIMS), query(_ERRORS), query(_CHECKPOINTS)
        records, published, decisions = ask_ledger(_RECORDS), ask_ledger(_PUBLICATIONS), ask_ledger(_DECISIONS)
    return World(
        status=str(status),
        reason=reason,
        effects=oracle.effects(run_id),
        checkpoints=_checkpoints(checkpoints),
        published=tuple(digest for (digest,) in published),
        saved=saved_report(settings.home / "objects", run_id),
        records=tuple(_record(row) for row in records),
        decisions=tuple(str(decision) for (decision,) in decisions),
        claims=tuple((epoch, _instant(at)) for epoch, at in claims),
        errors=tuple(str(_json(data).get("message")) for (data,) in errors),
        oracle_alone=oracle_alone,
    )


def look_at_plain(lane: Lane, thread_id: str, outcome: str) -> World:
    """Everything that stands about one run of the control; it keeps no row of its own, so its end is told."""
    plain = lane.plain_dsn if lane.settings.store == "postgres" else Path(lane.plain_dsn)
    with _reading(plain, thread_id) as query:
        checkpoints = query(_CHECKPOINTS)
    return World(
        status=outcome,
        effects=lane.oracle.effects(thread_id),
        checkpoints=_checkpoints(checkpoints),
        saved=saved_report(lane.folder / "plain-objects", thread_id),
        oracle_alone=True,
    )


def saved_report(objects: Path, run_id: str) -> str | None:
    """The report digest of the newest draft, computed from its bytes; None where there is no draft."""
    drafts = sorted((objects / "drafts" / run_id).glob("*"), key=lambda folder: int(folder.name))
    if not drafts:
        return None
    files = [
        {
            "name": path.name,
            "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
            "media_type": MEDIA_TYPES[path.suffix],
        }
        for path in sorted(drafts[-1].iterdir())
        if path.suffix in MEDIA_TYPES
    ]
    return hashlib.sha256(rfc8785.dumps(files)).hexdigest()


def _checkpoints(rows: Rows) -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(checkpoint_id=row[0], parent_id=row[1]) for row in rows)


def _record(row: Sequence[Any]) -> Record:
    step, kind, status, receipt, was_unknown = row
    digest = _json(receipt).get("digest") if receipt is not None else None
    return Record(step=step, kind=kind, status=str(status), receipt_digest=digest, was_unknown=bool(was_unknown))


def _json(value: Any) -> dict[str, Any]:
    """A JSON column: Postgres reads it, SQLite hands out its text."""
    return json.loads(value) if isinstance(value, str) else value


def _instant(value: Any) -> datetime:
    """An instant of either store, in UTC."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


@contextmanager
def _reading(place: str | Path, run_id: str) -> Generator[Query]:
    """Read from an SQLite file (a path) or from Postgres (a connection string), over one connection."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
            yield lambda statement: connection.execute(
                statement.format(runs="", ledger="", checkpoints=""), (run_id,)
            ).fetchall()
        return
    checkpoints = "" if "search_path" in place else "onward."
    postgres = _connection(place)

    def query(statement: str) -> Rows:
        sql = statement.format(runs="onward.", ledger="onward_ledger.", checkpoints=checkpoints).replace("?", "%s")
        return postgres.execute(sql.encode(), (run_id,)).fetchall()

    yield query


_connections = threading.local()


def _connection(place: str) -> Any:
    """This thread's connection to a database: it looks twice in each case, and a connection costs a process there."""
    import psycopg

    found: dict[str, Any] = _connections.__dict__
    if place not in found or found[place].closed:
        found[place] = psycopg.connect(place, autocommit=True, application_name="onward experiment")
    return found[place]


def close_connections() -> None:
    """Close those of this thread."""
    found: dict[str, Any] = _connections.__dict__
    while found:
        found.popitem()[1].close()
