"""Does this machine have what a run needs? Looks, starts nothing, changes nothing.

Every check answers with one line: ok, warn (a run works, or will after what it starts by itself) or fail (a run would
stop here), and says what to do.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from runs.settings import Settings

if TYPE_CHECKING:
    from onward_ledger.database import PostgresDatabase
    from runs.store import Store

Verdict = Literal["ok", "warn", "fail"]

GIGABYTE = 1024**3
PACKAGES = (
    "langgraph",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "langchain-core",
    "psycopg",
    "polars",
    "duckdb",
    "onward-ledger",
)
# A driver refuses to write when its clock is further from the database's than this.
LARGEST_CLOCK_DIFFERENCE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line. `advice` says what to do; it is empty when there is nothing to do."""

    name: str
    verdict: Verdict
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """The documented form: name, verdict (ok | warn | fail), text, advice."""
        return asdict(self)


def examine(settings: Settings) -> Iterator[Check]:
    """Every check, in the order in which a run would meet them."""
    for name, look in _CHECKS:
        try:
            yield from look(settings)
        except Exception as error:
            # A check must not keep the others from being made, whatever it met.
            first = (str(error).splitlines() or [""])[0]
            yield Check(
                name=name, verdict="fail", text=f"{type(error).__name__}: {first}" if first else str(type(error))
            )


def _ok(name: str, text: str) -> Check:
    return Check(name=name, verdict="ok", text=text)


def _python(settings: Settings) -> Iterator[Check]:
    yield _ok("python", f"{'.'.join(map(str, sys.version_info[:3]))} in {sys.prefix}")
    if sys.prefix == sys.base_prefix:
        yield Check(
            name="environment",
            verdict="warn",
            text="This Python is not in a virtual environment.",
            advice="Start the command with `uv run onward`.",
        )


def _packages(settings: Settings) -> Iterator[Check]:
    found: list[str] = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            yield Check(name="packages", verdict="fail", text=f"{package} is not installed", advice="Run: uv sync")
    yield _ok("packages", ", ".join(found))


