"""verify.py as a stranger starts it: it passes, it finds planted defects, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from experiments.cluster import PREFIX
from experiments.mutants import ALL
from runs import local_postgres

pytestmark = pytest.mark.timeout(240)  # seconds on an idle machine, a minute on a busy one

ROOT = Path(__file__).resolve().parents[2]
WRITING = ["plan", "analyze", "analyze", "write_draft"]
WHOLE = [*WRITING, "test", "deliver"]


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the experiment makes its temporary home, so that a test can see what is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="ov-", dir="/tmp"))
    yield folder
    for listener in folder.glob("pymp-*"):  # of Python's fork server, when its parent was killed
        shutil.rmtree(listener)
    folder.rmdir()  # fails when something else is left


def environment(place: Path, **changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    return {**kept, "TMPDIR": str(place), **changes}


def verify(place: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "verify.py", *arguments],
        cwd=ROOT,
        env=environment(place, **changes),
        capture_output=True,
        text=True,
        timeout=200,
    )


def of_this_experiment(place: Path) -> list[str]:
    """Command lines of living processes that belong to a home in this place."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if f"{place}/{PREFIX}" in command:
            found.append(command)
    return found


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_every_crash_point_passes_and_the_control_shows_duplicates(store: str, place: Path, tmp_path: Path) -> None:
    done = verify(place, "--store", store, "--json", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["verdict"], told["reasons"], told["store"]) == ("pass", [], store)
    assert (told["faults"], told["fired"], told["duplicates"], told["control_duplicates"]) == (6, 6, 0, 2)

    cases = {case["case"]: case for case in told["cases"]}
    executed = {name: [process["executed"] for process in case["processes"]] for name, case in cases.items()}
    assert executed == {
        "no fault": [WHOLE, []],
        "write_draft: before effect": [WRITING, ["write_draft", "test", "deliver"], []],
        "write_draft: after effect": [WRITING, ["write_draft", "test", "deliver"], []],
        "write_draft: after checkpoint": [WRITING, ["test", "deliver"], []],
        "deliver: before effect": [WHOLE, ["deliver"], []],
        "deliver: after effect": [WHOLE, ["deliver"], []],
        "deliver: after checkpoint": [WHOLE, [], []],
    }
    reused = {name: case["receipts"]["reused"] for name, case in cases.items()}
    assert reused == dict.fromkeys(cases, 0) | {"write_draft: after effect": 1, "deliver: after effect": 1}
    control = {name: list(case["control"]["effects"].values()) for name, case in cases.items()}
    once = [1, 1]
    assert control == dict.fromkeys(cases, once) | {
        "write_draft: after effect": [2, 1],
        "deliver: after effect": [1, 2],
    }
    for name, case in cases.items():
        assert case["effects"] == {"write_draft": 1, "deliver": 1}
        assert case["receipts"]["new"] == 2
        assert case["digest"] == told["digest"]
        assert case["epochs"] == ([1] if name == "no fault" else [1, 2])
        assert case["processes"][0]["exit_code"] == (0 if name == "no fault" else 86)

    assert json.loads((tmp_path / "out/results.json").read_text()) == told
    lines = (tmp_path / "out/stories/onward write_draft after effect 1.txt").read_text().splitlines()
    assert lines[-1] == "CRASH after effect commit, before graph checkpoint"
    assert of_this_experiment(place) == []


def test_each_planted_defect_is_found() -> None:
    """In one process, so that its fork server serves them all."""
    campaigns = f"""
import sys, verify
for name in {list(ALL)}:
    sys.argv = ["verify.py", "--store", "sqlite", "--only", "write_draft: after effect", "--plant", name]
    print(name, verify.main())
"""
    done = subprocess.run([sys.executable, "-c", campaigns], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for name in ALL:
        assert f"A defect was planted on purpose: {name}." in done.stdout
        assert f"{name} 10" in done.stdout
    twice = "I1 one effect per intended action: the effect of write_draft happened 2 times"
    assert done.stdout.count(twice) == len(ALL)
    assert done.stdout.count("Verdict: disproved.") == len(ALL)


def test_without_a_database_it_says_so(place: Path) -> None:
    done = verify(place, PG_BIN="/nowhere")
    assert done.returncode == 9
    assert "PG_BIN is /nowhere" in done.stderr
    assert done.stdout == ""


def started(place: Path, until: str) -> subprocess.Popen[str]:
    """verify.py on Postgres, when a file of its temporary home is there."""
    process = subprocess.Popen(
        [sys.executable, "verify.py"], cwd=ROOT, env=environment(place), stderr=subprocess.PIPE, text=True
    )
    while not list(place.glob(f"{PREFIX}*/{until}")):
        assert process.poll() is None
        time.sleep(0.02)
    assert of_this_experiment(place) != []
    return process


def test_sigterm_in_the_middle_of_a_case_leaves_nothing_behind(place: Path) -> None:
    process = started(place, "stories/onward no fault 1.txt")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.rstrip().endswith("verify: stopped; everything that was started is gone")
    assert of_this_experiment(place) == []


def test_what_sigkill_leaves_is_removed_by_the_next_experiment(place: Path) -> None:
    process = started(place, "ledger.ready")
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    # The ledger and the oracle die with their parent; Postgres does not (as root its folder is elsewhere anyway).
    while [command for command in of_this_experiment(place) if "bin/postgres " not in command]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (left,) = place.glob(f"{PREFIX}*")
    assert local_postgres.status(left / "home").dsn is not None
    cleaner = "from experiments.cluster import remove_abandoned; remove_abandoned()"
    subprocess.run([sys.executable, "-c", cleaner], cwd=ROOT, env=environment(place), check=True)
    assert not left.exists()
    assert local_postgres.status(left / "home").dsn is None


def test_help_teaches(place: Path) -> None:
    done = verify(place, "--help")
    assert done.returncode == 0
    for word in ("TOOL reuse receipt", "exit 10", "--plant no-replay", "original thread id", "control"):
        assert word in done.stdout
