"""The world of the example: orders, a payment provider, a mail provider, a ticket desk. One SQLite file stands in.

Both providers behave as real ones do: without an idempotency key every request is a new refund or a new mail; with
one, the same key again is answered with what it did the first time.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

FILE = Path(os.environ.get("SHOP", Path(tempfile.gettempdir()) / "onward-example-shop.sqlite"))
TABLES = """
create table if not exists refunds (id text primary key, key text unique, order_id text, amount real);
create table if not exists mails (id text primary key, key text unique, order_id text, about text);
create table if not exists tickets (order_id text primary key, status text);
"""


@contextmanager
def _shop() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(FILE, timeout=30)) as connection, connection:
        yield connection


with _shop() as shop:
    shop.executescript(TABLES)


def order(order_id: str) -> dict[str, object]:
    """What the shop knows of an order."""
    return {"order_id": order_id, "amount": 49.5, "customer": "ada@example.com"}


def refund(order_id: object, amount: object, key: str | None = None) -> str:
    """Pay back; the id of the refund."""
    with _shop() as shop:
        shop.execute(
            "insert into refunds values (?, ?, ?, ?) on conflict (key) do nothing",
            (made := f"re_{uuid.uuid4().hex[:8]}", key, order_id, amount),
        )
        found = shop.execute("select id from refunds where id = ? or key = ?", (made, key)).fetchone()
        return str(found[0])


def mail(order_id: object, about: str, key: str | None = None) -> None:
    """Send a mail."""
    with _shop() as shop:
        shop.execute(
            "insert into mails values (?, ?, ?, ?) on conflict (key) do nothing",
            (uuid.uuid4().hex, key, order_id, about),
        )


def close_ticket(order_id: object) -> None:
    """Closing a closed ticket changes nothing."""
    with _shop() as shop:
        shop.execute("insert into tickets values (?, 'closed') on conflict do nothing", (order_id,))


# --- for verify.py: what happened in the world for one thread, whose id is in the order's id --------------------------


def refunds(thread_id: str) -> list[float]:
    """Amounts that were paid back."""
    with _shop() as shop:
        rows = shop.execute("select amount from refunds where order_id = ?", (f"order-{thread_id}",))
        return [row[0] for row in rows]


def mails(thread_id: str) -> list[str]:
    """What mails were about."""
    with _shop() as shop:
        rows = shop.execute("select about from mails where order_id = ?", (f"order-{thread_id}",))
        return [row[0] for row in rows]


def tickets(thread_id: str) -> list[str]:
    """States of tickets."""
    with _shop() as shop:
        rows = shop.execute("select status from tickets where order_id = ?", (f"order-{thread_id}",))
        return [row[0] for row in rows]
