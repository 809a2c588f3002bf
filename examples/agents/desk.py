"""The world of the example: a ticket desk and a mail provider. Files in a folder stand in.

Both behave as real ones do. The desk takes an idempotency key: the same key again is answered with the ticket that it
opened the first time. The mail provider sends whatever it is given, as often as it is given, and can be searched.
"""

from __future__ import annotations

import getpass
import json
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("DESK", Path(tempfile.gettempdir()) / f"onward-example-desk-{getpass.getuser()}"))

# What the mail provider promises: a request is over after this, and a search shows at once what was sent.
TIMES = {"deadline_seconds": 2.0, "request_lifetime_seconds": 0.5, "settle_window_seconds": 0.0}


def open_ticket(title: str, key: str | None = None) -> str:
    """Open a ticket; its number."""
    for ticket in _done("tickets"):
        if key is not None and ticket["key"] == key:
            return ticket["number"]
    number = f"T-{uuid.uuid4().hex[:8]}"
    _do("tickets", {"number": number, "title": title, "key": key})
    return number


def send_mail(to: str, text: str, reference: str | None = None) -> str:
    """Send a mail; what the provider says."""
    _do("mails", {"to": to, "text": text, "reference": reference})
    return f"sent to {to}"


def mails_with(reference: str) -> list[str]:
    """What the provider said of each mail with this reference."""
    return [f"sent to {mail['to']}" for mail in _done("mails") if mail["reference"] == reference]


def _do(what: str, item: dict[str, Any]) -> None:
    """One line, on disk before anybody is answered."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    line = json.dumps(item).encode() + b"\n"
    file = os.open(FOLDER / what, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def _done(what: str) -> list[dict[str, Any]]:
    path = FOLDER / what
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# --- for verify.py: what happened in the world for one thread, whose id is in what the user wrote ---------------------


def tickets(thread_id: str) -> list[str]:
    """Titles of tickets."""
    return [ticket["title"] for ticket in _done("tickets") if thread_id in ticket["title"]]


def mails(thread_id: str) -> list[str]:
    """To whom mails were sent."""
    return [mail["to"] for mail in _done("mails") if thread_id in mail["text"]]
