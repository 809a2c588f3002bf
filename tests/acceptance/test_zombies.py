"""`experiments/zombies.py` as a stranger starts it: a few places, and that a mistake is told as one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.markdown import ROOT

pytestmark = pytest.mark.timeout(300)  # seconds on an idle machine, minutes on a busy one


def zombies(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "experiments/zombies.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


@pytest.mark.campaign
@pytest.mark.parametrize("store", ["postgres", pytest.param("sqlite", marks=pytest.mark.exhaustive)])
def test_a_driver_that_is_stopped_in_an_open_transaction_changes_nothing_when_it_wakes(store: str) -> None:
    last = "exit pipeline #9" if store == "postgres" else "commit #6 (background)"
    done = zombies("--store", store, "--only", last, "--wake", "end", "--without-controls", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["verdict"], told["contradictions"]) == (0, "pass", [])
    cases = [case for case in told["cases"] if case["held_something_open"]]
    assert cases, "nothing was open where it was stopped"
    for case in cases:
        assert (case["epochs"], case["status"], case["changed"]) == ([1, 2], "succeeded", [])
        assert case["sessions_terminated"] == 1 if store == "postgres" else case["ended_by_take_over"]
    assert set(told["late_writes"].values()) == {0}
    assert told["forks"] == told["duplicates"] == told["lost"] == 0


@pytest.mark.exhaustive
def test_a_place_that_does_not_exist_is_a_mistake() -> None:
    done = zombies("--only", "no such place", "--without-controls")
    assert (done.returncode, "no such place" in done.stderr) == (2, True)


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_a_share_of_all_places_with_the_controls_and_the_long_steps(store: str) -> None:
    done = subprocess.run(
        [sys.executable, "experiments/zombies.py", "--store", store, "--every", "7", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1400,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["contradictions"], told["doubts"]) == (0, [], [])
    assert {control["harmful"] > 0 for control in told["controls"].values()} == {True}
    assert [step["take_overs"] for step in told["long_steps"]] == [0, 1, 1]
