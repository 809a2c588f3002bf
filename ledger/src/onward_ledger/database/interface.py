"""What the rest of the code sees of a database, and its errors.

DatabaseError
├── Unreachable     no connection: nothing is known to have happened (indefinite, retryable)
├── MissingRight    the role may not do this; the message holds the GRANT to run (definite)
└── SchemaTooNew    a newer version of this software has been here (definite)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

Row = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """A named statement with its parameters; see `statement`."""

    name: str
    params: dict[str, object]


@dataclass(frozen=True)
class Answer:
    """What a statement returned, and how many rows it returned or changed."""

    rows: list[Row]
    count: int

    @property
    def row(self) -> Row | None:
        """The only row, or None. More than one row is a bug and raises."""
        assert len(self.rows) <= 1, f"{len(self.rows)} rows where one is expected"
        return self.rows[0] if self.rows else None


def statement(name: str, **params: object) -> Statement:
    """One of several statements that are sent together: `at_once(statement("lock_run", run_id=…), …)`."""
    return Statement(name, params)


class DatabaseError(Exception):
    """Root of what a database can refuse."""


class Unreachable(DatabaseError):
    """The database cannot be reached. Whether a statement in flight took effect is unknown."""


class MissingRight(DatabaseError):
    """The role lacks a right. The message holds the GRANT that gives it."""


class SchemaTooNew(DatabaseError):
    """The schema was made by a newer version than this one."""


class Transaction(Protocol):
    """One open transaction. It commits when its `with` block ends and rolls back when the block raises.

    Each question and its answer are one exchange with a server, so ask for as much at once as goes together. Every
    statement of a transaction sees what was committed before it began, not only before the transaction did.
    """

    def all(self, name: str, **params: object) -> list[Row]:
        """Run the named statement and return every row."""
        ...

    def one(self, name: str, **params: object) -> Row | None:
        """Run the named statement; the only row, or None. More than one row is a bug and raises."""
        ...

    def run(self, name: str, **params: object) -> int:
        """Run the named statement and return how many rows it changed."""
        ...

    def at_once(self, *statements: Statement) -> list[Answer]:
        """Run the statements one after the other, in one exchange; the answer of each."""
        ...

    def send(self, name: str, **params: object) -> None:
        """Run the named statement, whose answer nobody needs, with the next one or with the commit.

        An error of it is raised there.
        """
        ...


class Database(Protocol):
    """A store of named statements."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction (SQLite: a write transaction, so that reads in it cannot go stale)."""
        ...

    def at_once(self, *statements: Statement) -> list[Answer]:
        """A whole transaction in one exchange: the statements one after the other, then the commit."""
        ...

    def read(self, name: str, **params: object) -> list[Row]:
        """The rows of one statement that only reads; as `reading`, in one exchange."""
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
