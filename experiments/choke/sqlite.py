"""Statements on SQLite that reach the file: writes, the begin of a writing transaction, commits.

SQLite lives in the process, so reading exchanges nothing with anybody. The connection class is C and cannot be wrapped;
`sqlite3.connect` hands out a subclass instead (aiosqlite calls it too).
"""

from __future__ import annotations

import functools
import re
import sqlite3
from typing import Any

from experiments.boundaries import Watch
from experiments.choke.postgres import statement_label

_READS = re.compile(r"\s*(--[^\n]*\n\s*)*(select|pragma|explain|values)\b", re.IGNORECASE)


def install(watch: Watch) -> None:
    """Watch SQLite in this process: connections that are opened from now on."""
    connection_class = _watched(watch)
    connect = sqlite3.connect

    @functools.wraps(connect)
    def connected(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        kwargs.setdefault("factory", connection_class)
        return connect(*args, **kwargs)

    sqlite3.connect = connected


def _watched(watch: Watch) -> type[sqlite3.Connection]:
    class WatchedCursor(sqlite3.Cursor):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if _READS.match(sql):
                return super().execute(sql, *args)
            with watch.operation(statement_label(sql)):
                return super().execute(sql, *args)

        def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
            with watch.operation(statement_label(sql)):
                return super().executemany(sql, *args)

        def executescript(self, sql: str) -> sqlite3.Cursor:
            with watch.operation("script"):
                return super().executescript(sql)

    class WatchedConnection(sqlite3.Connection):
        def cursor(self, factory: Any = WatchedCursor) -> Any:
            return super().cursor(factory)

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return self.cursor().execute(sql, *args)

        def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return self.cursor().executemany(sql, *args)

        def executescript(self, sql: str) -> sqlite3.Cursor:
            return self.cursor().executescript(sql)

        def commit(self) -> None:
            if not self.in_transaction:
                return super().commit()
            with watch.operation("commit"):
                return super().commit()

        def rollback(self) -> None:
            if not self.in_transaction:
                return super().rollback()
            with watch.operation("rollback"):
                return super().rollback()

        def __exit__(self, *error: Any) -> Any:  # `with connection:` commits in C, past the methods above
            if not self.in_transaction:
                return super().__exit__(*error)
            with watch.operation("commit" if error[0] is None else "rollback"):
                return super().__exit__(*error)

    return WatchedConnection