def _existing(path: Path) -> Path:
    """The path itself, or its nearest folder that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _home(settings: Settings) -> Iterator[Check]:
    home = settings.home
    name = "data folder"
    choose = "Set ONWARD_HOME to a folder of your own."
    place = _existing(home)
    if not place.is_dir():
        yield Check(name=name, verdict="fail", text=f"{place} is not a folder", advice=choose)
        return
    if not _writable(place):
        yield Check(name=name, verdict="fail", text=f"{place} cannot be written", advice=choose)
        return
    if place != home:
        yield _ok(name, f"{home} (made by the first run)")
        return
    status = home.stat()
    if status.st_uid != os.geteuid():
        yield Check(name=name, verdict="fail", text=f"{home} belongs to another account", advice=choose)
    elif stat.S_IMODE(status.st_mode) & 0o077:
        yield Check(
            name=name,
            verdict="warn",
            text=f"{home} can be entered by other accounts",
            advice=f"The next run closes it; or: chmod 700 {home}",
        )
    else:
        yield _ok(name, str(home))


def _writable(folder: Path) -> bool:
    # Asking for the right says yes to root even on a read-only disk; so a nameless file is made.
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _disk(settings: Settings) -> Iterator[Check]:
    free = shutil.disk_usage(_existing(settings.home)).free
    text = f"{free / GIGABYTE:.1f} GB free at {settings.home}"
    if free < 0.2 * GIGABYTE:
        yield Check(name="disk", verdict="fail", text=text, advice="Make room, or set ONWARD_HOME elsewhere.")
    elif free < GIGABYTE:
        yield Check(name="disk", verdict="warn", text=text, advice="A large workbook may need more.")
    else:
        yield _ok("disk", text)


def _memory(settings: Settings) -> Iterator[Check]:
    import psutil

    free = psutil.virtual_memory().available
    text = f"{free / GIGABYTE:.1f} GB available"
    if free < 0.6 * GIGABYTE:
        yield Check(name="memory", verdict="warn", text=text, advice="A workbook of 200,000 rows needs about 0.5 GB.")
    else:
        yield _ok("memory", text)


def _postgres(settings: Settings) -> Iterator[Check]:
    if settings.store == "sqlite":
        yield _ok("postgres", "not needed: the store is sqlite")
        return
    if settings.database_url is not None:
        yield _ok("postgres", "DATABASE_URL names a server")
        return
    from runs.local_postgres import locate_binaries, status

    found = status(settings.home)
    yield _ok("postgres programs", str(locate_binaries()))
    if found.dsn is not None:
        yield _ok("postgres server", f"runs as process {found.pid}, data in {found.data}")
    elif found.pid is not None:
        yield Check(
            name="postgres server",
            verdict="warn",
            text=f"process {found.pid} lives and does not answer",
            advice=f"It may be starting; else see {found.log}.",
        )
    else:
        yield _ok("postgres server", "not running; the next command that needs it starts it")


def _database(settings: Settings) -> Iterator[Check]:
    if settings.store == "sqlite":
        yield from _sqlite_database(settings)
        return
    from runs.local_postgres import status
    from runs.store import PostgresStore

    dsn = settings.database_url or status(settings.home).dsn
    if dsn is None:
        return
    from onward_ledger.database import Unreachable

    try:
        with closing(PostgresStore(dsn).database("onward doctor")) as database:
            yield from _postgres_database(database)
    except Unreachable as error:
        advice = "Check DATABASE_URL." if settings.database_url else "See postgres.log in the data folder."
        yield Check(name="database", verdict="fail", text=str(error), advice=advice)


def _postgres_database(database: PostgresDatabase) -> Iterator[Check]:
    from onward_ledger.database.postgres import PostgresTransaction
    from runs.store import POSTGRES_ENGINE

    with database.connection() as connection:
        number = connection.info.server_version
        yield _ok("database", f"answers; PostgreSQL {number // 10000}.{number % 10000}")
        engine = PostgresTransaction(connection, POSTGRES_ENGINE)
        tables = engine.one("has_checkpoints")
        if tables is None or not tables["found"]:
            yield _ok("fence", "no checkpoints yet; the first run installs it")
            return
        yield _fence([str(row["name"]) for row in engine.all("unfenced_tables")])
    yield _clock(database.now())


def _fence(unfenced: list[str]) -> Check:
    if unfenced:
        return Check(
            name="fence",
            verdict="fail",
            text=f"the trigger is missing on {', '.join(unfenced)}: a late driver could write there",
            advice="Start any run: the set-up installs it again. Find out who removed it.",
        )
    return _ok("fence", "every checkpoint table carries the trigger")


def _clock(now: datetime) -> Check:
    difference = abs((datetime.now(UTC) - now).total_seconds())
    text = f"{difference:.2f} s between this machine and the database"
    if difference > LARGEST_CLOCK_DIFFERENCE_SECONDS:
        return Check(
            name="clock", verdict="fail", text=text, advice="Set the clocks by NTP; no run is driven until then."
        )
    return _ok("clock", text)


def _versions(settings: Settings) -> Iterator[Check]:
    """Runs that nobody would drive: their workflow version went with the release that had it."""
    import sqlite3

    import psycopg

    from onward_ledger.database import Unreachable
    from runs.served import SERVED, unserved_versions

    store = _store_as_it_is(settings)
    if store is None:
        return
    try:
        with closing(store.database("onward doctor")) as database:
            unserved = unserved_versions(database)
    except (Unreachable, psycopg.errors.UndefinedTable, sqlite3.OperationalError):
        return  # said above, or the tables come with the next command
    for name, runs in unserved.items():
        yield Check(
            name="workflow versions",
            verdict="warn",
            text=f"{runs} runs are of version {name}, which nobody serves; they are not tried",
            advice="Start a worker of a release that serves it, or bring each over: onward migrate RUN_ID --to VERSION",
        )
    if not unserved:
        yield _ok("workflow versions", f"every run that has not ended is served; this software has {', '.join(SERVED)}")


def _store_as_it_is(settings: Settings) -> Store | None:
    """The store, if it is there; nothing is started or made."""
    from runs.local_postgres import status
    from runs.store import PostgresStore, SqliteStore

    if settings.store == "sqlite":
        return SqliteStore(settings.sqlite_path, settings.locks) if settings.sqlite_path.exists() else None
    dsn = settings.database_url or status(settings.home).dsn
    return PostgresStore(dsn) if dsn is not None else None


def _sqlite_database(settings: Settings) -> Iterator[Check]:
    if not settings.sqlite_path.exists():
        yield _ok("database", f"{settings.sqlite_path} (made by the first run)")
        return
    from onward_ledger.database.sqlite import SqliteTransaction, connect
    from runs.store import JSON_COLUMNS, SQLITE_ENGINE

    with closing(connect(settings.sqlite_path, {})) as connection:
        yield _ok("database", str(settings.sqlite_path))
        engine = SqliteTransaction(connection, SQLITE_ENGINE, JSON_COLUMNS)
        yield _fence([str(row["name"]) for row in engine.all("unfenced_tables")])


def _objects(settings: Settings) -> Iterator[Check]:
    url = settings.objects_url
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        folder = Path(unquote(parts.path))
        if _writable(_existing(folder)):
            yield _ok("object store", str(folder))
        else:
            yield Check(
                name="object store",
                verdict="fail",
                text=f"{folder} cannot be written",
                advice="Set ONWARD_OBJECTS to a folder or an object store that can.",
            )
        return
    from onward_ledger.objects import Objects

    # The same small object each time: to know that a remote store takes writes, one has to be made.
    Objects(url).put_once("doctor/probe", b"onward doctor\n")
    yield _ok("object store", f"{url} takes writes (object doctor/probe)")


def _ledger(settings: Settings) -> Iterator[Check]:
    from runs.local_ledger import look

    found = look(settings)
    if found is None:
        if settings.ledger_url is not None:
            yield Check(
                name="ledger",
                verdict="fail",
                text=f"{settings.ledger_url} does not answer",
                advice="Start it, or unset ONWARD_LEDGER_URL to use a local one.",
            )
        else:
            yield _ok("ledger", "not running; the next command that needs it starts it")
        return
    if found.held:
        yield Check(
            name="ledger",
            verdict="fail",
            text="is held and sends nothing: its database was restored, or an operator held it",
            advice="Compare what was done with what is recorded, then: onward ledger release --reason TEXT",
        )
        return
    yield _ok("ledger", f"answers; version {found.version}, store {found.store}, process {found.pid}")


_CHECKS: tuple[tuple[str, Callable[[Settings], Iterator[Check]]], ...] = (
    ("python", _python),
    ("packages", _packages),
    ("data folder", _home),
    ("disk", _disk),
    ("memory", _memory),
    ("postgres", _postgres),
    ("database", _database),
    ("workflow versions", _versions),
    ("object store", _objects),
    ("ledger", _ledger),
)
