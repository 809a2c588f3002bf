"""The soak and the measurement of throughput from the command line, for as short as they make sense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.cli_world import ROOT

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(900)]


def started(script, *arguments):
    command = [sys.executable, f"experiments/{script}", *arguments, "--json"]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def says(process, words):
    """Read its progress until a line has these words."""
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"{words!r} was never said")


def assert_nothing_twice(told):
    assert told["broken"] == []
    assert (told["duplicates"], told["lost"]) == (0, 0)
    assert sum(told["runs_by_status"].values()) == told["runs"] > 0
    assert set(told["runs_by_status"]) <= {"succeeded", "failed"}  # failed: a person said that an effect did not happen
    assert told["effects"] >= 2 * told["runs_by_status"]["succeeded"]


def test_a_short_soak_ends_with_nothing_twice():
    process = started("soak.py", "--minutes", "0.5", "--runs", "30", "--workers", "3", "--seed", "11")
    out, err = process.communicate()
    told = json.loads(out)
    assert_nothing_twice(told)
    assert process.returncode == (0 if told["verdict"] == "pass" else 10), err  # so short that a kind may be missing
    assert told["runs"] >= 30
    assert sum(told["kills"].values()) == len(told["raw"]["kills"]) > 5


def test_interrupted_it_brings_what_has_begun_to_its_end():
    process = started("soak.py", "--minutes", "20", "--runs", "400", "--workers", "2")
    says(process, "faults: ")
    says(process, "faults: ")
    process.send_signal(signal.SIGINT)
    says(process, "nothing is killed any more")
    out, _ = process.communicate()
    told = json.loads(out)
    assert told["interrupted"] is True
    assert_nothing_twice(told)
    assert told["runs"] < 400


def test_a_short_measurement_of_throughput_has_every_figure():
    process = started("throughput.py", "--rounds", "1", "--runs", "8", "--workers", "1", "2", "--queued", "10", "500")
    out, err = process.communicate()
    told = json.loads(out)
    assert process.returncode == (0 if told["verdict"] == "flat" else 10), err
    for queued in ("10", "500"):
        assert told["runs_per_second"][queued]["2"]["median"] > 0
        assert told["slot_free_to_claim_ms"][queued]["samples"] >= 7
        assert told["arrival_to_claim_ms"][queued]["p50"] > 0
        assert all(look[queued]["samples"] >= 10 for look in told["looks_ms"].values())
    for plan in (plan for each in told["raw"] for plan in each["plans"].values()):
        assert any("Execution Time" in line for line in plan)
    assert {row["queued"] for row in told["raw"]} == {10, 500}
