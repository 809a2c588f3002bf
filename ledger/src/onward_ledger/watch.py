"""Does the database still know what this machine saw committed? Asked at the start, each second, and by each claim.

A restore from an older backup, a failover to a replica that lost commits, another ledger's database: in each of them
the answer is no, and the ledger is held (see store/identity.py). A crash of the database is none of them, since what it
acknowledged survives it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from onward_ledger.action import Action
from onward_ledger.database import Database, Unreachable
from onward_ledger.keeping import Identity
from onward_ledger.store import identity
from onward_ledger.witness import Mark, Witness

log = logging.getLogger("onward_ledger")

LOOK_SECONDS = 1.0


class Watch:
    """A thread that asks each second, keeps the witness on the disk, and knows how the ledger stands."""

    def __init__(self, database: Database, witness: Witness, known: Identity) -> None:
        self.identity = known
        self._database = database
        self._witness = witness
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-watch", daemon=True)

    def start(self) -> None:
        """Ask about all that any process noted here, then go on asking about what this one notes."""
        self._notice(self._witness.marks())
        self._thread.start()

    def look(self) -> None:
        """One round."""
        self._witness.sync()
        self._notice(self._witness.recent())

    def note(self, action: Action) -> None:
        """A claim was committed; nothing was sent for it yet."""
        self._witness.note(action)

    @property
    def last(self) -> Mark | None:
        """The last claim that this process noted."""
        return self._witness.last

    def refuse(self) -> None:
        """The database does not know the last claim: hold the ledger and raise Held, unless it does know by now."""
        self._notice(self._witness.recent())
        if self.identity.held_reason is not None:
            raise identity.held(self.identity.held_reason)

    def stop(self) -> None:
        """End the thread; the witness is on the disk then."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._witness.close()

    def _notice(self, marks: Sequence[Mark]) -> None:
        known = identity.notice(self._database, [mark.to_json() for mark in marks])
        if known.held_at is not None and self.identity.held_at is None:
            log.error("The ledger is held, nothing is sent: %s", known.held_reason)
        self.identity = known

    def _run(self) -> None:
        failed = False
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.look()
                failed = False
            except Exception as error:
                # A database that is away is told by those who need it. Whatever else it is, once is enough.
                if not failed and not isinstance(error, Unreachable):
                    log.exception("The watch cannot ask the database; it goes on trying.")
                failed = True
