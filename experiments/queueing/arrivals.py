"""How soon a run is taken that comes while a worker is free, and others wait in the queue for their time."""

from __future__ import annotations

import time

from experiments.errors import NotRun
from experiments.queueing.backlog import Backlog
from experiments.soaking.place import Place
from experiments.soaking.workers import Workers

TIMES = 10
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.02

_TAKEN = """select extract(epoch from c.created_at - q.created_at) * 1000
            from events q join events c using (run_id)
            where q.run_id = %s and q.kind = 'created' and c.kind = 'claimed'"""
_ENDED = "select finished_at is not null from runs where run_id = %s"


def measure(place: Place, backlog: Backlog, workers: Workers) -> list[float]:
    """Milliseconds from the row to the claim, of one run after the other."""
    assert workers.slots, "somebody has to take them"
    return [_one(place, backlog) for _ in range(TIMES)]


def _one(place: Place, backlog: Backlog) -> float:
    run_id = place.begin_run()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        row = backlog.connection.execute(_ENDED, [run_id]).fetchone()
        if row is not None and row[0]:
            break
        if time.monotonic() > deadline:
            raise NotRun(f"The run {run_id} was not ended in {PATIENCE_SECONDS:.0f} seconds.")
        time.sleep(POLL_SECONDS)
    taken = backlog.connection.execute(_TAKEN, [run_id]).fetchone()
    assert taken is not None
    return float(taken[0])
