"""Counting what goes to Postgres and back: every wait of psycopg that really waits is an exchange."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest


@dataclass
class Exchanges:
    """How many there were: messages with their answers, and new connections."""

    count: int = 0
    connections: int = 0


def _noting(inner, exchanges: Exchanges):
    """The same generator, which notes that it had to wait: psycopg drives it until it needs nothing from outside."""
    try:
        wanted = next(inner)
        exchanges.count += 1
        while True:
            ready = yield wanted
            wanted = inner.send(ready)
    except StopIteration as end:
        return end.value


@contextmanager
def exchanges() -> Iterator[Exchanges]:
    """`with exchanges() as seen: …`: those of every thread of this process."""
    seen = Exchanges()
    wait, connect = psycopg.Connection.wait, psycopg.Connection.connect.__func__

    def counted(self, generator, *more, **named):
        return wait(self, _noting(generator, seen), *more, **named)

    def connected(cls, *more, **named):
        seen.connections += 1
        return connect(cls, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "wait", counted)
        patch.setattr(psycopg.Connection, "connect", classmethod(connected))
        yield seen
