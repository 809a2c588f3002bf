"""Fences: which epoch of a run may act, and whether the run may act at all.

The fence keeps order and stops zombies early. Once-ness does not rest on it but on the stable id, the compare-and-set
claim and never sending twice.
"""

from __future__ import annotations

from onward_ledger.action import Action
from onward_ledger.database import Database, Row, statement
from onward_ledger.errors import StaleEpoch
from onward_ledger.store.outcomes import withdraw_cancelled
from onward_ledger.store.records import Records, seen
from onward_ledger.values import Fence


def announce(database: Database, run_id: str, epoch: int, holder: str) -> Fence:
    """Older epochs are refused from now on. The same epoch by the same holder again is harmless."""
    announced, fence, actions = database.at_once(
        statement("announce_epoch", run_id=run_id, epoch=epoch, holder=holder),
        statement("read_fence", run_id=run_id),
        statement("actions_of_run", run_id=run_id),
    )
    if announced.row is None:
        standing = fence.row
        assert standing is not None
        raise StaleEpoch(
            f"Epoch {epoch} of run {run_id} cannot be announced by {holder}: "
            f"epoch {standing['epoch']} stands, announced by {standing['holder'] or 'an action'}.",
            fence_epoch=standing["epoch"],
            closed_at=standing["closed_at"],
        )
    return _fence(announced.row, actions.rows)


def close(records: Records, run_id: str, principal: str, reason: str) -> Fence:
    """Refuse every later claim, and withdraw what is PREPARED, in this very transaction. The first closing stands.

    A compensation that waits to be sent stays: it undoes what the run has done.
    """
    row = records.tx.one("close_fence", run_id=run_id, principal=principal, reason=reason)
    assert row is not None
    for prepared in map(Action.from_row, records.tx.all("prepared_of_run", run_id=run_id)):
        if not prepared.key.is_undo:
            withdraw_cancelled(records, prepared, records.now(), row)
    return _fence(row, records.tx.all("actions_of_run", run_id=run_id))


def _fence(row: Row, actions: list[Row]) -> Fence:
    return Fence.from_row({**row, "actions": tuple(seen(action) for action in actions)})
