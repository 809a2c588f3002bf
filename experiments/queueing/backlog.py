"""A queue of so many runs, by SQL: rows, their first events, and the hints that the rows' own trigger writes."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from experiments.soaking.place import Place
from experiments.soaking.steps import VERSION
from onward_ledger.objects import Objects
from runs import local_ledger
from runs.local_ledger import LOCAL
from tools.files import Files

# Up to so many rows write their hints themselves, by their trigger; for more that is done for all of them at once.
ONE_BY_ONE = 1000
CHUNK = 20_000
SHARED = "00000000-0000-4000-8000-000000000000"

_EMPTY = """truncate onward.runs, onward.events, onward.leases, onward.answers, onward.workers, onward.holders,
                     onward.checkpoints, onward.checkpoint_blobs, onward.checkpoint_writes,
                     onward.procrastinate_jobs, onward.procrastinate_events cascade"""
_FILL = """
with made as (
    insert into onward.runs (run_id, kind, owner, tenant, workflow_version, input_name, input_key, input_digest,
                             input_size, store, objects, ledger, allowed_kinds, last_seq, wake_at)
    select gen_random_uuid()::text, 'workbook', 'experiment', 'default', %(version)s, 'input.csv', %(key)s, %(digest)s,
           %(size)s, 'postgres', %(objects)s, %(ledger)s, %(kinds)s, 1, %(wake_at)s
    from generate_series(1, %(count)s) returning run_id),
told as (insert into onward.events (run_id, seq, kind, data) select run_id, 1, 'created', '{}' from made)
select run_id from made
"""
# What the trigger of a row does (the function `hint`), in the queue's own form.
_HINT = """
select procrastinate_defer_jobs_v1(array_agg(row(
    %(version)s, 'onward.look', 0, null, run_id, jsonb_build_object('run_id', run_id), %(wake_at)s::timestamptz
)::procrastinate_job_to_defer_v1)) from unnest(%(run_ids)s::text[]) run_id
"""
_QUEUED = "select count(*) from onward.runs where status = 'queued'"


class Backlog:
    """The queue of one place. Its rows share one input."""

    def __init__(self, place: Place) -> None:
        objects = Objects(place.settings.objects_url)
        staged = Files(objects, SHARED).put(place.input.read_bytes())
        assert local_ledger.ledger_id(place.settings) == LOCAL
        self._row = {
            "version": VERSION,
            "key": staged["key"],
            "digest": staged["digest"],
            "size": staged["size"],
            "objects": objects.url,
            "ledger": LOCAL,
        }
        self.connection: psycopg.Connection[Any] = psycopg.connect(
            place.dsn, autocommit=True, options="-c search_path=onward"
        )

    def empty(self) -> None:
        """Remove every run. No worker is up."""
        self.connection.execute(_EMPTY)

    def fill(self, count: int, *, wait_hours: float | None = None) -> None:
        """So many more runs; with `wait_hours` they are not due before that time."""
        due = self.connection.execute(
            "select now() + make_interval(secs => %s)", [wait_hours * 3600 if wait_hours is not None else None]
        ).fetchone()
        assert due is not None
        row = {**self._row, "kinds": Jsonb(["thing.keyed", "thing.found"]), "wake_at": due[0]}
        if count <= ONE_BY_ONE:
            self.connection.execute(_FILL, {**row, "count": count})
            return
        for begin in range(0, count, CHUNK):
            with self.connection.transaction():
                self.connection.execute("set local session_replication_role = replica")  # no trigger of a row
                made = self.connection.execute(_FILL, {**row, "count": min(CHUNK, count - begin)}).fetchall()
                self.connection.execute("set local session_replication_role = origin")
                self.connection.execute(_HINT, {**row, "run_ids": [run_id for (run_id,) in made]})

    def settle(self) -> None:
        """What autovacuum does within a minute: statistics, and the map of what is visible."""
        self.connection.execute("vacuum analyze")

    def queued(self) -> int:
        """How many are waiting."""
        row = self.connection.execute(_QUEUED).fetchone()
        assert row is not None
        return row[0]

    def top_up(self, length: int) -> None:
        """Bring the queue to this length again."""
        missing = length - self.queued()
        if missing > 0:
            self.fill(missing)

    def close(self) -> None:
        """Close our way to the database."""
        self.connection.close()
