"""`experiments/bench_ledger.py` as a command, with few rounds: what it counts is judged, no time is.

The other measurements are the same rounds over more subjects; see `tests/unit/test_bench_ledger.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median

import pytest

from experiments.benchmarks.services import PREFIX
from experiments.ledger_benchmarks import one_id, replay
from tests.support.markdown import ROOT

# A busy machine makes a minute of what takes a quarter of one.
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(250)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    only = [word for module in (replay, one_id) for word in ("--only", module.NAME)]
    done = subprocess.run(
        [sys.executable, "experiments/bench_ledger.py", "--rounds", "2", "--json", "--out", str(folder / "out"), *only],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "DATABASE_URL": "postgresql://127.0.0.1:1/nobody"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(folder.glob(f"{PREFIX}*")) == []
    samples: dict[tuple[str, str], list[float]] = {}
    for line in map(json.loads, (folder / "out/samples.jsonl").read_text().splitlines()):
        samples.setdefault((line["measurement"], line["subject"]), []).append(line["value"])
    return json.loads(done.stdout), samples


def test_a_replay_writes_nothing_and_a_fresh_action_looked_at_alike_does(measured):
    found, _ = measured
    assert (found["replay_rows"], found["replay_writes"], found["replay_wal_bytes"]) == (0, 0, 0)
    events = 3  # proposed, claimed, recorded
    assert found["fresh_rows"] == replay.LOOKED_AT * (1 + events)
    assert found["fresh_wal_bytes"] > replay.LOOKED_AT * 1000


def test_a_thousand_calls_with_one_id_are_one_send_and_one_receipt(measured):
    found, samples = measured
    assert (found["sends_of_one_id"], found["receipts_of_one_id"]) == (1, 1)
    assert samples["one_id", "sends"] == [1.0] * one_id.REPEATS


def test_ratios_are_computed_from_the_samples(measured):
    found, samples = measured
    expected = median(samples["replay", "onward"]) / median(samples["replay", "floor"])
    assert found["ledger_replay_ratio"] == pytest.approx(expected, abs=1e-4)
