"""Looking at the world from outside: our own SQL on the tables, our own hash of the bytes.

Nothing here goes through the code that is on trial, except that the object store's folder is read by its layout
(`drafts/<run id>/<revision>/<file>`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import rfc8785

from experiments.cluster import Cluster
from experiments.evidence import Checkpoint, Record, World

MEDIA_TYPES = {".json": "application/json", ".html": "text/html", ".md": "text/markdown"}

Rows = list[tuple[Any, ...]]

_RUN = "select status from {runs}runs where run_id = ?"
_EPOCHS = "select epoch from {runs}events where run_id = ? and kind = 'claimed' order by seq"
_ERRORS = "select data from {runs}events where run_id = ? and kind = 'error' order by seq"
_CHECKPOINTS = """select checkpoint_id, parent_checkpoint_id from {checkpoints}checkpoints
                  where thread_id = ? and checkpoint_ns = ''"""
_RECORDS = "select step, kind, status, receipt from {ledger}actions where run_id = ? order by created_at, step"
_PUBLICATIONS = "select digest from {ledger}publications where run_id = ? order by publication_id"


def look_at_onward(services: Cluster, run_id: str) -> World:
    """Everything that stands about one run of Onward."""
    settings = services.settings
    runs, ledger = settings.database_url or settings.sqlite_path, settings.database_url or settings.ledger_sqlite_path
    (status,) = _query(runs, _RUN, run_id)[0]
    return World(
        status=str(status),
        effects=services.oracle.effects(run_id),
        checkpoints=_checkpoints(_query(runs, _CHECKPOINTS, run_id)),
        published=tuple(digest for (digest,) in _query(ledger, _PUBLICATIONS, run_id)),
        saved=saved_report(settings.home / "objects", run_id),
        records=tuple(_record(row) for row in _query(ledger, _RECORDS, run_id)),
        epochs=tuple(epoch for (epoch,) in _query(runs, _EPOCHS, run_id)),
        errors=tuple(str(_json(data).get("message")) for (data,) in _query(runs, _ERRORS, run_id)),
    )


def look_at_plain(services: Cluster, thread_id: str, outcome: str) -> World:
    """Everything that stands about one run of the control; it keeps no row of its own, so its end is told."""
    plain = services.plain_dsn if services.settings.store == "postgres" else Path(services.plain_dsn)
    return World(
        status=outcome,
        effects=services.oracle.effects(thread_id),
        checkpoints=_checkpoints(_query(plain, _CHECKPOINTS, thread_id)),
        saved=saved_report(services.folder / "plain-objects", thread_id),
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
    step, kind, status, receipt = row
    digest = _json(receipt)["digest"] if receipt is not None else None
    return Record(step=step, kind=kind, status=str(status), receipt_digest=digest)


def _json(value: Any) -> dict[str, Any]:
    """A JSON column: Postgres reads it, SQLite hands out its text."""
    return json.loads(value) if isinstance(value, str) else value


def _query(place: str | Path, statement: str, run_id: str) -> Rows:
    """Read from an SQLite file (a path) or from Postgres (a connection string)."""
    if isinstance(place, Path):
        sql = statement.format(runs="", ledger="", checkpoints="")
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, (run_id,)).fetchall()
    import psycopg

    checkpoints = "" if "search_path" in place else "onward."
    sql = statement.format(runs="onward.", ledger="onward_ledger.", checkpoints=checkpoints).replace("?", "%s")
    with psycopg.connect(place, autocommit=True) as connection:
        return connection.execute(sql.encode(), (run_id,)).fetchall()
