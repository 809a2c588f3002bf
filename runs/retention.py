"""Removal by age of runs that have ended, beside whatever runs.

    1  the ledger           an effect whose outcome is not known keeps its run; else the run is closed there, for ever
    2  the run's row        locked, then its lease row; one that somebody holds is left to the next time
    3  its files            everything under `runs/<run_id>/`; drafts and reports are results and stay
    4  its rows             hint, checkpoints, answers, events, lease, and the run's row last; all in one transaction

Killed at any moment, the same call does the rest: as long as the row is there, the run is found again. Whoever still
believes that it drives such a run is refused by both fences: without a lease row no checkpoint that names an epoch is
taken, and the ledger's fence stays closed after its records have gone (`onward-ledger prune` reaches closed runs only).

A run that others were forked from stays until they have gone: their rows name it, and it is what they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Protocol

from onward_ledger.action import Action, Status
from onward_ledger.database import Database, Row, Transaction, statement
from onward_ledger.objects import Objects
from onward_ledger.values import Fence

# How many runs one question answers.
PAGE = 200
# A process that started, or was seen, less than this ago is never taken for dead, however short the asked age is.
YOUNGEST = timedelta(hours=1)
REASON = "the run has ended and is removed by age"

# Referring rows before the rows that they refer to.
_CHECKPOINTS = ("remove_checkpoint_writes", "remove_checkpoint_blobs", "remove_checkpoints")
_ROWS = ("remove_answers", "remove_events", "remove_lease", "remove_run")


class Ledger(Protocol):
    """What removal needs of the ledger's client."""

    def actions(
        self, run_id: str | None = None, status: Status | None = None, *, limit: int = 100, after: str | None = None
    ) -> tuple[Action, ...]:
        """The run's actions of one status."""
        ...

    def close_fence(self, run_id: str, *, principal: str | None = None, reason: str) -> Fence:
        """Close the run for ever."""
        ...


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much there is of something that goes. `bytes` are those of `objects`."""

    runs: int = 0
    checkpoints: int = 0
    events: int = 0
    objects: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})

    def to_json(self) -> dict[str, int]:
        """Every field."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Gone:
    """A run that went, or would."""

    run_id: str
    status: str
    finished_at: datetime
    amount: Amount


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A run that is old enough and stays.

    `reason`: "unknown_outcome" (of the actions in `ids`), "forked" (into the runs in `ids`), "elsewhere" (made with
    other stores), "in_use" (somebody holds it now), "deltas" (its graph needs its older checkpoints).
    """

    run_id: str
    reason: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What one call removed, or would. `more`: the limit was reached before the end."""

    gone: tuple[Gone, ...] = ()
    kept: tuple[Kept, ...] = ()
    more: bool = False

    @property
    def total(self) -> Amount:
        """Of all runs that went."""
        return sum((one.amount for one in self.gone), Amount())


@dataclass(frozen=True, kw_only=True)
class Place:
    """One store of runs with what belongs to it. `ledger` is asked for only when there is something to remove."""

    database: Database
    objects: Objects
    ledger: Callable[[], Ledger]
    made_with: tuple[str, str, str]  # store kind, object store, ledger: as the runs' rows remember them

    def has(self, name: str) -> bool:
        """The answer of one of the statements `has_…`."""
        return bool(self.database.read(name)[0]["found"])


def remove_finished(
    place: Place, before: datetime, *, limit: int, apply: bool, progress: Callable[[int], None] = lambda _: None
) -> Removal:
    """Remove runs that finished before that instant, the oldest first, at most `limit`; without `apply` only look."""
    removing = _Removing(place, before, apply)
    forked: list[Row] = []
    for old in _old_runs(place.database, before):
        if len(removing.gone) >= limit:
            return removing.done(forked, more=True)
        if removing.forks_of(old):
            forked.append(old)
        else:
            removing.take(old)
            progress(len(removing.gone))
    # Forks are younger than what they were made from, so the youngest first sees every fork go before its parent.
    for old in sorted(forked, key=lambda row: row["created_at"], reverse=True):
        if len(removing.gone) < limit and not removing.forks_of(old):
            removing.take(old)
            forked.remove(old)
    return removing.done(forked, more=False)


def _old_runs(database: Database, before: datetime) -> Iterator[Row]:
    """Page by page behind a cursor: runs that stay are not in the way of those behind them."""
    cursor: dict[str, Any] = {"after": None, "after_id": None}
    while True:
        page = database.read("old_runs", before=before, limit=PAGE, **cursor)
        yield from page
        if len(page) < PAGE:
            return
        cursor = {"after": page[-1]["finished_at"], "after_id": page[-1]["run_id"]}


