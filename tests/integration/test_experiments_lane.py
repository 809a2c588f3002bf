"""The ledger of a lane: whatever becomes of its process, there is one behind the same address again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from experiments.boundaries import Boundary, read_recording
from experiments.cluster import Cluster, cluster
from experiments.lane import Lane
from experiments.nemesis import Fault
from experiments.processes import Running
from experiments.recordings import record_driver
from experiments.workload import Onward, Plain, Workload
from runs import local_ledger
from runs.errors import ServiceUnreachable
from tests.support.fork_servers import own_fork_server

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def on_postgres(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster on Postgres, where two processes of a ledger may live side by side."""
    with own_fork_server(), cluster("sqlite") as services:
        folder = tmp_path_factory.mktemp("cluster")
        yield Cluster(folder, "postgres", postgres_server, services.oracle, services.forks)


@pytest.fixture(scope="module")
def lane(on_postgres: Cluster) -> Iterator[Lane]:
    with on_postgres.lane(deadline_seconds=1.0) as lane:
        yield lane


def serving(lane: Lane) -> int:
    """The pid of the process that answers at the lane's address."""
    with closing(local_ledger.connect(lane.settings)) as client:
        return client.health().pid


def test_a_process_that_dies_is_followed_by_another_one_behind_the_same_address(lane: Lane) -> None:
    before = serving(lane)
    url, killed = lane.settings.ledger_url, len(lane.ledger.killed)
    lane.ledger.kill()
    lane.ledger.wait_until_back()
    after = serving(lane)
    assert before != after
    assert lane.settings.ledger_url == url
    (dead,) = lane.ledger.killed_since(killed)
    assert (dead.exit_code, dead.killed) == (-signal.SIGKILL, True)


def test_one_with_a_fault_that_it_meets_while_it_starts_is_followed_too(lane: Lane) -> None:
    at = Boundary(role="main", label="connect to Postgres")
    running = lane.ledger.restart(Fault(at=at))
    assert running.wait().crash == str(at)
    lane.ledger.wait_until_back()
    assert serving(lane) not in (running.pid, 0)


def test_one_with_a_recording_writes_down_what_it_passes_to_its_clean_end(lane: Lane, tmp_path: Path) -> None:
    running = lane.ledger.restart(recording=tmp_path / "recording")
    assert serving(lane) == running.pid
    running.terminate()
    process = running.wait()
    assert (process.exit_code, process.end) == (0, "stopped")
    labels = {boundary.label for boundary in read_recording(tmp_path / "recording")}
    assert {"connect to Postgres", "replace a file"} <= labels
    lane.ledger.wait_until_back()


def test_one_that_falls_silent_is_replaced_and_finishes_when_it_is_woken(lane: Lane) -> None:
    silent = lane.ledger.running
    assert silent is not None
    silent.stop()
    assert silent.wait_until_stopped()
    lane.ledger.replace()
    assert serving(lane) != silent.pid
    silent.wake()
    assert silent.alive  # nobody is sent to it, and nobody has ended it
    lane.ledger.retire(silent)
    assert not silent.alive
    assert serving(lane) != silent.pid


def test_its_deadlines_are_those_of_the_lane(lane: Lane) -> None:
    assert lane.ledger.spec.deadline_seconds == 1.0
    assert lane.with_lease(0.5).settings.lease_seconds == 0.5
    assert lane.with_lease(0.5).ledger is lane.ledger


def test_a_lane_that_is_closed_leaves_no_process(postgres_server: str, lane: Lane, tmp_path: Path) -> None:
    services = Cluster(tmp_path, "sqlite", None, lane.oracle, lane.forks)
    with services.lane() as short:
        running: Running | None = short.ledger.running
        assert running is not None and running.alive
    assert not running.alive
    with pytest.raises(ServiceUnreachable):
        serving(short)


@pytest.mark.parametrize("workload", [Onward(), Plain()], ids=["onward", "plain"])
def test_the_first_case_of_a_lane_passes_what_every_other_one_passes(on_postgres: Cluster, workload: Workload) -> None:
    """Else a boundary that was recorded in a lane in use is another moment in a fresh one, or none."""
    with on_postgres.lane() as fresh:
        first, second = (set(record_driver(workload, fresh).boundaries) for _ in range(2))
    assert first == second
    assert not any("create index" in boundary.label for boundary in first)  # what only a first set-up does
