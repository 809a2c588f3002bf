"""The kind `ledger.note`: a fact is kept in the ledger, under a stable id, once.

Class transactional: the record itself is the effect, so there is nothing that could be there without it. For what has
to be said once and found again, and for trying a ledger out: it needs no configuration.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from onward_ledger.action import Action, Json
from onward_ledger.canonical import canonical
from onward_ledger.database import Transaction
from onward_ledger.providers.interface import Applied, Sound, TransactionalProvider, Verdict


class LedgerNote(TransactionalProvider):
    """Params: any JSON object; the resource says what the note is about."""

    kind = "ledger.note"

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Whatever is small enough to be recorded can be noted."""

    def verify(self, action: Action) -> Verdict:
        """There is nothing outside of the record."""
        return Sound()

    def apply(self, tx: Transaction, action: Action, now: datetime) -> Applied:
        """The commit that records this is the effect."""
        digest = hashlib.sha256(canonical(action.params)).hexdigest()
        return Applied(provider_id=f"note-{action.action_id}", receipt={"digest": digest, "noted_at": now.isoformat()})
