"""The upgrade drill as a whole, with few runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.cli_world import ROOT


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_runs_come_through_an_upgrade() -> None:
    done = subprocess.run(
        [sys.executable, "experiments/upgrade.py", "--runs", "2", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["verdict"], told["wrong"], len(told["runs"])) == ("pass", [], 7)
    assert told["control"]["went_wrong"] is True
    assert {run["group"] for run in told["runs"] if run["versions"] == ["1", "2"]} == {"migrated"}
