"""What is asked all the time reads a few pages, however long the queue and the history are. With its control."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg
import pytest
from psycopg.types.json import Jsonb

from runs.dispatch import _connector
from runs.queue_tables import set_up_queue
from runs.store import POSTGRES_ENGINE

pytest_plugins = ("tests.support.runs_fixtures",)

MANY = 4000
VERSIONS = {"versions": Jsonb(["1"])}

_RUNS = """
insert into runs (run_id, kind, status, owner, tenant, workflow_version, input_name, input_key, input_digest,
                  input_size, store, objects, ledger, finished_at)
select gen_random_uuid()::text, 'workbook', %(status)s::run_status, 'a', 'default', %(version)s, 'i', 'k',
       repeat('a', 64), 1, 'postgres', 'o', 'l', case when %(status)s = 'succeeded' then now() end
from generate_series(1, %(count)s)
"""
_LEASES = """
insert into leases (run_id, epoch, seconds, expires_at)
select run_id, 1, 15, now() from runs where finished_at is not null
"""
# What the trigger of the rows does one by one.
_HINTS = """
insert into procrastinate_jobs (queue_name, task_name, queueing_lock, args)
select workflow_version, 'onward.look', run_id, jsonb_build_object('run_id', run_id) from runs where status = 'queued'
"""


@pytest.fixture
def connection(postgres_store):
    """A database with a long history, a long queue of version 1 and nothing to do for version 2."""
    with closing(postgres_store.database()) as database:
        set_up_queue(database)
    with psycopg.connect(postgres_store.dsn, autocommit=True, options="-c search_path=onward") as opened:
        opened.execute("alter table runs disable trigger hint_new_run")
        for status in ("succeeded", "queued"):
            opened.execute(_RUNS, {"status": status, "version": "1", "count": MANY})
        opened.execute("alter table runs enable trigger hint_new_run")
        opened.execute(_LEASES)
        opened.execute(_HINTS)
        opened.execute("vacuum analyze")
        yield opened


def pages(connection, statement, params):
    """How many pages Postgres looked at."""
    with connection.transaction(force_rollback=True):
        rows = connection.execute("explain (analyze, buffers, costs off, format text) " + statement, params).fetchall()
    found = [re.search(r"Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?", row[0]) for row in rows]
    first = next(each for each in found if each)
    return int(first[1] or 0) + int(first[2] or 0)


def fetched(store, queue, options=""):
    """How many pages the queue's own look reads, asked for the seventh time on a connection."""
    with psycopg.connect(store.dsn, autocommit=True, options=f"-c search_path=onward {options}") as looking:
        for _ in range(6):  # from the sixth time on Postgres may keep a plan that was made for any queue
            looking.execute("select * from procrastinate_fetch_job_v2(array[%s]::varchar[], null)", [queue])
        return pages(looking, "select * from procrastinate_fetch_job_v2(%(q)s::varchar[], null)", {"q": [queue]})


def test_looks_read_no_queue_and_no_history(connection, postgres_store):
    """In one test, since the history and the queue take a while to make."""
    for look in ("hint_takeable", "hint_released"):
        assert pages(connection, POSTGRES_ENGINE[look], VERSIONS) < 50

    # Lost hints are looked for page by page.
    few, more = (
        pages(connection, POSTGRES_ENGINE["hint_unhinted"], {**VERSIONS, "after": "", "limit": limit})
        for limit in (10, 200)
    )
    assert few < more < MANY

    # The queue's own look, for a version that has no jobs: planned for that queue, it reads none of the others.
    assert "plan_cache_mode=force_custom_plan" in _connector(postgres_store, 1)._pool_args["conninfo"]
    planned_for_it = fetched(postgres_store, "2", options="-c plan_cache_mode=force_custom_plan")

    # The controls: as Procrastinate connects by itself, and without the index for driven runs.
    assert fetched(postgres_store, "2") > 5 * planned_for_it
    connection.execute("drop index runs_driven")
    for look in ("hint_takeable", "hint_released"):
        assert pages(connection, POSTGRES_ENGINE[look], VERSIONS) > 100
