"""Claiming a run: who may drive it now, and the next epoch.

Looking costs no lock; the claim itself is one short transaction that locks the run row, then the lease row, and looks
again. All the looking is for speed and manners: what protects a run from its former drivers is the epoch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onward_ledger.database import Database, Transaction, statement
from runs import events, registry
from runs.errors import DrivenElsewhere, RunFinished, StateChanged, WaitingForPerson
from runs.holder import Holder, host_name, is_that_process
from runs.registry import Run, Status
from runs.store import Store

# How long a claim waits for the server to notice that a process known to be dead has gone (milliseconds, usually).
PATIENCE_SECONDS = 3.0
# The same for one that does not look dead yet: a signal that was just sent takes a moment on a busy machine.
DYING_SECONDS = 0.3
# A first look that is older than this proves nothing: the holder may have come back and gone again.
STALE_LOOK_SECONDS = 2.0
_POLL_SECONDS = 0.02

Why = Literal["queued", "released", "expired", "gone", "alive", "unclear"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A run that this process may drive: `run` as it stands under the new epoch."""

    run: Run
    epoch: int
    why: Why
    before: int  # the epoch before; 0 for a first claim


def standing(run: Run, *, process_is_dead: bool) -> Why:
    """How the run's driver stands, from one look.

    "queued", "released" and "expired" may be claimed; "gone" after a second look; "alive" not. "unclear": the server
    has just started, so an absent lock says nothing; where the driver's process is known to be dead, it is gone.
    """
    if run.status is Status.QUEUED:
        return "queued"
    if run.holder_id is None or run.expires_at is None:
        return "released"
    if run.expires_at <= run.now_at:
        return "expired"
    if run.holder_alive:
        return "alive"
    return "unclear" if run.server_is_young and not process_is_dead else "gone"


def claim(
    store: Store,
    database: Database,
    run_id: str,
    holder: Holder,
    *,
    lease_seconds: float,
    patience_seconds: float = PATIENCE_SECONDS,
    seen: Run | None = None,
    looked: Mapping[str, Any] | None = None,
) -> Claim:
    """Take the run for this process under a new epoch. `seen`: a look at it that was just had; `looked`: its findings.

    Raises RunNotFound, RunFinished, WaitingForPerson, DrivenElsewhere (naming pid and host), or StateChanged when it
    lost a race that left nobody driving.
    """
    seen_gone: tuple[int | None, int | None] | None = None
    began = time.monotonic()
    while True:
        run, seen = seen or registry.get(database, run_id), None
        _refuse_unclaimable(run)
        dead = process_is_dead(run)
        why = standing(run, process_is_dead=dead or _was_this_process(run))
        if why == "gone" and not dead and seen_gone != (run.holder_id, run.epoch):
            seen_gone = (run.holder_id, run.epoch)
            time.sleep(_until_second_look(run, store.second_look_seconds))
        elif why not in ("alive", "unclear"):
            return _take(store, database, run, why, holder, lease_seconds, looked)
        elif time.monotonic() - began < (patience_seconds if dead else min(DYING_SECONDS, patience_seconds)):
            time.sleep(_POLL_SECONDS)
        else:
            raise _driven(run, why)


def _until_second_look(run: Run, apart: float) -> float:
    """How long to wait between the looks, in seconds: a sweeper may have noted the first one in the lease row."""
    if run.missed_at is None:
        return apart
    since = (run.now_at - run.missed_at).total_seconds()
    return max(apart - since, 0.0) if since < STALE_LOOK_SECONDS else apart


def _take(
    store: Store,
    database: Database,
    seen: Run,
    why: Why,
    holder: Holder,
    lease_seconds: float,
    looked: Mapping[str, Any] | None,
) -> Claim:
    before = seen.epoch or 0
    with store.taking_over(database, seen) as tx:
        taken = _next_epoch(tx, seen, why, before, holder, lease_seconds, looked)
        holder.check_session()
    if taken is None:
        now = registry.get(database, seen.run_id)
        _refuse_unclaimable(now)
        if now.driven and now.driver == "alive":
            raise _driven(now, "alive")
        raise StateChanged(f"The run {seen.run_id} is {now.status} now. Try again.")
    return Claim(run=taken, epoch=before + 1, why=why, before=before)


