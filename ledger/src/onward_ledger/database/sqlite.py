"""SQLite behind named statements: one file, one connection per process, write transactions only.

`synchronous=FULL` with WAL: a commit that was acknowledged survives a power cut, as far as the disk obeys fsync.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from onward_ledger.database.interface import Answer, Row, SchemaTooNew, Statement, Unreachable
from onward_ledger.database.statements import load_schema, load_statements

BUSY_TIMEOUT_SECONDS = 10
_POLL_SECONDS = 0.01

# What a function registered on a connection may return.
Scalar = str | bytes | int | float | None

# The oldest SQLite with everything the statements use: RETURNING (3.35) and STRICT tables (3.37).
_OLDEST = (3, 37, 0)


# What the disk or another process is to blame for; every other error is a mistake of ours and stays what it is.
_STORAGE_ERRORS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)


def instant_text(instant: datetime) -> str:
    """The one text form of an instant in SQLite: UTC, microseconds, sortable as text."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant_from_text(text: str) -> datetime:
    """The inverse of `instant_text`."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


class SqliteTransaction:
    """A write transaction."""

    def __init__(
        self, connection: sqlite3.Connection, statements: Mapping[str, str], json_columns: frozenset[str]
    ) -> None:
        self.connection = connection
        self._statements = statements
        self._json_columns = json_columns

    def _execute(self, name: str, params: Mapping[str, object]) -> Answer:
        cursor = self.connection.execute(self._statements[name], {k: _to_sql(v) for k, v in params.items()})
        names = [column[0] for column in cursor.description or ()]
        found = cursor.fetchall()
        rows = [{k: self._from_sql(k, v) for k, v in zip(names, values, strict=True)} for values in found]
        return Answer(rows, cursor.rowcount if cursor.rowcount >= 0 else len(rows))

    def all(self, name: str, **params: object) -> list[Row]:
        """Every row of the named statement."""
        return self._execute(name, params).rows

    def one(self, name: str, **params: object) -> Row | None:
        """The only row of the named statement, or None."""
        return self._execute(name, params).row

    def run(self, name: str, **params: object) -> int:
        """The number of rows that the named statement changed."""
        return self._execute(name, params).count

    def at_once(self, *statements: Statement) -> list[Answer]:
        """The answer of each; a file has no exchanges to save."""
        return [self._execute(each.name, each.params) for each in statements]

    def send(self, name: str, **params: object) -> None:
        """Run it now."""
        self._execute(name, params)

    def _from_sql(self, column: str, value: object) -> object:
        if isinstance(value, str):
            if column.endswith("_at"):
                return instant_from_text(value)
            if column in self._json_columns:
                return json.loads(value)
        return value


class SqliteDatabase:
    """Named statements on one SQLite file.

    `functions` are registered on the connection by name (all take any number of arguments); triggers that call one
    fail closed on a connection that lacks it. `clock` overrides `onward_now()` in tests.
    """

    def __init__(
        self,
        path: Path,
        *,
        folder: Path,
        json_columns: frozenset[str],
        functions: Mapping[str, Callable[..., Scalar]] | None = None,
        clock: datetime | None = None,
    ) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise Unreachable(f"SQLite {sqlite3.sqlite_version} is too old; {'.'.join(map(str, _OLDEST))} is needed.")
        self._folder = folder
        self._statements = load_statements(folder)
        self._json_columns = json_columns
        self._clock = clock
        self._lock = threading.RLock()
        try:
            self._connection = connect(path, {"onward_now": self._now_text, **(functions or {})})
        except sqlite3.DatabaseError as error:
            raise Unreachable(f"The SQLite file {path} cannot be opened: {error}.") from error

    def _now_text(self) -> str:
        return instant_text(self.now())

    @contextmanager
    def transaction(self) -> Generator[SqliteTransaction]:
        """One write transaction; other threads and processes wait for it."""
        with self._begun("begin immediate") as tx:
            yield tx

    def at_once(self, *statements: Statement) -> list[Answer]:
        """One write transaction."""
        with self.transaction() as tx:
            return tx.at_once(*statements)

    def read(self, name: str, **params: object) -> list[Row]:
        """The rows of one statement, on one snapshot."""
        with self.reading() as tx:
            return tx.all(name, **params)

    @contextmanager
    def reading(self) -> Generator[SqliteTransaction]:
        """One snapshot. In WAL mode it waits for no writer, not even for one that was stopped in mid-transaction."""
        with self._begun("begin") as tx:
            yield tx

    @contextmanager
    def _begun(self, begin: str) -> Generator[SqliteTransaction]:
        with self._lock:
            try:
                self._connection.execute(begin)
            except sqlite3.OperationalError as error:
                raise Unreachable(
                    f"The SQLite file cannot be used now ({error}). If that lasts, a process that was stopped in the "
                    "middle of a write (Ctrl-Z) may keep it locked: wake that process or end it."
                ) from error
            try:
                yield SqliteTransaction(self._connection, self._statements, self._json_columns)
                self._connection.execute("commit")
            except BaseException as error:
                # A full disk has ended it already; a commit that failed has not, and would be in the next one's way.
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _STORAGE_ERRORS:
                    raise Unreachable(f"The SQLite file cannot be used: {error}.") from error
                raise

    def migrate(self) -> None:
        """Create or upgrade the schema in one transaction; `user_version` holds its number.

        One that is up to date is only read: a process that was stopped in mid-transaction keeps nobody from looking.
        """
        version, schema_sql, migrations = load_schema(self._folder)
        with self.reading():
            if self._version() == version:
                return
        with self.transaction():
            found = self._version()
            if found > version:
                raise SchemaTooNew(
                    f"The SQLite file is at schema version {found}; this software knows {version}. "
                    "Use the newer version of the software, or another file."
                )
            if found == 0:
                _execute_script(self._connection, schema_sql)
            for number in range((found or version) + 1, version + 1):
                _execute_script(self._connection, migrations[number])
            self._connection.execute(f"pragma user_version = {version:d}")

    def _version(self) -> int:
        return int(self._connection.execute("pragma user_version").fetchone()[0])

    def now(self) -> datetime:
        """The machine's clock, or the test's."""
        return self._clock or datetime.now(UTC)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def connect(path: Path, functions: Mapping[str, Callable[..., Scalar]]) -> sqlite3.Connection:
    """A connection as every user of such a file must open it (also a checkpointer's)."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_SECONDS)
    for name, function in functions.items():
        connection.create_function(name, -1, function)
    try:
        _use_wal(connection)
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """The first user of a new file changes its journal mode, and SQLite itself does not let the others wait for it."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


def _execute_script(connection: sqlite3.Connection, script: str) -> None:
    """Run a script inside the open transaction (`executescript` would commit it first)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _to_sql(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, bool):
        return int(value)
    return value
