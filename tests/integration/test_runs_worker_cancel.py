"""Cancelling runs that workers drive, or that nobody drives: workers see to it, whoever asked may be gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.cluster import new_database
from onward_ledger.action import Status
from runs import cancelling
from runs.cancelling import Asked
from runs.registry import Run
from tests.support.worker_floor import Floor, gone, until

pytestmark = [pytest.mark.timeout(240), pytest.mark.campaign]

ANNA = Asked(principal="anna", reason="not wanted")


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Floor]:
    folder: Path = tmp_path_factory.mktemp("cancelled")
    floor = Floor(folder, new_database(postgres_server, f"cancelled_{os.getpid()}"), 15.0)
    try:
        floor.keep(1)
        yield floor
    finally:
        floor.close()


def ask(floor: Floor, run_id: str) -> Run:
    """The row alone: whoever asks is killed before it closes the fence."""
    with floor.database() as database:
        return cancelling.request(database, floor.run(run_id), ANNA)


def is_closed(floor: Floor, run_id: str) -> bool:
    """Whether the ledger's fence says so, by a driver's announcement that comes too late."""
    with floor.ledger() as ledger:
        return ledger.fence(run_id, 1000, holder="late").closed_at is not None


def test_the_driver_of_a_worker_hears_of_it_and_ends_and_a_second_one_confirms(floor: Floor) -> None:
    """Its step looks at nothing: the process ends after its grace, and the run has a driver again."""
    run_id = floor.queue(told="hold write_draft")
    pid = floor.held(run_id)
    ask(floor, run_id)
    gone(pid)
    run = floor.ends(run_id, "cancelled")
    assert (run.epoch, is_closed(floor, run_id)) == (2, True)
    assert [event["data"]["sent"] for event in floor.events(run_id, "cancel_report")] == [[]]
    assert floor.steps(run_id) == ["plan", "analyze#1", "write_draft"]


def test_a_run_that_waits_and_that_nobody_drives_is_stopped_by_a_worker(floor: Floor) -> None:
    run_id = floor.queue(told="hold test")
    floor.held(run_id)
    with floor.ledger() as ledger:
        ledger.revoke_grant(run_id, kind="report.publish")
    floor.let_go(run_id)
    until(lambda: floor.run(run_id).status == "waiting_human", "a run that waits")
    ask(floor, run_id)
    run = floor.ends(run_id, "cancelled")
    assert (run.epoch, is_closed(floor, run_id)) == (2, True)
    (event,) = floor.events(run_id, "cancel_report")
    assert [a["kind"] for a in event["data"]["sent"]] == ["draft.save"]
    with floor.ledger() as ledger:
        statuses = {a.kind: a.status for a in ledger.actions(run_id)}
    assert statuses == {"draft.save": Status.SUCCEEDED, "report.publish": Status.WITHDRAWN}
