"""`experiments/recovery.py`: kills of the product's own workers and drivers, a few of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "experiments" / "recovery.py"


def recovery(*arguments: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=seconds, check=False, cwd="/"
    )


def test_help_teaches():
    told = recovery("--help", seconds=60)
    assert told.returncode == 0
    assert "Procrastinate" in told.stdout
    assert "exit 10" in told.stdout


def test_a_system_that_is_none_is_a_mistake():
    told = recovery("--only", "Nobody", seconds=60)
    assert told.returncode == 2
    assert "Onward" in told.stderr


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_runs_go_on_with_one_effect_and_the_control_shows_duplicates():
    told = recovery(
        "--kills", "4", "--peer-kills", "10", "--only", "Onward", "--only", "LangGraph, called at once", "--json"
    )
    assert told.returncode == 0, told.stderr
    seen = json.loads(told.stdout)
    assert seen["verdict"] == "pass"
    ours, plain = seen["systems"]
    assert ours["kills"] == ours["completed"] == 4
    assert (ours["duplicates"], ours["lost"], ours["unknown"], ours["stuck"]) == (0, 0, 0, 0)
    assert ours["executed_again"] <= 4
    assert {case["kill"]["target"] for case in ours["cases"]} == {"driver", "worker"}
    assert ours["seconds"]["claim"]["samples"] == 4
    assert ours["seconds"]["claim"]["max"] < ours["seconds"]["recorded"]["max"]
    assert plain["duplicates"] == seen["control_duplicates"] > 0


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_without_peers_there_is_no_control_and_it_is_said():
    told = recovery("--kills", "2", "--only", "Onward, two machines")
    assert told.returncode == 0, told.stderr
    assert "without peers there is no control" in told.stdout
    assert "Onward, two machines: kill to claim, p95" in told.stdout
