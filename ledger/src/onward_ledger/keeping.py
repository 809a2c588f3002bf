"""Holding the ledger and releasing it, as values and as operations of the protocol (see protocol.py)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from onward_ledger.action import Json, Value
from onward_ledger.protocol import Operation, Request, exchange

# How long a first send is preceded by a look-up behind a release, unless the person says otherwise.
LOOK_FIRST_DAYS = 30


@dataclass(frozen=True, kw_only=True)
class Identity(Value):
    """The ledger's id, and its last hold and release. It is held, and sends nothing, while `held_at` is set.

    Until `look_first_until_at` a first send is preceded by a look-up, where its kind has one.
    """

    ledger_id: str
    made_at: datetime
    held_at: datetime | None = None
    held_reason: str | None = None
    released_at: datetime | None = None
    released_by: str | None = None
    released_reason: str | None = None
    look_first_until_at: datetime | None = None


def standing() -> Operation[Identity]:
    """How the ledger stands."""
    return Identity.from_json((yield from exchange(Request(method="GET", path="/v1/ledger"))))


def hold(*, reason: str) -> Operation[Identity]:
    """Nothing is claimed from now on; the first reason stands."""
    request = Request(method="POST", path="/v1/ledger/hold", body={"reason": reason})
    return Identity.from_json((yield from exchange(request)))


def release(*, reason: str, look_first_days: float) -> Operation[Identity]:
    """It may send again."""
    body: Json = {"reason": reason, "look_first_days": look_first_days}
    return Identity.from_json((yield from exchange(Request(method="POST", path="/v1/ledger/release", body=body))))
