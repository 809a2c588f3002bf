"""Removal by age: records of runs that are over go, and what keeps them from being sent again stays.

A key must outlive every retry. So only runs go whose fence is closed (nothing is performed for them any more), whose
records are all final, and that nothing has touched since the given instant. The fence row stays for ever: a request for
such a run is refused (FenceClosed), never sent. Publications stay too; they are the effect itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from onward_ledger.action import Json
from onward_ledger.database import Database, statement

# Runs that go in one transaction: services that want one of their rows wait for it.
BATCH = 100

# Referring rows before the rows that they refer to.
_REMOVALS = (
    "prune_feed",
    "prune_look_ups",
    "prune_outbox",
    "unbind_approvals",
    "prune_decisions",
    "prune_events",
    "prune_actions",
    "prune_grants",
    "mark_pruned",
)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """How much was removed, or would be. `events` and `decisions` are those of `actions`."""

    runs: int = 0
    actions: int = 0
    events: int = 0
    decisions: int = 0

    def __add__(self, other: Removal) -> Removal:
        return Removal(**{name: value + getattr(other, name) for name, value in self.to_json().items()})

    def to_json(self) -> Json:
        """The JSON object."""
        return dict(self.__dict__)


def prunable(database: Database, before: datetime, *, most: int = 2**31) -> list[str]:
    """The runs that may go, the longest closed first."""
    return [str(row["run_id"]) for row in database.read("prunable_runs", before=before, limit=most)]


def count(database: Database, runs: list[str]) -> Removal:
    """What the ledger holds of these runs."""
    total = Removal()
    for start in range(0, len(runs), BATCH):
        some = runs[start : start + BATCH]
        (row,) = database.read("count_records", runs=some)
        total += Removal(runs=len(some), **row)
    return total


def prune(database: Database, before: datetime, *, progress: Callable[[Removal], None] = lambda _: None) -> Removal:
    """Remove what may go, beside running services: some runs at a time, each time in a transaction of its own.

    A run that somebody uses at this moment is left to the next time. `progress` gets the total behind each commit.
    """
    total, runs = Removal(), prunable(database, before)
    for start in range(0, len(runs), BATCH):
        total += _remove(database, runs[start : start + BATCH], before)
        progress(total)
    return total


def _remove(database: Database, wanted: list[str], before: datetime) -> Removal:
    with database.transaction() as tx:
        locked = [str(row["run_id"]) for row in tx.all("lock_prunable", runs=wanted)]
        records = tx.all("lock_records_of_runs", runs=locked, before=before)
        touched = {str(row["run_id"]) for row in records if row["touched"]}
        runs = [run for run in locked if run not in touched]
        counted = tx.one("count_records", runs=runs)
        assert counted is not None
        allow, *done, _ = tx.at_once(
            statement("allow_pruning", allowed=True),
            *(statement(name, runs=runs) for name in _REMOVALS),
            statement("allow_pruning", allowed=False),
        )
        assert allow.count == 1, "a ledger that was served has its one row of identity"
        assert done[-1].count == len(runs), "every locked fence row is marked"
    return Removal(runs=len(runs), **counted)
