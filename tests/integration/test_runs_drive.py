"""Driving a run on both stores, with a small graph and a ledger in memory."""

from __future__ import annotations

import pytest

from runs import events, registry
from runs.drive import drive
from runs.errors import Exit
from tests.support.runs_fixtures import database, ledger, objects, postgres_store, sqlite_store, store  # noqa: F401
from tests.support.runs_world import effects_in, new_run, parts


@pytest.fixture
def run(store, database, objects, tmp_path):  # noqa: F811
    return new_run(database, objects, tmp_path, store=store.kind)


def test_a_run_goes_from_queued_to_succeeded(store, database, objects, ledger, run, tmp_path):  # noqa: F811
    world = tmp_path / "world"
    outcome = drive(run.run_id, parts(store, ledger, objects, tmp_path, effects=world))
    assert (outcome.status, outcome.exit_code) == (registry.Status.SUCCEEDED, Exit.OK), outcome
    assert effects_in(world) == ["plan", "analyze", "write_draft", "test", "deliver"]
    after = registry.get(database, run.run_id)
    assert (after.status, after.epoch, after.driver) == ("succeeded", 1, None)
    found = events.read_all(database, run.run_id)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    print([(e.kind, e.step, e.data) for e in found])
