"""What stands in the end: by our own SQL on the tables, and by the API's log. Nothing goes through what is on trial."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from experiments.evidence import Checkpoint
from experiments.fake_api import Effect
from experiments.soaking.place import Place

_RUNS = "select run_id, status::text, reason, message, created_at, finished_at from onward.runs order by created_at"
_CLAIMS = """select run_id, epoch, data ->> 'why', created_at from onward.events where kind = 'claimed'
             order by run_id, seq"""
_STEPS = "select run_id, count(*) from onward.events where kind = 'step_started' group by 1"
_ERRORS = "select run_id, count(*) from onward.events where kind = 'error' group by 1"
_KILLED = "select run_id, count(*) from onward.events where kind = 'driver_ended' group by 1"
_BACKWARDS = """select run_id from (
    select run_id, epoch < lag(epoch) over (partition by run_id order by seq) as back
    from onward.events where epoch is not null) e where back group by 1"""
_CHECKPOINTS = """select thread_id, checkpoint_id, parent_checkpoint_id from onward.checkpoints
                  where checkpoint_ns = '' order by thread_id, checkpoint_id"""
_ACTIONS = """select run_id::text, action_id::text, step, kind, status::text, provider_id, alarm
              from onward_ledger.actions"""
_UNKNOWN = "select count(distinct action_id) from onward_ledger.action_events where to_status = 'UNKNOWN'"
_SIZES = """select n.nspname || '.' || c.relname, pg_total_relation_size(c.oid), c.reltuples::bigint
            from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname in ('onward', 'onward_ledger') and c.relkind = 'r' order by 2 desc"""


@dataclass(frozen=True, kw_only=True)
class Action:
    """One record of the ledger."""

    action_id: str
    step: str
    kind: str
    status: str
    provider_id: str | None
    alarm: str | None


@dataclass(kw_only=True)
class RunSeen:
    """One run, with everything that names it. `effects` are lines of the API's log, by the action that they carry."""

    run_id: str
    status: str
    reason: str | None
    message: str | None
    created_at: datetime
    finished_at: datetime | None
    claims: list[tuple[int, datetime]] = field(default_factory=list[tuple[int, datetime]])
    taken: list[str] = field(default_factory=list[str])
    steps: int = 0
    errors: int = 0
    killed: int = 0
    went_back: bool = False
    checkpoints: list[Checkpoint] = field(default_factory=list[Checkpoint])
    actions: list[Action] = field(default_factory=list[Action])
    effects: dict[str, list[Effect]] = field(default_factory=dict[str, list[Effect]])

    @property
    def hit(self) -> bool:
        """Whether it felt something that was killed: it was claimed again, met an error, or lost a driver."""
        return len(self.claims) > 1 or self.errors > 0 or self.killed > 0

    @property
    def takeovers(self) -> int:
        """Claims of a driver that was gone or hung."""
        return sum(why in ("gone", "expired") for why in self.taken)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Everything. `strangers`: effects that no record stands for; `sizes`: bytes and rows (estimated) by table."""

    runs: list[RunSeen]
    strangers: list[Effect]
    was_unknown: int
    sizes: dict[str, tuple[int, int]]


def look(place: Place) -> Standing:
    """Read all of it."""
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("analyze")

        def ask(query: LiteralString) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        runs = {
            row[0]: RunSeen(
                run_id=row[0], status=row[1], reason=row[2], message=row[3], created_at=row[4], finished_at=row[5]
            )
            for row in ask(_RUNS)
        }
        for run_id, epoch, why, at in ask(_CLAIMS):
            runs[run_id].claims.append((epoch, at))
            runs[run_id].taken.append(why)
        for run_id, checkpoint_id, parent_id in ask(_CHECKPOINTS):
            runs[run_id].checkpoints.append(Checkpoint(checkpoint_id=checkpoint_id, parent_id=parent_id))
        for run_id, count in ask(_STEPS):
            runs[run_id].steps = count
        for run_id, count in ask(_ERRORS):
            runs[run_id].errors = count
        for run_id, count in ask(_KILLED):
            runs[run_id].killed = count
        for (run_id,) in ask(_BACKWARDS):
            runs[run_id].went_back = True
        strangers = _effects(place, runs, ask(_ACTIONS))
        return Standing(
            runs=list(runs.values()),
            strangers=strangers,
            was_unknown=ask(_UNKNOWN)[0][0],
            sizes={name: (size, rows) for name, size, rows in ask(_SIZES)},
        )


def _effects(place: Place, runs: dict[str, RunSeen], actions: list[tuple[Any, ...]]) -> list[Effect]:
    """Put records and effects to their runs; the effects without a record."""
    happened: dict[str | None, list[Effect]] = defaultdict(list)
    for effect in place.sink.effects():
        happened[effect.marker].append(effect)
    for run_id, action_id, step, kind, status, provider_id, alarm in actions:
        run = runs[run_id]
        run.actions.append(
            Action(action_id=action_id, step=step, kind=kind, status=status, provider_id=provider_id, alarm=alarm)
        )
        run.effects[action_id] = happened.pop(action_id, [])
    return [effect for effects in happened.values() for effect in effects]


def words(runs: list[RunSeen]) -> dict[str, int]:
    """How many runs are in each status."""
    return dict(Counter(run.status for run in runs))
