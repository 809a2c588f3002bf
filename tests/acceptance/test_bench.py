"""`experiments/bench.py` as a command, with few rounds: shapes, and that figures are computed from the samples kept.

No time is judged here: a test machine is busy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from experiments.benchmarks import actions, driver, volume
from experiments.benchmarks.services import PREFIX
from tests.support.markdown import ROOT

# A busy machine makes a minute of what takes a quarter of one.
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(250)]

MEASURED = (actions, driver, volume)


def run(folder: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a file, from the project's root, in an environment that leads to an installation that is not there.

    Temporary folders are made in `folder`, where nothing is left of them.
    """
    elsewhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/nobody", "ONWARD_LEDGER_URL": "http://127.0.0.1:1"}
    elsewhere["TMPDIR"] = str(folder)
    done = subprocess.run(
        [sys.executable, "experiments/bench.py", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **elsewhere, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert list(folder.glob(f"{PREFIX}*")) == []
    return done


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    out = folder / "out"
    only = [word for module in MEASURED for word in ("--only", module.NAME)]
    done = run(folder, "--rounds", "2", "--json", "--out", out, *only)
    assert done.returncode == 0, done.stderr[-2000:]
    samples: dict[tuple[str, str], list[float]] = {}
    for line in map(json.loads, (out / "samples.jsonl").read_text().splitlines()):
        samples.setdefault((line["measurement"], line["subject"]), []).append(line["value"])
    return json.loads(done.stdout), samples, done.stderr


def test_every_declared_figure_is_there(measured):
    found, _, said = measured
    assert set(found["figures"]) == {d.key for module in MEASURED for d in module.DECLARED}
    for key, figure in found["figures"].items():
        assert found[key] == pytest.approx(figure["value"], abs=1e-4)
        assert figure["value"] > 0, key
        if figure["unit"] == "ratio":
            assert found[f"{key}_low"] <= found[key] <= found[f"{key}_high"], key
    assert found["machine"]["fsync"] == "on"
    assert found["rounds"] == 2
    assert "bench: driver (1 of 3)" in said


def test_ratios_are_computed_from_the_samples(measured):
    found, samples, _ = measured
    pairs = {
        "driver_ratio": ("driver", "workbook, onward, drive", "workbook, plain, drive"),
        "driver_bare_ratio": ("driver", "empty nodes, onward, drive", "empty nodes, plain, drive"),
        "draft_save_ratio": ("actions", "draft.save", "draft floor"),
        "publish_ratio": ("actions", "report.publish", "publish floor"),
        "replay_ratio": ("actions", "replay", "replay floor"),
        "wal_ratio": ("volume", "onward, WAL bytes", "plain, WAL bytes"),
    }
    for key, (measurement, ours, floor) in pairs.items():
        expected = median(samples[measurement, ours]) / median(samples[measurement, floor])
        assert found[key] == pytest.approx(expected, abs=1e-4), key
    both, floors = (
        [sum(pair) for pair in zip(samples["actions", first], samples["actions", second], strict=True)]
        for first, second in (("draft.save", "report.publish"), ("draft floor", "publish floor"))
    )
    assert found["action_ratio"] == pytest.approx(median(both) / median(floors), abs=1e-4)
    assert len(samples["actions", "draft.save"]) == 2 * actions.ROUNDS_EACH


def test_what_a_run_leaves_is_counted_exactly(measured):
    found, samples, _ = measured
    by_table = {key[1]: taken for key, taken in samples.items() if ", rows of " in key[1]}
    for side, key in (("onward", "rows_per_run"), ("plain", "plain_rows_per_run")):
        tables = {name: taken for name, taken in by_table.items() if name.startswith(f"{side}, ")}
        assert found[key] == sum(median(taken) for taken in tables.values())
    one_each = ("onward.runs", "onward.leases", "onward_ledger.publications", "onward_ledger.grants")
    assert [by_table[f"onward, rows of {table}"] for table in one_each] == [[1.0, 1.0]] * 4
    assert by_table["onward, rows of onward_ledger.actions"] == [2.0, 2.0]
    for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs"):
        assert by_table[f"onward, rows of onward.{table}"] == by_table[f"plain, rows of plain.{table}"]
    assert found["commits_per_run"] > found["plain_commits_per_run"] >= 13


def test_a_profile_says_where_the_time_goes(tmp_path):
    done = run(tmp_path, "--profile", "--rounds", "2", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    profiles = {profile["title"]: profile for profile in json.loads(done.stdout)}
    onward, plain = (profiles[f"driver, empty nodes: {side}"] for side in ("Onward", "plain LangGraph"))
    assert counts(onward)["answer to PUT /v1/actions/*"] == 3
    assert not any("/v1/" in what for what in counts(plain))
    draft = profiles["draft.save inside the ledger"]
    assert counts(draft)["put an object (thread: send)"] == 3
    assert counts(draft, "sums")["exchanges with Postgres"] >= 3
    for profile in (onward, plain, draft):
        for lines in (profile["lines"], profile["sums"]):
            assert sum(line["share"] or 0 for line in lines) == pytest.approx(1)
    functions = profiles["driver, empty nodes: our functions with all that they call"]
    assert any(what.endswith(" drive") for what in counts(functions))


def counts(profile: dict, part: str = "lines") -> dict[str, float]:
    return {line["what"]: line["count"] for line in profile[part]}


def test_a_server_that_does_not_start_ends_with_one_sentence(tmp_path):
    done = run(tmp_path, "--only", "volume", PG_BIN=str(tmp_path))
    assert done.returncode == 9
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("bench: ")
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
