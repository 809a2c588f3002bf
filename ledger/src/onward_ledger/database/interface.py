"""What the rest of the code sees of a database, and its errors.

DatabaseError
├── Unreachable     no connection: nothing is known to have happened (indefinite, retryable)
├── MissingRight    the role may not do this; the message holds the GRANT to run (definite)
└── SchemaTooNew    a newer version of this software has been here (definite)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

Row = dict[str, Any]


class DatabaseError(Exception):
    """Root of what a database can refuse."""


class Unreachable(DatabaseError):
    """The database cannot be reached. Whether a statement in flight took effect is unknown."""


class MissingRight(DatabaseError):
    """The role lacks a right. The message holds the GRANT that gives it."""


class SchemaTooNew(DatabaseError):
    """The schema was made by a newer version than this one."""


class Transaction(Protocol):
    """One open transaction. It commits when its `with` block ends and rolls back when the block raises."""

    def all(self, name: str, **params: object) -> list[Row]:
        """Run the named statement and return every row."""
        ...

    def one(self, name: str, **params: object) -> Row | None:
        """Run the named statement; the only row, or None. More than one row is a bug and raises."""
        ...

    def run(self, name: str, **params: object) -> int:
        """Run the named statement and return how many rows it changed."""
        ...


class Database(Protocol):
    """A store of named statements."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction (SQLite: a write transaction, so that reads in it cannot go stale)."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that only reads, and waits for no writer. What it shows may be over when it ends."""
        ...

    def migrate(self) -> None:
        """Bring the schema to this version, under a lock; refuse a newer one with SchemaTooNew."""
        ...

    def now(self) -> datetime:
        """The database's clock, which decides leases, deadlines and expiry."""
        ...

    def close(self) -> None:
        """Release every connection."""
        ...
