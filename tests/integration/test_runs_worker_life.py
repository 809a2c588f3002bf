"""What becomes of runs when their workers and drivers stop, die, hang and are told to end: real `onward worker`s.

Two workers are up all the time; what a test kills it replaces. The lease is short only for the driver that hangs:
whatever dies is noticed by its session lock, so an event says "gone" there, and never "expired".
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.cluster import new_database
from tests.support.worker_floor import Floor, gone, stop, until

pytestmark = [pytest.mark.timeout(240), pytest.mark.campaign]  # seconds on an idle machine

LEASE_SECONDS = 3.0
WHOLE = ["plan", "analyze#1", "write_draft", "test", "deliver"]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Floor]:
    folder: Path = tmp_path_factory.mktemp("workers")
    floor = Floor(folder, new_database(postgres_server, f"workers_{os.getpid()}"), LEASE_SECONDS)
    try:
        yield floor
    finally:
        floor.close()


@pytest.fixture
def floor(ground: Floor) -> Floor:
    """Two workers that are ready."""
    ground.keep(2)
    return ground


def claims(floor: Floor, run_id: str) -> list[str]:
    return [event["data"]["why"] for event in floor.events(run_id, "claimed")]


def seconds_from(began: float, floor: Floor, run_id: str) -> float:
    """From an instant of this machine to the last claim, by the same machine's clock."""
    return floor.events(run_id, "claimed")[-1]["created_at"].timestamp() - began


def test_two_workers_never_drive_one_run_at_once(floor: Floor) -> None:
    ids = [floor.queue() for _ in range(8)]
    for run_id in ids:
        floor.ends(run_id)
    assert {tuple(claims(floor, run_id)) for run_id in ids} == {("queued",)}
    assert {tuple(floor.steps(run_id)) for run_id in ids} == {tuple(WHOLE)}
    assert {event["data"]["pid"] for run_id in ids for event in floor.events(run_id, "claimed")}


def test_sigterm_drains_and_another_worker_goes_on_with_nothing_repeated(floor: Floor) -> None:
    run_id = floor.queue(told="hold analyze#1")
    worker = floor.worker_of(floor.held(run_id))
    worker.terminate()
    until(lambda: "Stopping: 1 drives finish their step." in floor.log.read_text(), "a worker that drains")
    assert worker.poll() is None, "it must wait for the step"
    floor.let_go(run_id)
    assert worker.wait(60) == 0
    floor.ends(run_id)
    assert floor.steps(run_id) == WHOLE
    drained = [event["data"] for event in floor.events(run_id, "status")]
    assert {"from": "running", "to": "queued", "reason": "drained"} in drained
    assert claims(floor, run_id) == ["queued", "queued"]


def test_a_grace_period_that_is_over_ends_the_drive_and_the_step_runs_again(floor: Floor) -> None:
    run_id = floor.queue(told="hold analyze#1")
    pid = floor.held(run_id)
    worker = floor.worker_of(pid)
    floor.forget(run_id)
    worker.terminate()
    until(lambda: floor.log.read_text().count("Stopping: 1 drives"), "a worker that drains")
    worker.terminate()  # a second time: at once
    assert worker.wait(60) == 0
    gone(pid)
    floor.ends(run_id)
    assert Counter(floor.steps(run_id)) == Counter([*WHOLE, "analyze#1"])
    assert claims(floor, run_id) == ["queued", "gone"]


def test_a_killed_worker_takes_its_drivers_along_also_a_stopped_one(floor: Floor) -> None:
    first = floor.queue(told="hold analyze#1")
    pid = floor.held(first)
    worker = floor.worker_of(pid)
    stop(pid)
    floor.forget(first)
    worker.kill()
    worker.wait()
    began = time.time()
    gone(pid)
    floor.ends(first)
    assert claims(floor, first) == ["queued", "gone"]
    assert seconds_from(began, floor, first) < LEASE_SECONDS
    assert Counter(floor.steps(first)) == Counter([*WHOLE, "analyze#1"])


def test_a_driver_that_is_killed_alone_is_replaced_long_before_its_lease_is_over(floor: Floor) -> None:
    run_id = floor.queue(told="hold analyze#1")
    pid = floor.held(run_id)
    worker = floor.worker_of(pid)
    floor.forget(run_id)
    began = time.time()
    os.kill(pid, signal.SIGKILL)
    floor.ends(run_id)
    assert claims(floor, run_id) == ["queued", "gone"]
    assert seconds_from(began, floor, run_id) < LEASE_SECONDS / 2
    assert worker.poll() is None
    assert [event["data"]["exit_code"] for event in floor.events(run_id, "driver_ended")] == [-signal.SIGKILL]


def test_a_driver_that_hangs_is_replaced_when_its_lease_is_over_and_keeps_no_place(floor: Floor) -> None:
    run_id = floor.queue(told="hold analyze#1")
    pid = floor.held(run_id)
    floor.forget(run_id)
    stop(pid)
    run = floor.run(run_id)
    assert run.expires_at is not None
    over_at = run.expires_at.timestamp()
    floor.ends(run_id)
    assert claims(floor, run_id) == ["queued", "expired"]
    assert seconds_from(over_at, floor, run_id) > 0, "nobody may take it before"
    gone(pid, 30)  # also where the other worker has taken the run, and no hint tells this one
    assert all(worker.poll() is None for worker in floor.workers)


def test_a_run_that_kills_its_drivers_is_set_aside_and_others_go_on(floor: Floor) -> None:
    poisonous = floor.queue(told="die plan")
    others = [floor.queue() for _ in range(2)]
    for run_id in others:
        floor.ends(run_id)
    run = floor.ends(poisonous, "failed")
    assert run.reason == "poison"
    deaths = [event["data"]["exit_code"] for event in floor.events(poisonous, "driver_ended")]
    assert set(deaths) == {-signal.SIGKILL}
    assert len(deaths) == len(claims(floor, poisonous)) - 1, "the last claim sets it aside"
    assert set(claims(floor, poisonous)[1:]) == {"gone"}


def test_a_run_of_a_version_that_nobody_serves_stays_queued_and_says_so(floor: Floor) -> None:
    strange = floor.queue(version="none of ours")
    floor.ends(floor.queue())
    run = floor.run(strange)
    assert (run.status, run.epoch, run.failures) == ("queued", None, 0)
    from runs.served import served

    with floor.database() as database:
        now = served(database)
        assert (now.serves(run), now.serves(floor.run(floor.queue()))) == (False, True)
