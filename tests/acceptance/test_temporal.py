"""`onward temporal` as a user has it: real workers that are killed, the real ledger, Temporal's dev server."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading

import pytest

from tests.support.cli_world import HELD, ROOT, kill, wait_until_gone
from tests.support.runs_world import until
from tests.support.temporal_world import dev_server

pytestmark = [pytest.mark.timeout(600), pytest.mark.exhaustive]


# A worker imports everything before it says that it is ready, which takes long on a busy machine.
READY_SECONDS = 180


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with dev_server(tmp_path_factory.mktemp("temporal")) as found:
        yield found


class Workers:
    """`onward temporal worker`s, and `onward worker`s, of one home."""

    def __init__(self, cli, address, folder):
        self.cli = cli
        self._address = address
        self._folder = folder
        self._started = []

    def start(self, *command, hold_at=None, **more):
        """The process, when it says that it is ready; and the folder where its drivers are held."""
        hold = self._folder / f"hold-{len(self._started)}"
        hold.mkdir()
        held = {"ONWARD_TEST_HOLD": f"{hold}|{hold_at}"} if hold_at else {}
        environment = self.cli.environment(TEMPORAL_ADDRESS=self._address, **held, **more)
        with (self._folder / f"worker-{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "runs.cli", *(command or ("temporal", "worker")), "-o", "json"],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._started.append(process)
        killer = threading.Timer(READY_SECONDS, process.kill)
        killer.start()
        ready = json.JSONDecoder().raw_decode(_first_object(process.stdout))[0]
        killer.cancel()
        assert ready["pid"] == process.pid
        return process, hold

    def end(self):
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate()


def _first_object(lines):
    """What is read until a line ends the JSON object that the first line begins."""
    read = ""
    for line in lines:
        read += line
        if line.startswith("}") or (line.startswith("{") and line.rstrip().endswith("}")):
            break
    return read


@pytest.fixture
def workers(postgres_cli, address, tmp_path):
    made = Workers(postgres_cli, address, tmp_path)
    yield made
    made.end()


@pytest.fixture
def temporal(postgres_cli, address):
    """`temporal("start", …)`: a command that speaks to the dev server."""

    def command(*words):
        return postgres_cli("temporal", *words, TEMPORAL_ADDRESS=address)

    return command


def reached(hold):
    return int(until(lambda: (hold / "at").exists() and (hold / "at").read_text(), 180))


def assert_published_once(run, report_digest):
    assert run["status"] == "succeeded"
    assert run["report"]["digest"] == report_digest
    assert [(a["kind"], a["status"], a["receipt"] is not None) for a in run["actions"]] == [
        ("draft.save", "SUCCEEDED", True),
        ("report.publish", "SUCCEEDED", True),
    ]


def test_a_killed_worker_a_person_and_a_signal(workers, temporal, postgres_cli, sales, report_digest):
    run_id = postgres_cli.json("run", sales, "--model", HELD, "--queue")["run_id"]
    assert temporal("start", run_id, "--heartbeat", "2", "--poll", "600").code == 0
    first, hold = workers.start(hold_at="write_draft")
    driver = reached(hold)
    kill(first.pid)
    wait_until_gone(driver)  # a driver ends with its worker
    workers.start()
    waiting = until(lambda: (seen := postgres_cli.json("show", run_id))["status"] == "waiting_human" and seen, 180)
    assert waiting["epoch"] == 2
    assert {step["step"]: step["attempts"] for step in waiting["steps"]}["write_draft"] == 2
    assert postgres_cli("approve", run_id, "--no-resume").code == 0
    assert temporal("signal", run_id, "decided").code == 0
    done = temporal("start", run_id, "--wait", "-o", "json")  # it runs already: this waits for its end
    assert done.code == 0, done.err
    assert_published_once(done.json, report_digest)
    assert done.json["epoch"] == 3


def test_a_worker_of_the_queue_and_one_of_temporal_on_one_database(
    workers, temporal, postgres_cli, sales, report_digest
):
    """Both take the run up when its driver is killed: one of them has it, the other watches."""
    run_id = postgres_cli.json("run", sales, "--approve", "--model", HELD, "--queue")["run_id"]
    _, hold = workers.start("worker", hold_at="write_draft")
    driver = reached(hold)
    workers.start()
    assert temporal("start", run_id, "--heartbeat", "2").code == 0
    kill(driver)
    (hold / "go").touch()
    done = temporal("start", run_id, "--wait", "-o", "json")
    assert done.code == 0, done.err
    assert_published_once(done.json, report_digest)
    assert done.json["epoch"] == 2
    again = temporal("start", run_id, "--wait", "-o", "json")
    assert (again.code, again.json["epoch"]) == (0, 2)
    assert "No workflow is started" in again.err


def test_cancel_by_a_signal(workers, temporal, postgres_cli, sales):
    run_id = postgres_cli.json("run", sales, "--queue")["run_id"]
    workers.start()
    assert temporal("start", run_id, "--poll", "600").code == 0
    until(lambda: postgres_cli.json("show", run_id)["status"] == "waiting_human", 180)
    assert temporal("signal", run_id, "cancel", "--reason", "Not wanted").code == 0
    done = temporal("start", run_id, "--wait", "-o", "json")
    assert done.json["status"] == "cancelled"
    assert "Not wanted" in done.json["message"]
    assert {a["kind"]: a["status"] for a in done.json["actions"]} == {
        "draft.save": "SUCCEEDED",
        "report.publish": "WITHDRAWN",
    }


def test_a_worker_ends_also_when_temporal_is_gone(workers, tmp_path):
    (tmp_path / "other").mkdir()
    with dev_server(tmp_path / "other") as other:
        workers._address = other
        worker, _ = workers.start("temporal", "worker", "--grace", "1")
    worker.terminate()
    assert worker.wait(60) in (0, 9)  # 9: what waits for an answer could not be stopped in time


def test_what_is_wrong_is_said(temporal, postgres_cli, sales):
    run_id = postgres_cli.json("run", sales, "--queue")["run_id"]
    nobody = postgres_cli("temporal", "start", run_id, TEMPORAL_ADDRESS="127.0.0.1:9")
    assert nobody.code == 9
    assert "Temporal at 127.0.0.1:9 does not answer" in nobody.err
    unknown = temporal("signal", run_id, "decided")
    assert unknown.code == 3
    assert f"onward temporal start {run_id}" in unknown.err
