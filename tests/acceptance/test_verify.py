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
from typing import Any

import psutil
import pytest

from experiments.cluster import PREFIX
from experiments.crash_points import NAMES
from runs import local_postgres

pytestmark = pytest.mark.timeout(300)  # seconds on an idle machine, minutes on a busy one

ROOT = Path(__file__).resolve().parents[2]
WRITING = ["plan", "analyze", "write_draft"]
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
        timeout=250,
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


# --- it passes --------------------------------------------------------------------------------------------------------


def test_every_named_crash_point_passes_on_postgres_and_all_of_it_is_kept(place: Path, tmp_path: Path) -> None:
    done = verify(place, "--only", "points", "--json", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["verdict"], told["reasons"], told["store"]) == ("pass", [], "postgres")
    figures = {name: told[name] for name in ("killed", "not_fired", "duplicates", "lost", "wrong", "unknown")}
    assert figures == {"killed": 7, "not_fired": 0, "duplicates": 0, "lost": 0, "wrong": 0, "unknown": 0}
    assert told["reexecuted_steps"] == 5
    assert told["median_recovery_ms"] > 0
    assert min(told["boundaries_by_group"].values()) >= 50  # the driver's and the ledger's, before and after
    assert told["boundaries"] == sum(told["boundaries_by_group"].values())

    cases = {case["case"]: case for case in told["outcomes"]}
    executed = {name: [process["executed"] for process in case["processes"]] for name, case in cases.items()}
    anew = "write_draft: after effect, then the model writes something else"
    assert executed == {
        "write_draft: before effect": [WRITING, ["write_draft", "test", "deliver"], []],
        "write_draft: after effect": [WRITING, ["write_draft", "test", "deliver"], []],
        "write_draft: after checkpoint": [WRITING, ["test", "deliver"], []],
        "deliver: before effect": [WHOLE, ["deliver"], []],
        "deliver: after effect": [WHOLE, ["deliver"], []],
        "deliver: after checkpoint": [WHOLE, [], []],
        anew: [WRITING, ["write_draft", "test", "deliver"], []],
    }
    after = {name for name in cases if "after effect" in name}
    for name, case in cases.items():
        assert case["outcome"] == "ok"
        assert case["effects"] == {"write_draft": 1, "deliver": 1}
        assert case["receipts"] == {"new": 2, "reused": int(name in after)}
        assert case["epochs"] == [1, 2]
        assert case["same_report"] == (case["digest"] == told["digest"])
        assert case["same_report"] == (name != anew)
        assert [process["exit_code"] for process in case["processes"]] == [86, 0, 0]

    assert json.loads((tmp_path / "out/results.json").read_text()) == told
    assert (tmp_path / "out/index.html").read_text().startswith("<!")
    stories = [path.read_text().splitlines() for path in (tmp_path / "out/stories").rglob("* onward 1.txt")]
    crashes = sorted(line for lines in stories for line in lines[-1:] if line.startswith("CRASH "))
    assert sorted(set(crashes)) == sorted(f"CRASH {name}" for name in NAMES)
    effects = (tmp_path / "out/oracle.log").read_text().splitlines()
    assert len({json.loads(line)["run_id"] for line in effects}) >= 7
    assert of_this_experiment(place) == []


CAMPAIGNS: dict[str, list[str]] = {
    "requests": ["--only", "requests", "--json"],
    "decisions": ["--only", "decisions", "--json"],
    "no-replay": ["--only", "write_draft: after effect", "--plant", "no-replay"],
}


