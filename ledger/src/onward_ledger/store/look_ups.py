"""Look-ups in the background: which UNKNOWN actions are to be asked about next, how often, and what was answered.

They stand beside the record and leave its version alone: an operator's word on what was seen in `show` stays valid.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from onward_ledger.action import Action
from onward_ledger.database import Database, statement
from onward_ledger.store.records import seen

# The first look-up comes this long behind the moment when the action became UNKNOWN; its driver may ask before.
FIRST_SECONDS = 1.0

# Who takes a look-up and dies on the way leaves it to others after this long. That two ask at once does no harm.
HOLD_SECONDS = 15.0


class LookUps:
    """The rows, as the sweeper sees and changes them. May be shared by threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, me: str, *, kinds: list[str], asked_kinds: list[str], limit: int) -> list[Action]:
        """Actions in flight whose deadline is over or whose sender is gone, and UNKNOWN ones to be asked about now.

        `kinds` are those that this ledger performs, `asked_kinds` those of them that can be looked up. `me` is never
        gone.
        """
        mine = {"me": me, "kinds": kinds, "asked_kinds": asked_kinds, "first_seconds": FIRST_SECONDS, "limit": limit}
        return [seen(row) for row in self._database.read("due_for_sweep", **mine)]

    def unsettled(self, run_id: str) -> list[Action]:
        """What a run has in flight or UNKNOWN."""
        return [seen(row) for row in self._database.read("unsettled_of_run", run_id=run_id)]

    def take(self, action_id: str) -> int | None:
        """How often it was asked about; None when another instance does it now."""
        held_until = self._database.now() + timedelta(seconds=HOLD_SECONDS)
        (taken,) = self._database.at_once(statement("take_look_up", action_id=action_id, held_until=held_until))
        return taken.row["count"] if taken.row is not None else None

    def note(self, action_id: str, *, answer: str, again_at: datetime | None) -> None:
        """One look-up more. `again_at` None: no more of them; a person settles it."""
        self._database.at_once(statement("note_look_up", action_id=action_id, answer=answer, again_at=again_at))
