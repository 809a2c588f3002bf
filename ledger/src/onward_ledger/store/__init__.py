"""The store: records in Postgres or SQLite, by the same statements under the same names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import onward_ledger
from onward_ledger.database import Database, PostgresDatabase, SqliteDatabase
from onward_ledger.database.sqlite import instant_from_text, instant_text
from onward_ledger.errors import BadRequest
from onward_ledger.store.liveness import FileLock, Liveness, SessionLock
from onward_ledger.store.store import Store

SCHEMA = "onward_ledger"

# The statements of a fresh action, of a replay, and of what moves a record: prepared on each connection.
OVER_AND_OVER = (
    "glance",
    "insert_action",
    "insert_event_if_written",
    "update_action",
    "share_fence",
    "lock_action",
    "standing_decision",
    "outbox_entry",
    "clock",
    "insert_event",
)
_SQL = Path(onward_ledger.__file__).parent / "sql"
_JSON_COLUMNS = frozenset({"params", "receipt", "detail", "standing", "objects", "outbox", "look_ups"})


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An opened store: `kind` is postgres or sqlite."""

    kind: str
    database: Database
    store: Store
    liveness: Liveness


def open_store(url: str, *, schema: str = SCHEMA, clock: datetime | None = None) -> Opened:
    """Open what a URL names: `postgresql://…`, a libpq connection string, or `sqlite:///path`. `clock` is for tests."""
    if url.startswith("sqlite:"):
        path = _sqlite_path(url)
        sqlite = SqliteDatabase(
            path, folder=_SQL / "sqlite", json_columns=_JSON_COLUMNS, functions={"onward_behind": _behind}, clock=clock
        )
        return Opened(kind="sqlite", database=sqlite, store=Store(sqlite), liveness=FileLock(path))
    name = "onward-ledger"
    folder = _SQL / "postgres"
    postgres = PostgresDatabase(
        url, schema=schema, folder=folder, application_name=name, clock=clock, prepared=OVER_AND_OVER
    )
    liveness = SessionLock(postgres.conninfo)
    return Opened(kind="postgres", database=postgres, store=Store(postgres), liveness=liveness)


def _behind(stored_at: str) -> str:
    """The next instant: what comes behind this one in a line of the outbox."""
    return instant_text(instant_from_text(stored_at) + timedelta(microseconds=1))


def _sqlite_path(url: str) -> Path:
    if not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
        raise BadRequest(f"{url} names no file; write sqlite:///relative.db or sqlite:////absolute/path.db.")
    path = Path(url.removeprefix("sqlite:///")).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.resolve()


__all__ = ["SCHEMA", "Opened", "Store", "open_store"]
