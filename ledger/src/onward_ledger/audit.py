"""The hash chain of an action's history: each event holds the hash of the one before, the action holds the last.

An event that was changed, cut out or put elsewhere breaks the chain; a cut end shows in the action's count and head.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from onward_ledger.action import Action, canonical
from onward_ledger.values import Event

# What the first event of every chain points to: no event has this hash.
FIRST = "0" * 64


def event_hash(event: Event) -> str:
    """The hex sha256 over the canonical JSON of everything in the event but its own hash."""
    members = event.to_json()
    del members["hash"]
    return hashlib.sha256(canonical(members)).hexdigest()


def broken_at(action: Action, events: Iterable[Event]) -> int | None:
    """The first position (from 1) where the history is not what was written; None where all is well."""
    head, position = FIRST, 0
    for position, event in enumerate(events, start=1):
        whole = event.action_id == action.action_id and event.seq == position and event.previous_hash == head
        if not whole or event.hash != event_hash(event):
            return position
        head = event.hash
    return None if (position, head) == (action.events, action.head) else position + 1
