"""Runs a second by so many workers beside a queue of a given length, and how soon a free slot has its next run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from experiments.errors import NotRun
from experiments.queueing.backlog import Backlog
from experiments.soaking.workers import Workers, refuse_dead

# Runs that do not count: the first ones of new workers.
WARM_UP_PER_WORKER = 2
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.05
# A queue of more than this is not topped up: what is taken from it meanwhile is nothing beside it.
LONGEST_TOPPED_UP = 10_000

# Of the experiment alone, so that counting what has ended reads no queue.
INDEX = "create index if not exists experiment_finished on runs (finished_at) where finished_at is not null"
_COUNT = "select count(*) from runs where finished_at is not null"
_ENDED = "select run_id, finished_at, status::text from runs where finished_at is not null order by finished_at"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One measurement: `gaps_ms` from the end of a run to the claim of the next (one worker only)."""

    workers: int
    queued: int
    runs: int
    runs_per_second: float
    gaps_ms: tuple[float, ...] = ()


def measure(backlog: Backlog, workers: Workers, *, queued: int, runs: int) -> Rate:
    """Let the workers end so many runs, while the queue keeps its length."""
    count = len(workers.slots)
    first = _ended(backlog) + WARM_UP_PER_WORKER * count
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _ended(backlog) <= first + runs:
        if time.monotonic() > deadline:
            raise NotRun(f"{count} workers did not end {runs} runs in {PATIENCE_SECONDS:.0f} seconds.")
        refuse_dead(workers)
        if queued <= LONGEST_TOPPED_UP:
            backlog.top_up(queued)
        time.sleep(POLL_SECONDS)
    rows = backlog.connection.execute(_ENDED).fetchall()[first : first + runs + 1]
    wrong = [row for row in rows if row[2] != "succeeded"]
    if wrong:
        raise NotRun(f"The run {wrong[0][0]} is {wrong[0][2]}, and should have succeeded.")
    seconds = (rows[-1][1] - rows[0][1]).total_seconds()
    return Rate(
        workers=count,
        queued=queued,
        runs=runs,
        runs_per_second=runs / seconds,
        gaps_ms=tuple(_gaps(backlog, rows)) if count == 1 else (),
    )


def _ended(backlog: Backlog) -> int:
    row = backlog.connection.execute(_COUNT).fetchone()
    assert row is not None
    return row[0]


def _gaps(backlog: Backlog, rows: list[tuple[Any, ...]]) -> list[float]:
    """With one slot, the claim that follows an end is that of the next run."""
    claims = backlog.connection.execute(
        "select created_at from events where kind = 'claimed' and created_at > %s order by created_at", [rows[0][1]]
    ).fetchall()
    return [(claim[0] - row[1]).total_seconds() * 1000 for row, claim in zip(rows, claims, strict=False)]
