"""Runs under way: begun by the experiment, driven by the workers, watched through the database by our own SQL."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
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
WATCH_SECONDS = 0.03

_DRIVEN = """
    select r.run_id, h.host, l.epoch,
           (select count(*) from onward.checkpoints c where c.thread_id = r.run_id) as checkpoints
    from onward.runs r join onward.leases l using (run_id) join onward.holders h using (holder_id)
    where r.run_id = any(%s) and r.status in ('running', 'cancel_requested')
"""
_OPEN = "select run_id from onward.runs where run_id = any(%s) and finished_at is null and status <> 'waiting_human'"
_CLAIMS = """
    select e.run_id, e.epoch, e.data ->> 'host' as host, e.data ->> 'why' as why, e.created_at,
           (e.data ->> 'former_pid')::integer as former_pid
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
    """A claim of a run, as its history tells it. `robbed`: the driver before it was seen alive when it was made."""

    run_id: str
    epoch: int
    host: str
    why: str
    at: datetime
    robbed: bool = False


class Reader:
    """Our way to the database; connected again when it was lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[Any] | None = None

    def rows(self, query: str, run_ids: Iterable[str], *params: object) -> list[tuple[Any, ...]]:
        """What a question about some runs is answered. psycopg.OperationalError when the database is not there."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._dsn, autocommit=True, application_name="onward experiment")
        try:
            return self._connection.execute(query.encode(), (list(run_ids), *params)).fetchall()
        except psycopg.OperationalError:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _lives(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Load:
    """The runs of one case. Usable as a context manager; inside it, claims are watched as they are made."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._reader = Reader(stand.settings.database_url or "")
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_claims, name="claims", daemon=True)
        self._robbed: dict[tuple[str, int], bool] = {}
        self.run_ids: list[str] = []

    def __enter__(self) -> Load:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()
        self._reader.close()

    def _watch_claims(self) -> None:
        """Whose driver lives when its run is claimed by another: a pid of any host can be seen from here."""
        reader = Reader(self._stand.settings.database_url or "")
        while not self._over.wait(WATCH_SECONDS):
            with contextlib.suppress(psycopg.OperationalError):
                for run_id, epoch, _, why, _, former in reader.rows(_CLAIMS, list(self.run_ids)):
                    if (run_id, epoch) not in self._robbed:
                        self._robbed[run_id, epoch] = why in ("gone", "expired") and _lives(former)
        reader.close()

    def begin(self, count: int) -> list[str]:
        """So many more runs, each with leave to publish once; a worker takes them."""
        fresh = [begin_run(self._stand) for _ in range(count)]
        self.run_ids += fresh
        return fresh

    def driven(self, run_ids: Sequence[str] | None = None) -> list[Driven]:
        """Which runs are driven now, and by which host."""
        rows = self._reader.rows(_DRIVEN, self.run_ids if run_ids is None else run_ids)
        return [Driven(run_id=row[0], host=row[1], epoch=row[2], checkpoints=row[3]) for row in rows]

    def open(self, run_ids: Sequence[str] | None = None) -> set[str]:
        """Which runs have not ended, and wait for nobody."""
        return {row[0] for row in self._reader.rows(_OPEN, self.run_ids if run_ids is None else run_ids)}

    def claims(self) -> list[Claim]:
        """Every claim of these runs."""
        rows = self._reader.rows(_CLAIMS, self.run_ids)
        return [
            Claim(
                run_id=run_id,
                epoch=epoch,
                host=host,
                why=why,
                at=at.astimezone(UTC),
                robbed=self._was_robbed(run_id, epoch),
            )
            for run_id, epoch, host, why, at, _ in rows
        ]

    def _was_robbed(self, run_id: str, epoch: int) -> bool:
        return self._robbed.get((run_id, epoch), False)

    def first_progress(self, run_ids: Sequence[str], since: datetime) -> datetime | None:
        """When the first of these runs went on behind an instant."""
        return self._reader.rows(_PROGRESS, run_ids, since)[0][0]

    def last_end(self, run_ids: Sequence[str]) -> datetime | None:
        """When the last of these runs ended."""
        return self._reader.rows(_ENDED, run_ids)[0][0]

    def steps_started(self) -> dict[str, int]:
        """How many attempts at steps each run has had."""
        return {row[0]: row[1] for row in self._reader.rows(_STEPS, self.run_ids)}

    def epochs(self, run_id: str) -> list[int]:
        """The epochs of a run's history, in its order."""
        return [row[0] for row in self._reader.rows(_EPOCHS, [run_id])]

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Whether it became true in time. A database that is not there just now says nothing."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if until():
                    return True
            except psycopg.OperationalError:
                pass
            time.sleep(POLL_SECONDS)
        return False


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
