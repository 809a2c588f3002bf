"""Runs under way: begun by the experiment, driven by the workers, watched through the database by our own SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from experiments.hosts.stand import Stand
from experiments.workload import NAME, workbook
from graph.versions import CURRENT
from onward_ledger.objects import Objects
from runs import registry
from runs.local_ledger import ledger_id
from runs.registry import NewRun
from runs.settings import Settings

# One super-step each: a run is long enough to be hit in the middle.
ASKS = ("total revenue", "revenue by region", "revenue by product", "total units", "units by region", "average revenue")
POLL_SECONDS = 0.02

_DRIVEN = """
    select r.run_id, h.host, l.epoch,
           (select count(*) from onward.checkpoints c where c.thread_id = r.run_id) as checkpoints
    from onward.runs r join onward.leases l using (run_id) join onward.holders h using (holder_id)
    where r.run_id = any(%s) and r.status in ('running', 'cancel_requested')
"""
_OPEN = "select run_id from onward.runs where run_id = any(%s) and finished_at is null and status <> 'waiting_human'"
_CLAIMS = """
    select e.run_id, e.epoch, e.data ->> 'host' as host, e.data ->> 'why' as why, e.created_at
    from onward.events e where e.run_id = any(%s) and e.kind = 'claimed' order by e.created_at
"""
_PROGRESS = """
    select min(created_at) from onward.events
    where run_id = any(%s) and created_at > %s
          and kind in ('claimed', 'continued', 'step_started', 'step_finished', 'receipt')
"""
_ENDED = "select max(finished_at) from onward.runs where run_id = any(%s)"
_STEPS = """
    select run_id, count(*) from onward.events where run_id = any(%s) and kind = 'step_started' group by run_id
"""
_EPOCHS = "select epoch from onward.events where run_id = any(%s) and epoch is not null order by seq"


@dataclass(frozen=True, kw_only=True)
class Driven:
    """A run that a worker drives now."""

    run_id: str
    host: str
    epoch: int
    checkpoints: int


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a run, as its history tells it."""

    run_id: str
    epoch: int
    host: str
    why: str
    at: datetime


class Load:
    """The runs of one case."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._connection: psycopg.Connection[Any] | None = None
        self.run_ids: list[str] = []

    def close(self) -> None:
        """Close our way to the database."""
        if self._connection is not None:
            self._connection.close()

    def begin(self, count: int) -> list[str]:
        """So many more runs, each with leave to publish once; a worker takes them."""
        fresh = [begin_run(self._stand) for _ in range(count)]
        self.run_ids += fresh
        return fresh

    def driven(self, run_ids: Sequence[str] | None = None) -> list[Driven]:
        """Which runs are driven now, and by which host."""
        rows = self._rows(_DRIVEN, self.run_ids if run_ids is None else run_ids)
        return [Driven(run_id=row[0], host=row[1], epoch=row[2], checkpoints=row[3]) for row in rows]

    def open(self, run_ids: Sequence[str] | None = None) -> set[str]:
        """Which runs have not ended, and wait for nobody."""
        return {row[0] for row in self._rows(_OPEN, self.run_ids if run_ids is None else run_ids)}

    def claims(self) -> list[Claim]:
        """Every claim of these runs."""
        rows = self._rows(_CLAIMS, self.run_ids)
        return [Claim(run_id=r[0], epoch=r[1], host=r[2], why=r[3], at=r[4].astimezone(UTC)) for r in rows]

    def first_progress(self, run_ids: Sequence[str], since: datetime) -> datetime | None:
        """When the first of these runs went on behind an instant."""
        return self._rows(_PROGRESS, run_ids, since)[0][0]

    def last_end(self, run_ids: Sequence[str]) -> datetime | None:
        """When the last of these runs ended."""
        return self._rows(_ENDED, run_ids)[0][0]

    def steps_started(self) -> dict[str, int]:
        """How many attempts at steps each run has had."""
        return {row[0]: row[1] for row in self._rows(_STEPS, self.run_ids)}

    def epochs(self, run_id: str) -> list[int]:
        """The epochs of a run's history, in its order."""
        return [row[0] for row in self._rows(_EPOCHS, [run_id])]

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Whether it became true in time. A database that is not there just now says nothing."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if until():
                    return True
            except psycopg.OperationalError:
                self.close()
            time.sleep(POLL_SECONDS)
        return False

    def _rows(self, query: str, run_ids: Iterable[str], *params: object) -> list[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._stand.settings.database_url or "", autocommit=True)
        return self._connection.execute(query.encode(), (list(run_ids), *params)).fetchall()


def begin_run(stand: Stand) -> str:
    """A run as `onward run FILE --approve --queue` makes it: the row, and a grant for one publication."""
    settings: Settings = stand.settings
    source = stand.folder / NAME
    if not source.exists():
        source.write_bytes(workbook())
    new = NewRun(
        owner=settings.principal,
        workflow_version=CURRENT,
        store=settings.store,
        ledger=ledger_id(settings),
        asks=ASKS,
    )
    run_id = registry.create(stand.database, Objects(settings.objects_url), source, new).run_id
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    stand.client.grant(run_id, kind="report.publish", expires_at=expires_at)
    return run_id
