"""Fences: which epoch of a run may act, and whether the run may act at all.

The fence keeps order and stops zombies early. Once-ness does not rest on it but on the stable id, the compare-and-set
claim and never sending twice.
"""

from __future__ import annotations

from onward_ledger.action import Action
from onward_ledger.database import Row
from onward_ledger.errors import StaleEpoch
from onward_ledger.store.claims import withdraw_cancelled
from onward_ledger.store.records import Records, seen
from onward_ledger.values import Fence


def announce(records: Records, run_id: str, epoch: int, holder: str) -> Fence:
    """Older epochs are refused from now on. The same epoch by the same holder again is harmless."""
    row = records.tx.one("announce_epoch", run_id=run_id, epoch=epoch, holder=holder)
    if row is None:
        standing = records.tx.one("read_fence", run_id=run_id)
        assert standing is not None
        raise StaleEpoch(
            f"Epoch {epoch} of run {run_id} cannot be announced by {holder}: "
            f"epoch {standing['epoch']} stands, announced by {standing['holder'] or 'an action'}.",
            fence_epoch=standing["epoch"],
            closed_at=standing["closed_at"],
        )
    return _with_actions(records, row)


def close(records: Records, run_id: str, principal: str, reason: str) -> Fence:
    """Refuse every later claim, and withdraw what is PREPARED, in this very transaction. The first closing stands."""
    row = records.tx.one("close_fence", run_id=run_id, principal=principal, reason=reason)
    assert row is not None
    for prepared in records.tx.all("prepared_of_run", run_id=run_id):
        withdraw_cancelled(records, Action.from_row(prepared), records.now(), row)
    return _with_actions(records, row)


def _with_actions(records: Records, fence: Row) -> Fence:
    actions = tuple(seen(row) for row in records.tx.all("actions_of_run", run_id=fence["run_id"]))
    return Fence.from_row({**fence, "actions": actions})
