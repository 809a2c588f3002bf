"""A run from the command line: to its end, through every kind of stop, and by one driver at a time."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.cli_world import HELD, first_to_end, kill, wait_until_gone

pytestmark = pytest.mark.timeout(180)


def assert_as_undisturbed(run, report_digest):
    """What every run ends with, whatever happened to it: the same report, and two effects that happened once."""
    assert run["status"] == "succeeded"
    assert run["report"]["digest"] == report_digest
    assert run["report"]["published"] is True
    assert [(a["kind"], a["status"], a["receipt"] is not None) for a in run["actions"]] == [
        ("draft.save", "SUCCEEDED", True),
        ("report.publish", "SUCCEEDED", True),
    ]


def test_a_run_with_its_approval_given_in_advance_ends_published(sqlite_cli, undisturbed, inside):
    run = undisturbed.json
    assert undisturbed.code == 0
    assert_as_undisturbed(run, run["report"]["digest"])
    assert run["failures"] == []
    assert (run["epoch"], run["takeovers"]) == (1, 0)
    assert {step["status"] for step in run["steps"]} == {"done"}
    assert run["actions"][1]["decision"]["principal"] == "alice"
    page = Path(run["report"]["html"]).read_text()
    assert "North" in page
    for words in ("plan: done", "new receipt", f"Report: {run['report']['html']}"):
        assert words in undisturbed.err

    # Resuming a finished run executes nothing.
    before = inside(sqlite_cli, "show", run["run_id"], "--events", "-o", "json").json["events"]
    again = inside(sqlite_cli, "resume", run["run_id"][:13], "-o", "json")
    assert (again.code, again.json["status"]) == (0, "succeeded")
    assert "is finished: succeeded. Nothing was executed." in again.err
    assert inside(sqlite_cli, "show", run["run_id"], "--events", "-o", "json").json["events"] == before

    # Deciding on it again is deciding what was decided.
    approved = inside(sqlite_cli, "approve", run["run_id"])
    assert approved.code == 0
    assert "nothing has changed" in approved.err
    assert "by a standing grant" in approved.err
    for view in (["show", run["run_id"], "--events"], ["list"], ["ledger", "list", "--run", run["run_id"]]):
        shown = inside(sqlite_cli, *view)
        assert shown.code == 0
        assert run["actions"][1]["action_id"] in shown.out or view == ["list"]


@pytest.mark.campaign
def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(postgres_cli, sales, report_digest, inside):
    """Ctrl-C in `plan`, the driver killed in `analyze`, the command in `write_draft`, stopped at once in `test`, asked
    to stop in `deliver`; resumed at once each time, and once by two at the same time."""
    held = postgres_cli.start("run", sales, "--approve", "--model", HELD, "-o", "json", hold_at="plan")
    driver = held.reached()
    held.signal(signal.SIGINT)
    held.says("finishing the current step")
    held.let_go()
    stopped = held.end()
    run_id = stopped.json["run_id"]
    assert (stopped.code, stopped.json["status"]) == (6, "queued")
    assert f"onward resume {run_id}" in stopped.err
    assert [(s["step"], s["status"]) for s in stopped.json["steps"]] == [("plan", "done")]
    wait_until_gone(driver)

    held = postgres_cli.start("resume", run_id, "-o", "json", hold_at="analyze#1")
    driver = held.reached()
    # While a driver lives nobody else drives, and nothing is stopped under it.
    refused = inside(postgres_cli, "resume", run_id, "-o", "json")
    assert (refused.code, refused.out) == (4, "")
    assert f"driven by process {driver} on {os.uname().nodename} since" in refused.err
    down = inside(postgres_cli, "down")
    assert down.code == 4
    assert run_id in down.err
    kill(driver)
    killed = held.end()
    assert killed.code == 6
    assert "was ended by SIGKILL; nothing is lost" in killed.err
    assert killed.json["driver"]["state"] == "gone"
    assert killed.json["next_action"]["commands"] == [f"onward resume {run_id[:8]}"]

    both = [postgres_cli.start("resume", run_id, hold_at="write_draft") for _ in range(2)]
    loser, held = first_to_end(both)
    refused = loser.end()
    driver = held.reached()
    assert refused.code == 4
    assert f"driven by process {driver} on" in refused.err
    held.process.kill()
    held.process.communicate()
    wait_until_gone(driver)  # a driver ends with the command that started it

    held = postgres_cli.start("resume", run_id, hold_at="test")
    held.reached()
    held.signal(signal.SIGTERM)
    held.says("finishing the current step")
    held.signal(signal.SIGTERM)
    assert held.end().code == 6

    held = postgres_cli.start("resume", run_id, "-o", "json", hold_at="deliver")
    held.reached()
    held.signal(signal.SIGTERM)
    held.says("finishing the current step")
    held.let_go()
    done = held.end()
    assert done.code == 0  # the current step was the last one
    assert_as_undisturbed(done.json, report_digest)
    assert done.json["epoch"] == 5
    again = {"analyze#1": 2, "write_draft": 2, "test": 2}
    assert {s["step"]: s["attempts"] for s in done.json["steps"]} == {s["step"]: 1 for s in done.json["steps"]} | again


@pytest.mark.campaign
def test_on_sqlite_a_killed_driver_is_resumed_at_once_and_a_rejected_run_publishes_nothing(
    sqlite_cli, sales, report_digest, inside
):
    held = sqlite_cli.start("run", sales, "--model", HELD, "-o", "json", hold_at="deliver")
    driver = held.reached()
    forced = sqlite_cli("down", "--force")
    assert forced.code == 0
    assert "ledger (sqlite)" in forced.err
    wait_until_gone(driver)
    killed = held.end()
    assert killed.code == 6
    run_id = killed.json["run_id"]
    assert "Driver gone, resumable" in inside(sqlite_cli, "show", run_id).out
    assert "driver gone, resumable" in inside(sqlite_cli, "list").out
    early = inside(sqlite_cli, "approve", run_id)
    assert early.code == 4
    assert "nothing is proposed yet" in early.err

    waiting = sqlite_cli.json("resume", run_id, code=5)
    assert (waiting["epoch"], waiting["approval"]["digest"]) == (2, report_digest)
    recorded = inside(sqlite_cli, "reject", run_id, "--reason", "Not now", "--no-resume", "-o", "json")
    assert (recorded.code, recorded.json["status"]) == (0, "queued")
    conflict = inside(sqlite_cli, "approve", run_id, ONWARD_PRINCIPAL="bob")
    assert conflict.code == 4
    assert "Another decision stands: reject by alice" in conflict.err
    assert "Not now" in conflict.err

    done = sqlite_cli.json("resume", run_id, code=1)
    assert (done["status"], done["reason"]) == ("failed", "rejected")
    assert done["report"]["published"] is False
    assert [(a["kind"], a["status"]) for a in done["actions"]] == [
        ("draft.save", "SUCCEEDED"),
        ("report.publish", "WITHDRAWN"),
    ]
    again = inside(sqlite_cli, "reject", run_id, "--reason", "Not now", "-o", "json")
    assert again.code == 1
    assert "nothing has changed" in again.err
    assert inside(sqlite_cli, "resume", run_id).code == 1
