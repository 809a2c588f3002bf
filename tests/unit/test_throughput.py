"""What the measurement of throughput says of its samples: medians, ratios, and what it calls flat."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from experiments.queueing.campaign import _in_turn
from experiments.queueing.looks import Look
from experiments.queueing.rates import Rate
from experiments.queueing.report import print_results
from experiments.queueing.results import Beside, Results, percentiles

ROOT = Path(__file__).resolve().parents[2]


def results(*, slower: float = 1.0, look_ms: float = 1.0) -> Results:
    """Three rounds; with the longest queue everything takes `slower` times as long, and one look `look_ms`."""
    beside = [
        Beside(
            round=number,
            queued=queued,
            fill_seconds=1.0,
            looks=(Look(name="claim", ms=(look_ms if queued == 1000 else 1.0,)),),
            rates=tuple(
                Rate(
                    workers=workers,
                    queued=queued,
                    runs=10,
                    runs_per_second=10.0 * workers * (1 + number / 100) / (slower if queued == 1000 else 1.0),
                    gaps_ms=(5.0,) if workers == 1 else (),
                )
                for workers in (1, 2)
            ),
            arrivals_ms=(3.0,) if number == 3 else (),
        )
        for number in (1, 2, 3)
        for queued in (10, 1000)
    ]
    return Results(rounds=3, runs=10, workers=(1, 2), queued=(10, 1000), seed=1, seconds=1.0, beside=tuple(beside))


def test_the_same_beside_every_queue_is_flat():
    told = results().to_json()
    assert (told["verdict"], told["not_flat"]) == ("flat", [])
    assert told["runs_per_second"]["10"]["2"]["median"] == pytest.approx(20.4)
    assert told["rate_ratio_longest_to_shortest"]["1"] == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    assert told["slot_free_to_claim_ms"]["10"] == {"p50": 5.0, "p95": 5.0, "max": 5.0, "samples": 3}
    assert told["arrival_to_claim_ms"]["1000"]["samples"] == 1


def test_a_rate_that_falls_is_not_flat():
    told = results(slower=2.0).to_json()
    assert told["verdict"] == "not flat"
    assert told["not_flat"] == [f"{n} workers: 0.50 of the rate with the shortest queue" for n in (1, 2)]


def test_a_look_that_reads_the_whole_queue_is_not_flat():
    assert results(look_ms=90.0).not_flat == ["claim: 90.0 ms, 1.0 ms with the shortest queue"]
    assert results(look_ms=4.0).not_flat == []  # so little is enough, whatever the ratio


def test_the_table_holds_every_figure():
    page = StringIO()
    print_results(results(slower=2.0), page)
    text = page.getvalue()
    for words in ("1 worker, runs a second", "2 workers, runs a second", "claim, ms", "0.50", "verdict: not flat"):
        assert words in text


def test_few_workers_come_first_and_many_come_first_in_turn():
    assert _in_turn((2, 1, 8), 1) == [1, 2, 8]
    assert _in_turn((2, 1, 8), 2) == [8, 2, 1]


def test_nothing_measured_is_no_figure():
    assert percentiles([]) is None


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--queued", "many"], ["--workers"]])
def test_a_command_line_that_makes_no_sense(arguments):
    done = subprocess.run(
        [sys.executable, "experiments/throughput.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage: throughput.py" in done.stderr
