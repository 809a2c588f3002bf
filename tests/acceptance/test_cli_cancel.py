"""`onward cancel`: a run that waits, a driver that is in the middle of a step, a run that has ended."""

import pytest

from tests.support.cli_world import HELD, wait_until_gone

pytestmark = pytest.mark.timeout(180)


def test_a_run_that_waits_for_a_person_is_brought_to_its_end_and_stays_there(sqlite_cli, sales, inside):
    run = sqlite_cli.a_run(sales, code=5)
    cancelled = sqlite_cli("cancel", run["run_id"][:8], "--reason", "no longer wanted", "-o", "json")
    ended = cancelled.json
    assert (cancelled.code, ended["status"], ended["epoch"]) == (0, "cancelled", 2)
    assert [(a["kind"], a["status"]) for a in ended["actions"]] == [
        ("draft.save", "SUCCEEDED"),
        ("report.publish", "WITHDRAWN"),
    ]
    draft, publication = ended["actions"]
    told = ended["cancel"]
    assert (told["principal"], told["reason"]) == ("alice", "no longer wanted")
    assert [a["action_id"] for a in told["sent"]] == [draft["action_id"]]
    assert (told["withdrawn"], told["unknown"], told["compensations"]) == ([publication["action_id"]], [], [])
    assert draft["receipt"] is not None

    again = inside(sqlite_cli, "cancel", run["run_id"], "--wait")
    assert (again.code, "has ended: cancelled. There is nothing to cancel." in again.err) == (0, True)
    assert "Sent before it was cancelled" in again.out and "Cancelling  asked for by alice" in again.out
    resumed = inside(sqlite_cli, "resume", run["run_id"])
    assert (resumed.code, "Nothing was executed." in resumed.err) == (1, True)
    assert inside(sqlite_cli, "approve", run["run_id"]).code == 4


def test_what_has_succeeded_is_not_cancelled(sqlite_cli, undisturbed, inside):
    refused = inside(sqlite_cli, "cancel", undisturbed.json["run_id"], "-o", "json")
    assert (refused.code, refused.json["status"], refused.json["cancel"]) == (4, "succeeded", None)
    assert "has ended: succeeded. There is nothing to cancel." in refused.err
    empty = inside(sqlite_cli, "cancel", undisturbed.json["run_id"], "--reason", " ")
    assert (empty.code, empty.out) == (2, "")


@pytest.mark.campaign
def test_a_driver_whose_step_does_not_look_ends_and_the_command_that_waits_confirms(sqlite_cli, sales, inside):
    """Asked for and stopped are two facts: the first command only asks, and shows the step."""
    held = sqlite_cli.start("run", sales, "--approve", "--model", HELD, "-o", "json", hold_at="write_draft")
    driver = held.reached()
    (run,) = [r for r in inside(sqlite_cli, "list", "-o", "json").json["runs"] if r["status"] == "running"]
    asked = inside(sqlite_cli, "cancel", run["run_id"], "-o", "json")
    assert (asked.code, asked.json["status"], asked.json["cancel"]["stopped_at"]) == (0, "cancel_requested", None)
    assert f"Process {driver} on " in asked.err and "which is in write_draft, stops it." in asked.err
    shown = inside(sqlite_cli, "show", run["run_id"])
    assert "(stopping, in write_draft)" in shown.out and "Stopping: process" in shown.out

    waited = sqlite_cli("cancel", run["run_id"], "--wait", "-o", "json")
    assert (waited.code, waited.json["status"], waited.json["epoch"]) == (0, "cancelled", 2)
    assert "cancelling was asked for before" in waited.err
    wait_until_gone(driver)
    ended = held.end()
    assert (ended.code, waited.json["actions"], waited.json["cancel"]["sent"]) == (6, [], [])
    assert inside(sqlite_cli, "list", "-o", "json", "--status", "cancel_requested").json["runs"] == []
