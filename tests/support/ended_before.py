"""Work in a process of its own that ends before its n-th exchange with the database.

Not in the tests' own files: a child imports the module that its work stands in, and this one it has already.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from onward_ledger.database import SqliteDatabase
from onward_ledger.objects import Objects
from runs import registry
from runs.fork import Change, find_point, fork, points
from runs.migrate import apply, rehearse
from runs.parts import Workflow
from tests.support.runs_processes import driving, store_of
from tests.support.two_versions import NEXT, NoLedger, build_asking, node_name, two_versions

KILLED = 99


def end_before(number: int, database: Any) -> list[int]:
    """From here on this process ends at its n-th boundary with the database; how many there were."""
    count = [0]

    def one_more(*_: Any) -> None:
        count[0] += 1
        if count[0] == number:
            os._exit(KILLED)

    if isinstance(database, SqliteDatabase):
        database._connection.set_trace_callback(one_more)
        return count
    wait = psycopg.Connection.wait

    def counted(self: Any, *arguments: Any, **more: Any) -> Any:
        one_more()
        answer = wait(self, *arguments, **more)
        one_more()  # and behind it: what the server has done, and this process does not know
        return answer

    psycopg.Connection.wait = counted  # type: ignore[method-assign]
    return count


def migrating(folder: Path, spec: dict[str, str], run_id: str, number: int) -> dict[str, Any]:
    """Migrate a run, and end before the n-th exchange."""
    store = store_of(spec)
    with closing(store.database("migrating")) as database:
        rehearsed = rehearse(store, database, registry.get(database, run_id), NEXT, two_versions())
        count = end_before(number, database)
        apply(store, database, rehearsed)
    return {"exchanges": count[0]}


def forking(folder: Path, spec: dict[str, str], run_id: str, objects: str, number: int) -> dict[str, Any]:
    """Fork a run from the step `write_draft`, and end before the n-th exchange."""
    store = store_of(spec)
    with closing(store.database("forking")) as database:
        parent = registry.get(database, run_id)
        workflow = Workflow(build=build_asking)
        point = find_point(points(database, parent, workflow, node_name), "write_draft")
        count = end_before(number, database)
        fork(database, Objects(objects), NoLedger(), parent, workflow, point, Change(), owner="bob")
    return {"exchanges": count[0]}


def driving_paused(folder: Path, spec: dict[str, str], run_id: str, ledger: Any, place: str) -> dict[str, Any]:
    """Drive a run, and wait in its first step."""
    return driving(folder, spec, run_id, ledger, {"world": place, "pauses": ["in plan"]})
