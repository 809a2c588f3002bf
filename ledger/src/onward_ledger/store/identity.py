"""Which ledger this is, and whether it may send.

The id is made once and stays with the records: copies and backups of a database are the same ledger. A database that
was restored from an older backup has forgotten sends; once that is noticed (see watch.py) the ledger is held, and
nothing is claimed until a person releases it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta

from onward_ledger.action import Json
from onward_ledger.database import Database, Row, statement
from onward_ledger.errors import Conflict, Held
from onward_ledger.keeping import LOOK_FIRST_DAYS, Identity


def ensure(database: Database) -> Identity:
    """The ledger's identity; a new database gets one."""
    made, found = database.at_once(
        statement("ensure_ledger", ledger_id=str(uuid.uuid4())),
        statement("read_ledger"),
    )
    assert found.row is not None, f"the ledger has no identity, though {made.count} was made"
    return Identity.from_row(found.row)


def state(database: Database) -> Identity | None:
    """The identity as it stands; None in a database that no service has used yet."""
    rows = database.read("read_ledger")
    return Identity.from_row(rows[0]) if rows else None


def hold(database: Database, reason: str) -> Identity:
    """Nothing is claimed from now on. The first reason stands."""
    ensure(database)
    _, found = database.at_once(statement("hold_ledger", reason=reason), statement("read_ledger"))
    assert found.row is not None
    return Identity.from_row(found.row)


def held(reason: str) -> Held:
    """What is answered instead of a claim."""
    return Held(
        f"Nothing is sent: {reason.rstrip('.')}. Once you know what is lost, run: onward-ledger release --reason …"
    )


def release(database: Database, *, principal: str, reason: str, look_first_days: float = LOOK_FIRST_DAYS) -> Identity:
    """It may send again; what was lost up to now is known to be lost. Until then a first send is looked up before it.

    The same word again is answered with what stands; another one is a Conflict when the ledger is not held.
    """
    until = database.now() + timedelta(days=look_first_days)
    done, found = database.at_once(
        statement("release_ledger", principal=principal, reason=reason, look_first_until_at=until),
        statement("read_ledger"),
    )
    identity = Identity.from_row(found.row) if found.row else None
    if identity is None or (
        done.count == 0 and (identity.released_by, identity.released_reason) != (principal, reason)
    ):
        raise Conflict("The ledger is not held; there is nothing to release.")
    return identity


def notice(database: Database, events: Sequence[Json]) -> Identity:
    """How the ledger stands, once the database was asked about events that were committed: held if it forgot one.

    What it may have forgotten without being held for it, the statement `forgotten` says.
    """
    rows = database.read("forgotten", events=list(events)) if events else []
    known = state(database)
    if rows and (known is None or known.held_at is None):
        known = hold(database, _why(rows))
    return known or ensure(database)


def _why(forgotten: list[Row]) -> str:
    """The reason of a hold, from what the database has forgotten (the newest first)."""
    newest = forgotten[0]
    if newest["found_ledger_id"] != newest["ledger_id"]:
        found = f"the ledger {newest['found_ledger_id']}" if newest["found_ledger_id"] else "a new ledger"
        return f"This machine has worked with the ledger {newest['ledger_id']}, and the database is {found}."
    return (
        f"The database has forgotten {len(forgotten)} of the last claims that this machine saw committed, the newest "
        f"of {newest['recorded_at'].isoformat(timespec='seconds')}: it was restored from an older backup, or a replica "
        "took over that had not received them."
    )
