"""`experiments/peers_ledger.py` as a command: ours, the control, and one peer where its package is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from experiments.benchmarks.services import PREFIX
from experiments.peers.systems import CONTROL, ONWARD, PEERS
from tests.support.markdown import ROOT

# A busy machine makes a minute of what takes a quarter of one.
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(250)]

PEER = next(peer for peer in PEERS if peer.name == "agent-once")


def run(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "experiments/peers_ledger.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "DATABASE_URL": "postgresql://127.0.0.1:1/nobody"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert list(folder.glob(f"{PREFIX}*")) == []
    return done


def installed(distribution: str) -> bool:
    try:
        return bool(version(distribution))
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Killed behind the commit, other params, and stopped and woken: the three that need most of each system."""
    only = [word for system in (ONWARD, PEER, CONTROL) for word in ("--only", system.name)]
    done = run(tmp_path_factory.mktemp("peers"), "--json", "--columns", "ACS", "--seed", "7", *only)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(done.stdout)
    return found, {(row["system"], row["provider"]): row for row in found["table"]}


def test_ours_performs_once_in_every_plan_and_refuses_another_request(compared):
    found, table = compared
    assert found["verdict"] == "pass" and found["reasons"] == []
    for provider in ("searchable", "remembers keys"):
        row = table[ONWARD.name, provider]
        assert (row["A"], row["C"], row["S"]) == ("1", "refused", "1")
        assert (row["duplicates"], row["over_refusals"], row["for_a_person"]) == (0, 0, 0)


def test_the_control_repeats_what_nobody_guards(compared):
    _, table = compared
    row = table[CONTROL.name, "searchable"]
    assert (row["A"], row["C"], row["S"]) == ("2", "2", "2")
    assert (
        table[CONTROL.name, "remembers keys"]["C"] == "silent"
    )  # the provider answers with the other request's charge


def test_a_cell_keeps_everything_that_was_seen(compared):
    found, _ = compared
    ours = {(cell["column"], cell["provider"]): cell for cell in found["cells"] if cell["system"] == ONWARD.name}
    stopped = ours["S", "remembers keys"]
    first, second = stopped["processes"]
    assert [line for line in first["lines"] if line.startswith(("STOP", "WAKE", "SENT"))][:2] == [
        "STOP before send",
        "WAKE before send",
    ]
    assert [charge["again"] for charge in stopped["charges"]] == [False, True]  # it did send, behind the take-over
    assert first["answer"] == second["answer"] == "done" and first["says"] == second["says"]
    killed = ours["A", "searchable"]
    assert killed["processes"][0]["exit_code"] == -9
    assert killed["processes"][1]["says"] == killed["charges"][0]["charge"]
    assert found["seed"] == 7


def test_what_is_not_installed_is_named_and_not_compared(compared):
    found, table = compared
    missing = {peer.distribution for peer in PEERS if not installed(peer.distribution)}
    assert set(found["not_installed"]) == missing
    assert ((PEER.name, "searchable") in table) == (PEER.distribution not in missing)
    assert all(peer in found["versions"] for peer in {peer.distribution for peer in PEERS} - missing)


@pytest.mark.parametrize("arguments", [["--columns", "AZ"], ["--only", "nobody"], ["extra"]])
def test_what_makes_no_sense_is_refused(tmp_path, arguments):
    done = run(tmp_path, *arguments)
    assert done.returncode == 2 and "peers_ledger.py: error: " in done.stderr
