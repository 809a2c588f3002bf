"""A person decides: the first decision stands, the same again changes nothing, another one is a conflict."""

import json
import os
import shutil
from datetime import datetime, timedelta

import pytest

from runs import local_postgres
from tests.support.cli_world import HELD, kill

# Not text, a control sequence, markup, and a line that looks like ours.
HOSTILE = os.fsdecode(b"caf\xe9 \x1b[31m[bold]\nonward: fine.csv")

pytestmark = pytest.mark.timeout(180)


@pytest.mark.campaign
def test_revise_then_approve_with_another_title(postgres_cli, sales, inside, tmp_path):
    sales = shutil.copy(sales, tmp_path / HOSTILE)
    held = postgres_cli.start(
        *("run", sales, "--ask", "revenue by region", "--model", HELD, "--deadline", "2h", "--budget", "1.5"),
        *("-o", "json"),
        hold_at="write_draft",
    )
    held.reached()
    kill(local_postgres.status(postgres_cli.home).pid)  # with the database gone, the run only takes a little longer
    held.let_go()
    waiting = held.end()
    assert waiting.code == 5
    assert "The local Postgres was gone; it runs again." in waiting.err
    run = waiting.json
    run_id = run["run_id"]
    assert (run["status"], run["driver"]) == ("waiting_human", None)
    assert datetime.fromisoformat(run["deadline_at"]) - datetime.fromisoformat(run["created_at"]) < timedelta(hours=2)
    assert run["budget_usd"] == 1.5
    assert run["approval"]["digest"] == run["report"]["digest"]
    for words in ("Waiting for your decision", run["approval"]["resource"], f"onward approve {run_id[:8]}"):
        assert words in waiting.err
    assert run["input"]["name"] == "caf\ufffd \x1b[31m[bold]\nonward: fine.csv"
    shown = [waiting.out, waiting.err, *(inside(postgres_cli, *view).out for view in (["list"], ["show", run_id]))]
    for text in shown:
        assert "\x1b" not in text
        assert "\nonward: fine" not in text
        assert "[bold]" in text

    # Nobody has decided yet: resuming asks again and executes nothing.
    again = inside(postgres_cli, "resume", run_id, "-o", "json")
    assert (again.code, again.json["epoch"]) == (5, run["epoch"])

    reason = "Say more about [bold]North[/bold]."
    held = postgres_cli.start("revise", run_id, "--reason", reason, "-o", "json", hold_at="deliver#2")
    held.reached()
    kill(json.loads((postgres_cli.home / "ledger.json").read_text())["pid"])  # likewise with the ledger
    held.let_go()
    revised = held.end()
    assert revised.code == 5
    assert revised.json["report"]["revision"] == 2
    assert revised.json["report"]["digest"] != run["report"]["digest"]
    assert "Recorded: revise by alice (asserted)" in revised.err
    assert "[bold]North[/bold]" in revised.err

    approved = postgres_cli("approve", run_id, "--set", "title=Our North", "-o", "json")
    assert approved.code == 0
    run = approved.json
    assert run["status"] == "succeeded"
    assert run["report"]["title"] == "Our North"
    assert run["report"]["publication"]["digest"] == revised.json["report"]["digest"]
    assert [(a["kind"], a["rev"], a["status"]) for a in run["actions"]] == [
        ("draft.save", 1, "SUCCEEDED"),
        ("report.publish", 1, "WITHDRAWN"),
        ("draft.save", 1, "SUCCEEDED"),
        ("report.publish", 1, "WITHDRAWN"),
        ("report.publish", 2, "SUCCEEDED"),
    ]

    same = inside(postgres_cli, "approve", run_id, "--set", "title=Our North", "-o", "json")
    assert (same.code, same.json["epoch"]) == (0, run["epoch"])
    assert "Already decided, and nothing has changed" in same.err
    other = inside(postgres_cli, "approve", run_id, "--set", "title=Other", "-o", "json", ONWARD_PRINCIPAL="bob")
    assert (other.code, other.out) == (4, "")
    assert "Another decision stands: edit by alice" in other.err
    reject = inside(postgres_cli, "reject", run_id, "--reason", "No", ONWARD_PRINCIPAL="bob")
    assert reject.code == 4
    assert "by alice" in reject.err

    checks = {check["name"]: check["verdict"] for check in inside(postgres_cli, "doctor", "-o", "json").json["checks"]}
    assert {checks[name] for name in ("postgres server", "database", "fence", "clock", "ledger")} == {"ok"}