class _Removing:
    """One call, run by run."""

    def __init__(self, place: Place, before: datetime, apply: bool) -> None:
        self._place = place
        self._before = before
        self._apply = apply
        self._counts = ["count_events"]
        self._removals = _ROWS
        if place.has("has_checkpoint_tables"):
            self._counts.append("count_checkpoints")
            self._removals = (*_CHECKPOINTS, *self._removals)
        if place.has("has_queue"):
            self._removals = ("remove_hint", *self._removals)
        self.gone: list[Gone] = []
        self._gone_ids: set[str] = set()
        self.kept: list[Kept] = []

    def done(self, forked: Sequence[Row], *, more: bool) -> Removal:
        """The result; `forked`: runs that stay because of their forks."""
        for old in forked:
            self.kept.append(Kept(run_id=old["run_id"], reason="forked", ids=tuple(self.forks_of(old))))
        return Removal(gone=tuple(self.gone), kept=tuple(self.kept), more=more)

    def forks_of(self, old: Row) -> list[str]:
        """The runs that were made from it and stay."""
        rows = self._place.database.read("forks_of", run_id=old["run_id"])
        return [row["run_id"] for row in rows if row["run_id"] not in self._gone_ids]

    def take(self, old: Row) -> None:
        """Remove one run, or keep it with the reason."""
        run_id: str = old["run_id"]
        if (old["store"], old["objects"], old["ledger"]) != self._place.made_with:
            self.kept.append(Kept(run_id=run_id, reason="elsewhere"))
        elif unsettled := self._unsettled(run_id):
            self.kept.append(Kept(run_id=run_id, reason="unknown_outcome", ids=unsettled))
        elif (amount := self._removed(run_id) if self._apply else self._counted(run_id)) is None:
            self.kept.append(Kept(run_id=run_id, reason="in_use"))
        else:
            self.gone.append(Gone(run_id=run_id, status=old["status"], finished_at=old["finished_at"], amount=amount))
            self._gone_ids.add(run_id)

    def _unsettled(self, run_id: str) -> tuple[str, ...]:
        """Actions whose outcome is not known. Where there are none, nothing is performed for the run any more."""
        ledger = self._place.ledger()
        found = [a for status in (Status.UNKNOWN, Status.IN_FLIGHT) for a in ledger.actions(run_id, status)]
        if not found and self._apply:
            # What was claimed between the look and the closing is told by the closing.
            found = list(ledger.close_fence(run_id, reason=REASON).unsettled)
        return tuple(action.action_id for action in found)

    def _removed(self, run_id: str) -> Amount | None:
        """None: somebody holds the run, or has removed it."""
        with self._place.database.transaction() as tx:
            if not _locked(tx, run_id, self._before):
                return None
            amount = self._amount(tx, run_id)
            self._place.objects.remove_below(f"runs/{run_id}")
            *_, last = tx.at_once(*(statement(name, run_id=run_id) for name in self._removals))
            assert last.count == 1, "the row is locked, so it is there"
        return amount

    def _counted(self, run_id: str) -> Amount:
        with self._place.database.reading() as tx:
            return self._amount(tx, run_id)

    def _amount(self, tx: Transaction, run_id: str) -> Amount:
        answers = tx.at_once(*(statement(name, run_id=run_id) for name in self._counts))
        counts = {name: value for answer in answers for name, value in (answer.row or {}).items()}
        sizes = self._place.objects.sizes(f"runs/{run_id}")
        return Amount(
            runs=1,
            checkpoints=counts.get("checkpoints", 0),
            events=counts["events"],
            objects=len(sizes),
            bytes=sum(sizes.values()),
        )


def _locked(tx: Transaction, run_id: str, before: datetime) -> bool:
    """Run row first, then lease row, as everywhere; a run may never have had a lease. No fork refers to it."""
    if tx.one("lock_finished_run", run_id=run_id, before=before) is None:
        return False
    if tx.one("lock_free_lease", run_id=run_id) is None and tx.one("epoch_of", run_id=run_id) is not None:
        return False
    return not tx.all("forks_of", run_id=run_id)


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """Rows of processes that are gone, which nothing refers to any more."""

    jobs: int = 0
    workers: int = 0
    holders: int = 0


def remove_leftovers(place: Place, before: datetime, *, apply: bool) -> Leftovers:
    """Remove jobs that are over or whose worker is gone, dead workers, and dead drivers that hold no lease."""
    before = min(before, place.database.now() - YOUNGEST)
    names = ["old_jobs"] if place.has("has_queue") else []
    names += ["dead_workers", "dead_holders"]
    counts = {
        name.partition("_")[2]: place.database.read(f"count_{name}", before=before)[0]["number"] for name in names
    }
    if apply:
        removals = [f"remove_{name}" for name in names] + (["remove_old_queue_workers"] if "old_jobs" in names else [])
        answers = place.database.at_once(*(statement(name, before=before) for name in removals))
        counts = {name.partition("_")[2]: answer.count for name, answer in zip(names, answers, strict=False)}
    return Leftovers(**counts)
