"""How long one look takes beside a queue: the sweeper's statements, the queue's fetch, a claim; and their plans."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from experiments.queueing.backlog import Backlog
from experiments.soaking.place import Place
from experiments.soaking.steps import VERSION
from runs import lease, registry
from runs.store import POSTGRES_ENGINE
from runs.sweeper import PAGE

TIMES = 30
FETCH: LiteralString = "select * from procrastinate_fetch_job_v2(%(queues)s::varchar[], %(worker)s)"
# As `runs.dispatch` connects.
QUEUE_OPTIONS = "-c search_path=onward -c plan_cache_mode=force_custom_plan"


@dataclass(frozen=True, kw_only=True)
class Look:
    """Milliseconds of each call."""

    name: str
    ms: tuple[float, ...]


def look(place: Place, backlog: Backlog) -> list[Look]:
    """Every look, `TIMES` times each. Nothing stays changed but for the runs that were claimed, which are gone."""
    ours = {"versions": Jsonb([VERSION])}
    page = {**ours, "after": "", "limit": PAGE}
    sweeper = backlog.connection
    with ExitStack() as stack:
        queue: psycopg.Connection[Any] = stack.enter_context(
            psycopg.connect(place.dsn, autocommit=True, options=QUEUE_OPTIONS)
        )
        worker = queue.execute("insert into procrastinate_workers default values returning id").fetchone()
        assert worker is not None
        fetch = {"queues": [VERSION], "worker": worker[0]}
        found = [
            _timed(sweeper, "sweeper: driven runs", POSTGRES_ENGINE["hint_takeable"], ours),
            _timed(sweeper, "sweeper: lost hints, a page", POSTGRES_ENGINE["hint_unhinted"], page),
            _timed(sweeper, "sweeper: to be stopped", POSTGRES_ENGINE["hint_released"], ours),
            _timed(queue, "queue: fetch", FETCH, fetch),
            _timed(queue, "queue: fetch of an idle version", FETCH, {**fetch, "queues": ["of nobody"]}),
        ]
        queue.execute("delete from procrastinate_jobs where status = 'doing'")
        return [*found, Look(name="claim", ms=tuple(_claims(place, backlog)))]


def _timed(connection: psycopg.Connection[Any], name: str, statement: LiteralString, params: dict[str, Any]) -> Look:
    samples: list[float] = []
    for _ in range(TIMES):
        began = time.perf_counter()
        connection.execute(statement, params).fetchall()
        samples.append((time.perf_counter() - began) * 1000)
    return Look(name=name, ms=tuple(samples))


def _claims(place: Place, backlog: Backlog) -> list[float]:
    """The claim's transaction, with the look before it, of runs from the front of the queue; they are removed then."""
    rows = backlog.connection.execute("select run_id from runs where status = 'queued' limit %s", [TIMES // 3])
    run_ids = [row[0] for row in rows.fetchall()]
    samples: list[float] = []
    with (
        closing(place.store.database("onward experiment")) as database,
        closing(place.store.open_holder("experiment")) as holder,
    ):
        for run_id in run_ids:
            samples.append(_milliseconds(lambda: _claim(place, database, run_id, holder)))  # noqa: B023 - called at once
    for table in ("events", "leases", "runs"):
        backlog.connection.execute(_DELETES[table], [run_ids])
    backlog.connection.execute("delete from procrastinate_jobs where queueing_lock = any(%s)", [run_ids])
    return samples


_DELETES: dict[str, LiteralString] = {
    "events": "delete from events where run_id = any(%s)",
    "leases": "delete from leases where run_id = any(%s)",
    "runs": "delete from runs where run_id = any(%s)",
}


def _claim(place: Place, database: Any, run_id: str, holder: Any) -> None:
    seen = registry.get(database, run_id)
    lease.claim(place.store, database, run_id, holder, lease_seconds=place.settings.lease_seconds, seen=seen)


def _milliseconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def plans(backlog: Backlog) -> dict[str, list[str]]:
    """What Postgres does for each of the sweeper's looks and for the fetch, by its own account."""
    versions = Jsonb([VERSION])
    asked: dict[str, tuple[LiteralString, dict[str, Any]]] = {
        "hint_takeable": (POSTGRES_ENGINE["hint_takeable"], {"versions": versions}),
        "hint_unhinted": (POSTGRES_ENGINE["hint_unhinted"], {"versions": versions, "after": "", "limit": PAGE}),
        "hint_released": (POSTGRES_ENGINE["hint_released"], {"versions": versions}),
    }
    told = {name: _explained(backlog.connection, statement, params) for name, (statement, params) in asked.items()}
    body = backlog.connection.execute(
        "select prosrc from pg_proc where proname = 'procrastinate_fetch_job_v2'"
    ).fetchone()
    assert body is not None
    text: str = body[0]
    candidate = text[text.index("SELECT jobs.*") : text.index("SKIP LOCKED") + len("SKIP LOCKED")]
    queues = candidate.replace("target_queue_names", "array['" + VERSION + "']::varchar[]")
    rows = backlog.connection.execute(("explain (analyze, buffers, costs off) " + queues).encode())
    return {**told, "fetch": [row[0] for row in rows.fetchall()]}


def _explained(connection: psycopg.Connection[Any], statement: LiteralString, params: dict[str, Any]) -> list[str]:
    with connection.transaction(force_rollback=True):
        return [
            row[0]
            for row in connection.execute("explain (analyze, buffers, costs off) " + statement, params).fetchall()
        ]