# The cases that must catch each mutant, until one does: what the whole campaign does for each of them.
HUNTS = """
from experiments.campaign import _Campaign, record
from experiments.cluster import cluster
from experiments.mutants import MUTANTS
from experiments.progress import Progress
from experiments.results import _hunt
from experiments.workers import Workers

with cluster("sqlite") as services, Workers(services) as workers:
    campaign = _Campaign(record(workers, None), Progress(len(MUTANTS), lambda line: None), planned=0)
    workers.work_off([campaign.hunt(mutant) for mutant in MUTANTS.values()])
(out / "hunts").write_text(json.dumps([_hunt(hunted) for hunted in campaign.hunted]))
print("hunts=0")
"""


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """(exit code, output) of some campaigns on SQLite. In one process, so that one fork server serves them all."""
    out = tmp_path_factory.mktemp("campaigns")
    program = f"""
import contextlib, json, pathlib, sys, verify
out = pathlib.Path({str(out)!r})
for name, arguments in {CAMPAIGNS!r}.items():
    sys.argv = ["verify.py", "--store", "sqlite", *arguments]
    with (out / name).open("w") as file, contextlib.redirect_stdout(file):
        code = verify.main()
    print(name, code, sep="=")
{HUNTS}"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    codes = dict(line.split("=") for line in done.stdout.splitlines())
    return {name: (int(code), (out / name).read_text()) for name, code in codes.items()}


def one(campaigns: dict[str, tuple[int, str]], name: str) -> dict[str, Any]:
    """The only case of a campaign that passed."""
    code, output = campaigns[name]
    told = json.loads(output)
    assert (code, told["verdict"], told["reasons"], told["store"]) == (0, "pass", [], "sqlite")
    (case,) = told["outcomes"]
    assert case["outcome"] == "ok"
    return case


def test_the_same_request_again_has_the_same_receipt_and_a_changed_one_is_refused(campaigns) -> None:
    case = one(campaigns, "requests")
    (client,) = case["clients"]
    lines = [line.rpartition("-")[0] if "receipt" in line else line.partition(" r")[0] for line in client["lines"]]
    assert case["effects"] == {"write_draft": 1, "deliver": 1}
    assert [line for line in client["lines"] if line.startswith("REFUSED params-conflict")] == [
        line for line in client["lines"] if line.startswith("REFUSED")
    ]
    assert lines.count("TOOL reuse receipt draft") == lines.count("TOOL reuse receipt report") == 1
    assert sum(line.startswith("REFUSED params-conflict") for line in client["lines"]) == 2
    receipts = {line.split()[-1] for process in case["processes"] for line in process["lines"] if "receipt" in line}
    assert receipts == {line.split()[-1] for line in client["lines"] if "receipt" in line}


def test_a_wake_up_that_the_ledger_knows_nothing_of_publishes_nothing(campaigns) -> None:
    case = one(campaigns, "decisions")
    assert case["effects"] == {"write_draft": 1, "deliver": 0}
    assert case["status"] == "failed"  # a person has rejected it
    assert (case["duplicates"], case["lost"]) == (0, 0)


# --- it finds what is wrong -------------------------------------------------------------------------------------------


def test_a_planted_defect_is_found_and_its_story_names_what_and_where(campaigns) -> None:
    code, output = campaigns["no-replay"]
    assert code == 10
    lines = [line.strip() for line in output.splitlines()]
    for line in (
        "== WRONG: the driver killed at the named crash points: write_draft: after effect",
        "# first process",
        "CRASH write_draft: after effect",
        "# second process, resumes by the same thread_id",
        "# third process, resumes the finished run",
        "A defect was planted on purpose: no-replay.",
        "Verdict: disproved.",
    ):
        assert line in lines, output
    seen = "I1 one effect per intended action: the effect of write_draft was sent once more, though no ledger had died"
    assert seen in lines, output


# In how many cases, by which invariant, and what was seen.
CAUGHT_BY = {
    "fresh-action-id": (2, "I3", "draft.save is recorded 2 times"),
    "no-replay": (2, "I1", "the effect of write_draft was sent once more"),
    "silent-resend": (1, "I1", "the effect of write_draft happened 2 times"),
    "early-success": (1, "I3", "the receipt of write_draft names"),
    "blind-replay": (1, "I13", "draft.save was answered under a known id with other parameters"),
    "no-fence": (3, "I5", "has the parent"),
    "arguments-in-id": (1, "I1", "the effect of deliver happened 0 times"),
    "resume-value": (1, "I11", "it was published, and the decisions are []"),
    "next-is-empty": (20, "I1", "the effect of write_draft happened 0 times"),
}


def test_every_mutant_is_caught_and_by_the_rule_that_was_taken_out(campaigns) -> None:
    hunts = {hunt["mutant"]: hunt for hunt in json.loads(campaigns["hunts"][1])}
    for name, (tried, number, seen) in CAUGHT_BY.items():
        caught = hunts[name]["caught_by"]
        assert caught is not None and hunts[name]["tried"] <= tried, (name, hunts[name])
        assert [one for one in caught["violations"] if one.startswith(f"{number} ") and seen in one], (name, caught)
    assert hunts.keys() == CAUGHT_BY.keys()


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--store", "mysql"],
        ["--plant", "nothing"],
        ["--random", "0"],
        ["--random", "many"],
        ["--minutes", "soon"],
        ["--pairs", "--random", "3"],
        ["somewhere"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_starts_nothing(arguments: list[str], monkeypatch, capsys) -> None:
    import verify as program

    monkeypatch.setattr(sys, "argv", ["verify.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.err.startswith("usage: verify.py") and said.out == ""


def test_without_a_database_it_says_so(place: Path) -> None:
    done = verify(place, PG_BIN="/nowhere")
    assert done.returncode == 9
    assert "PG_BIN is /nowhere" in done.stderr
    assert done.stdout == ""


def test_help_teaches(place: Path) -> None:
    done = verify(place, "--help")
    assert done.returncode == 0
    for word in ("exit 10", "--plant no-replay", "original thread id", "control", "invalid", "blind-replay"):
        assert word in done.stdout


# --- it leaves nothing behind -----------------------------------------------------------------------------------------


def started(place: Path, until: str, *arguments: str) -> subprocess.Popen[str]:
    """verify.py, when a file of its temporary home is there."""
    process = subprocess.Popen(
        [sys.executable, "verify.py", *arguments],
        cwd=ROOT,
        env=environment(place),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a signal to its group, as Ctrl-C is one, does not reach the tests
    )
    while not list(place.glob(f"{PREFIX}*/{until}")):
        assert process.poll() is None
        time.sleep(0.02)
    assert of_this_experiment(place) != []
    return process


@pytest.mark.parametrize(
    ("number", "store", "until"),
    [
        (signal.SIGTERM, "postgres", "lane-1/stories/*onward 1.txt"),  # while it records
        (signal.SIGINT, "sqlite", "lane-1/stories/*onward 2.txt"),
    ],
    ids=["SIGTERM", "Ctrl-C"],
)
def test_what_stops_it_leaves_nothing_behind(number: signal.Signals, store: str, until: str, place: Path) -> None:
    process = started(place, until, "--store", store)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal sends it to everybody in the foreground
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.rstrip().endswith("verify: stopped; everything that was started is gone")
    assert of_this_experiment(place) == []


def test_what_sigkill_leaves_is_removed_by_the_next_experiment(place: Path) -> None:
    process = started(place, "lane-1/ledger 1.ready")
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    # The oracle dies with its parent, and so does all that was forked; Postgres does not (as root its folder is
    # elsewhere anyway).
    while [command for command in of_this_experiment(place) if "bin/postgres " not in command]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (left,) = place.glob(f"{PREFIX}*")
    assert local_postgres.status(left / "home").dsn is not None
    cleaner = "from experiments.cluster import remove_abandoned; remove_abandoned()"
    subprocess.run([sys.executable, "-c", cleaner], cwd=ROOT, env=environment(place), check=True)
    assert not left.exists()
    assert local_postgres.status(left / "home").dsn is None
