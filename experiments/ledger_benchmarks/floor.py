"""The floor: what nobody can do without who performs an action over HTTP and records it.

A ping is `GET /health` of the same service over the same kind of connection. A commit is one statement of psycopg in
autocommit mode that writes a small row, on a connection that is kept. How many commits an action has is counted at the
server, by its transaction numbers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from experiments.benchmarks.server import Connection, transactions
from experiments.ledger_benchmarks.place import PARAMS, Place

COUNTED_OVER = 10
KNOWN = "00000000-0000-0000-0000-000000000000"  # the row that the floor of a replay reads


@dataclass(frozen=True, kw_only=True)
class Floor:
    """`commits` is how many a fresh action makes."""

    place: Place
    connection: Connection
    commits: int

    def ping(self) -> None:
        """One answer that needs no database."""
        self.place.ask(self.place.get("/health"))

    def commit(self) -> None:
        """One small row, on disk."""
        row = (str(uuid.uuid4()), json.dumps(PARAMS))
        self.connection.execute("insert into floor (id, params) values (%s, %s)", row)

    def fresh(self) -> None:
        """A ping, and as many commits as a fresh action makes."""
        self.ping()
        for _ in range(self.commits):
            self.commit()

    def replay(self) -> None:
        """A ping and one read."""
        self.ping()
        self.connection.execute("select params from floor where id = %s", (KNOWN,)).fetchone()


@contextmanager
def open_floor(place: Place) -> Generator[Floor]:
    """The floor of what this service does, in its own database."""
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("create table floor (id uuid primary key, params json not null)")
        connection.execute("insert into floor (id, params) values (%s, %s)", (KNOWN, json.dumps(PARAMS)))
        yield Floor(place=place, connection=connection, commits=_commits(place, connection))


def _commits(place: Place, connection: Connection) -> int:
    place.ask(place.fresh())
    began = transactions(connection)
    for _ in range(COUNTED_OVER):
        place.ask(place.fresh())
    return round((transactions(connection) - began) / COUNTED_OVER)