def _next_epoch(
    tx: Transaction,
    seen: Run,
    why: Why,
    before: int,
    holder: Holder,
    lease_seconds: float,
    looked: Mapping[str, Any] | None,
) -> Run | None:
    """Run row first, then lease row; the claim holds if both are as they were seen. The run under the new epoch."""
    mine = {"run_id": seen.run_id}
    answers = tx.at_once(statement("lock_run", **mine), statement("lock_lease", **mine))
    locked, lease = answers[0].row, answers[1].row
    assert locked is not None
    if locked["version"] != seen.version or (lease["epoch"] if lease else 0) != before:
        return None
    if why == "expired" and lease is not None and not lease["over"]:
        return None  # renewed meanwhile
    tx.send("take_lease", **mine, epoch=before + 1, holder_id=holder.holder_id, seconds=float(lease_seconds))
    if why in ("gone", "expired"):
        tx.send("count_takeover", **mine)
    moved = registry.move(
        tx,
        seen,
        "claim",
        epoch=before + 1,
        failures=seen.failures,
        reason=seen.reason if seen.status is Status.CANCEL_REQUESTED else None,
    )
    assert moved, "both rows are locked and were compared, so the epoch and the version are what was seen"
    if looked is not None:
        events.send(tx, seen.run_id, "looked", dict(looked), epoch=before + 1)
    events.send(tx, seen.run_id, "claimed", {"why": why, "before": before, **_who(seen)}, epoch=before + 1)
    row = tx.one("run", **mine)
    assert row is not None
    return Run.from_row(row)


def raise_epoch(database: Database, run: Run, epoch: int, to: int, holder: Holder) -> bool:
    """Move on to a higher epoch of our own: the ledger was ahead of a restored database. False: no longer ours."""
    assert to > epoch
    with database.transaction() as tx:
        tx.send("lock_run", run_id=run.run_id)
        lease = tx.one("lock_lease", run_id=run.run_id)
        if lease is None or lease["epoch"] != epoch or lease["holder_id"] != holder.holder_id:
            return False
        seconds = run.lease_seconds
        assert seconds is not None
        tx.run("take_lease", run_id=run.run_id, epoch=to, holder_id=holder.holder_id, seconds=seconds)
        events.send(tx, run.run_id, "epoch_raised", {"from": epoch, "to": to}, epoch=to)
    return True


def _who(seen: Run) -> dict[str, object]:
    return {"host": host_name(), "pid": os.getpid(), "former_host": seen.host, "former_pid": seen.pid}


def process_is_dead(run: Run) -> bool:
    """Whether the driver's process is known to have ended: only this machine can say so."""
    if run.host != host_name() or run.pid is None or run.process_started is None:
        return False
    return not is_that_process(run.pid, run.process_started)


def _was_this_process(run: Run) -> bool:
    """Whether an earlier drive of this very process is meant: it is over, or we would not claim."""
    if run.host != host_name() or run.pid != os.getpid() or run.process_started is None:
        return False
    return is_that_process(os.getpid(), run.process_started)


def _refuse_unclaimable(run: Run) -> None:
    if run.finished:
        raise RunFinished(f"The run {run.run_id} has ended: {run.status}. There is nothing left to do.")
    if run.status is Status.WAITING_HUMAN:
        raise WaitingForPerson(
            f"The run {run.run_id} waits for a person ({run.reason}). "
            f"See it with `onward show {run.run_id}`, then approve, revise or reject it."
        )


def _driven(run: Run, why: Why) -> DrivenElsewhere:
    who = f"process {run.pid} on {run.host} (epoch {run.epoch})"
    if why == "unclear":
        message = (
            f"The run {run.run_id} was driven by {who}. The database has just started, so it cannot say yet "
            f"whether that driver lives. Try again in {run.lease_seconds:.0f} seconds."
        )
    else:
        message = f"The run {run.run_id} is driven by {who}. Follow it with `onward show {run.run_id}`."
    return DrivenElsewhere(message, pid=run.pid, host=run.host, epoch=run.epoch or 0)
