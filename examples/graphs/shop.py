"""The world of the example: orders, a payment provider, a mail provider, a ticket desk. Files in a folder stand in.

Both providers behave as real ones do: without an idempotency key every request is a new refund or a new mail; with
one, the same key again is answered with what it did the first time.
"""

from __future__ import annotations

import getpass
import os
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

FOLDER = Path(os.environ.get("SHOP", Path(tempfile.gettempdir()) / f"onward-example-shop-{getpass.getuser()}"))


def order(order_id: str) -> dict[str, object]:
    """What the shop knows of an order."""
    return {"order_id": order_id, "amount": 49.5, "customer": "ada@example.com"}


def refund(order_id: str, amount: float, key: str | None = None) -> str:
    """Pay back; the id of the refund."""
    return f"re_{_do('refunds', order_id, str(amount), key)}"


def mail(order_id: str, about: str, key: str | None = None) -> None:
    """Send a mail."""
    _do("mails", order_id, about, key)


def close_ticket(order_id: str) -> None:
    """Closing a closed ticket changes nothing."""
    _do("tickets", order_id, "closed", key="ticket")


def _do(what: str, order_id: str, text: str, key: str | None) -> str:
    folder, name = FOLDER / what / order_id, (key or uuid.uuid4().hex).replace("/", ".")
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), (folder / name).open("x") as file:
        file.write(text)
    return name


# --- for verify.py: what happened in the world for one thread, whose id is in the order's id --------------------------


def refunds(thread_id: str) -> list[str]:
    """Amounts that were paid back."""
    return _done("refunds", thread_id)


def mails(thread_id: str) -> list[str]:
    """What mails were about."""
    return _done("mails", thread_id)


def tickets(thread_id: str) -> list[str]:
    """States of tickets."""
    return _done("tickets", thread_id)


def _done(what: str, thread_id: str) -> list[str]:
    folder = FOLDER / what / f"order-{thread_id}"
    return sorted(file.read_text() for file in folder.glob("*"))
