"""`onward prune` from the command line: it says what would go, removes it, and leaves report and ledger whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import forget_home
from tests.support.cli_world import ROOT, Cli

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    """A home of these tests' own: they remove what others in a shared one would still look at."""
    made = Cli(tmp_path_factory.mktemp("pruned") / "home", "sqlite")
    yield made
    made("down", "--force")
    forget_home(made.home)


def ledger_prune(cli):
    """What the ledger's own retention would remove of runs that were closed before this moment."""
    command = [sys.executable, "-m", "onward_ledger", "prune", "--older-than", "0h", "--json"]
    done = subprocess.run(
        [*command, "--store", f"sqlite:///{cli.home / 'ledger.sqlite'}"],
        cwd=ROOT,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_finished_run_is_removed_and_its_report_stays(cli, sales, inside):
    run = cli.a_run(sales, "--approve", code=0)
    report = Path(run["report"]["html"])
    files = cli.home / "objects" / "runs" / run["run_id"]
    assert inside(cli, "prune", "-o", "json").json["stores"][0]["runs"] == []  # it is younger than 30 days
    assert '"runs": 0' in ledger_prune(cli)

    looked = inside(cli, "prune", "--older-than", "0s", "--checkpoints", "0s", "-o", "json")
    assert looked.code == 0
    assert "Nothing was changed; --apply removes it." in looked.err
    assert inside(cli, "show", run["run_id"]).code == 0

    done = inside(cli, "prune", "--older-than", "0s", "--checkpoints", "0s", "--apply", "-o", "json")
    assert done.code == 0
    (store,) = done.json["stores"]
    (went,) = [one for one in store["runs"] if one["run_id"] == run["run_id"]]
    assert went["checkpoints"] > 5 and went["events"] > 10
    assert went["objects"] >= 3 and went["bytes"] > sales.stat().st_size
    (would,) = looked.json["stores"]
    assert (store["runs"], store["total"]) == (would["runs"], would["total"])
    assert store["thinned"] == []  # what is gone needs no thinning

    assert inside(cli, "show", run["run_id"]).code == 3
    assert not files.exists()
    assert "North" in report.read_text()
    assert re.search(r'"runs": [1-9]', ledger_prune(cli))  # the fence is closed, so its own retention reaches it
    actions = inside(cli, "ledger", "list", "-o", "json").json["actions"]
    assert {"SUCCEEDED"} == {action["status"] for action in actions if action["run_id"] == run["run_id"]}


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1y", "999999w"])
def test_an_age_that_is_none_is_refused(cli, inside, age):
    done = inside(cli, "prune", f"--older-than={age}", "--apply")
    assert (done.code, done.out) == (2, "")
    assert "is no age" in done.err
