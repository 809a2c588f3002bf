"""What a silent driver holds in the database, seen from outside of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass

import psycopg

from experiments.lane import Lane


@dataclass(frozen=True, kw_only=True)
class Held:
    """`writing`: something is written, or a row locked, and not committed. `sessions`: those that it has."""

    writing: bool
    sessions: frozenset[int]


def what_it_holds(lane: Lane, backends: Collection[int]) -> Held:
    """Of a process with these sessions; on SQLite, of whoever holds the file."""
    if lane.settings.database_url is not None:
        return _in_postgres(lane.settings.database_url, backends)
    return Held(writing=_file_is_held(lane), sessions=frozenset())


def _in_postgres(dsn: str, backends: Collection[int]) -> Held:
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "select pid, backend_xid is not null from pg_stat_activity where pid = any(%s)", (list(backends),)
        ).fetchall()
    return Held(writing=any(writing for _, writing in found), sessions=frozenset(pid for pid, _ in found))


def terminated(lane: Lane, held: Held) -> int:
    """How many of those sessions are gone by now; the process that had them has not moved."""
    if lane.settings.database_url is None:
        return 0
    return len(held.sessions - _in_postgres(lane.settings.database_url, held.sessions).sessions)


def _file_is_held(lane: Lane) -> bool:
    """Whether somebody has begun to write to the file of the runs: it is asked for, and given back at once."""
    with closing(sqlite3.connect(lane.settings.sqlite_path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        connection.execute("rollback")
        return False
