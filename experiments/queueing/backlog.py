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

# Rows of one transaction: each writes a hint under a savepoint of its own, and very many of those are slow together.
CHUNK = 1000
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
    from generate_series(1, %(count)s) returning run_id)
insert into onward.events (run_id, seq, kind, data) select run_id, 1, 'created', '{}' from made
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
        kinds = Jsonb(["thing.keyed", "thing.found"])
        while count > 0:
            some = min(CHUNK, count)
            due = self.connection.execute(
                "select now() + make_interval(secs => %s)", [wait_hours * 3600 if wait_hours is not None else None]
            ).fetchone()
            wake_at = due[0] if due is not None else None
            self.connection.execute(_FILL, {**self._row, "kinds": kinds, "count": some, "wake_at": wake_at})
            count -= some

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
