"""Somebody's own graph from the command line: the diffs of docs/adopting.md, and workers that are killed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.cli_world import ROOT, Cli, Running, is_gone
from tests.support.markdown import document

GRAPHS = ROOT / "examples/graphs"
ADOPTING = document("docs/adopting.md")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of the example, and a world of its own beside it."""
    return Path(shutil.copytree(GRAPHS, tmp_path / "graphs"))


def world(shop: Path) -> dict[str, str]:
    return {"SHOP": str(shop.parent / "shop")}


def effects(shop: Path, order: str = "7") -> list[str]:
    return sorted(f"{path.parts[-3]}: {path.read_text()}" for path in (shop.parent / "shop").glob(f"*/{order}/*"))


ALL = ["mails: please approve", "mails: your refund", "refunds: 49.5", "tickets: closed"]


# --- whole runs -------------------------------------------------------------------------------------------------------


def whole() -> tuple[str, str]:
    """The line that goes, and the one that comes."""
    (block,) = [each for each in ADOPTING.blocks("diff") if "onward run" in each]
    before, after = block.splitlines()
    assert (before[0], after[0]) == ("-", "+")
    return before[1:], after[1:]


def test_the_diff_of_the_page_makes_it_a_run(sqlite_cli: Cli, shop: Path) -> None:
    before, after = whole()
    assert before == "python run.py 7"
    program, *words = shlex.split(after)
    assert program == "onward"
    run = sqlite_cli.json(*words, code=5, cwd=shop, **world(shop))
    (question,) = run["graph"]["questions"]
    assert (question["node"], question["value"], question["answer"]) == ("ask_manager", {"refund": 49.5}, None)
    assert run["next_action"]["commands"] == [f"onward answer {run['run_id'][:8]} JSON"]
    assert effects(shop) == ALL[:1]
    done = sqlite_cli.json("answer", run["run_id"], "true", **world(shop))
    assert (done["status"], done["graph"]["result"]["values"]["approved"]) == ("succeeded", True)
    assert effects(shop) == ALL
    other = sqlite_cli("answer", run["run_id"], "false")
    assert (other.code, "Another answer stands: true by alice" in other.err) == (4, True)


# --- the fence alone --------------------------------------------------------------------------------------------------


def applied(lines: list[str], diff: list[str]) -> list[str]:
    """A unified diff, applied."""
    made, at = [], 0
    for line in diff:
        if line.startswith("@@"):
            start = int(line.split()[1].partition(",")[0][1:]) - 1
            made += lines[at:start]
            at = start
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert lines[at] == line[1:], "the page and the example differ"
            made += [lines[at]] if line.startswith(" ") else []
            at += 1
    return made + lines[at:]


def fence_diff() -> list[str]:
    (block,) = [each for each in ADOPTING.blocks("diff") if "fence.take" in each]
    return [line or " " for line in block.splitlines()]


def test_the_diff_of_the_page_fences_the_script() -> None:
    assert sum(line.startswith(("+", "-")) for line in fence_diff()) <= 10
    before, after = ((GRAPHS / name).read_text().splitlines() for name in ("run.py", "run_fenced.py"))
    assert applied(before, fence_diff()) == after


@pytest.mark.campaign
@pytest.mark.parametrize("script", ["run.py", "run_fenced.py"])
def test_the_script_of_the_page_runs(script: str, shop: Path, database_url: str) -> None:
    environment = {**os.environ, **world(shop), "DATABASE_URL": database_url}
    for _ in range(2):  # the second process finds the question still open
        done = subprocess.run(
            [sys.executable, script, "7"], cwd=shop, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "Interrupt(value={'refund': 49.5}" in done.stdout
    assert effects(shop) == ALL[:1]
    with psycopg.connect(database_url) as connection:
        (fenced,) = connection.execute("select to_regclass('onward_fence') is not null").fetchone()
        assert fenced is (script == "run_fenced.py")
        if fenced:
            assert connection.execute("select thread_id, epoch from onward_fence").fetchall() == [("refund of 7", 2)]


# --- workers ----------------------------------------------------------------------------------------------------------


SLOW = (
    "import os, time\nfrom pathlib import Path\nfrom typing import TypedDict\n"
    "from langgraph.graph import START, StateGraph\n"
    "class State(TypedDict, total=False):\n    pids: list\n"
    "def first(state):\n    return {'pids': [os.getpid()]}\n"
    "def second(state):\n"
    "    while Path('hold').exists():\n        Path('at').write_text(str(os.getpid()))\n        time.sleep(0.02)\n"
    "    return {'pids': [*state['pids'], os.getpid()]}\n"
    "graph = StateGraph(State)\ngraph.add_node(first)\ngraph.add_node(second)\n"
    "graph.add_edge(START, 'first')\ngraph.add_edge('first', 'second')\n"
)


@pytest.mark.campaign
def test_workers_serve_a_graph_and_take_over_from_one_that_is_killed(postgres_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "hold").touch()
    words = ("worker", "--graph", "slow.py:graph@7", "--concurrency", "1", "-o", "json")
    workers = [postgres_cli.start(*words, cwd=tmp_path) for _ in range(2)]
    try:
        for worker in workers:
            assert ready(worker)["versions"] == ["graph:graph@7"]
        run = postgres_cli.json(
            *("run", "--graph", "slow.py:graph", "--graph-version", "7", "--input", "{}", "--queue"), cwd=tmp_path
        )
        assert (run["workflow_version"], run["status"]) == ("graph:graph@7", "queued")
        until(lambda: (tmp_path / "at").exists() and (tmp_path / "at").read_text())
        driver = int((tmp_path / "at").read_text())
        parent = int(Path(f"/proc/{driver}/stat").read_text().rsplit(")", 1)[1].split()[1])
        fork_servers = {worker: children_of(worker.process.pid) for worker in workers}
        (busy,) = [worker for worker, known in fork_servers.items() if parent in known]
        busy.process.kill()
        until(lambda: is_gone(driver))
        (tmp_path / "hold").unlink()
        shown = until(lambda: (found := postgres_cli.json("show", run["run_id"]))["status"] == "succeeded" and found)
        first, second = shown["graph"]["result"]["values"]["pids"]
        assert (shown["takeovers"], first == driver, second != driver) == (1, True, True)
    finally:
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            worker.end()


@pytest.mark.campaign
def test_a_worker_whose_graph_has_changed_ends_behind_what_it_drives(postgres_cli: Cli, tmp_path: Path) -> None:
    """It could serve nothing any more: it would be asked, and refuse, once a second."""
    file, hold, at = (tmp_path / name for name in ("slow.py", "hold", "at"))
    file.write_text(SLOW)
    hold.touch()
    worker = postgres_cli.start("worker", "--graph", "slow.py:graph", "-o", "json", cwd=tmp_path)
    try:
        (version,) = ready(worker)["versions"]
        words = ("run", "--graph", "slow.py:graph", "--input", "{}", "--queue")
        run = postgres_cli.json(*words, cwd=tmp_path)
        assert run["workflow_version"] == version
        until(lambda: at.exists() and at.read_text())
        file.write_text(SLOW + "# another text\n")
        later = until(
            lambda: (found := postgres_cli.json(*words, cwd=tmp_path))["workflow_version"] != version and found
        )
        worker.says("is not what it was when this worker was started")
        assert worker.process.poll() is None  # its drive goes on
        hold.unlink()
        assert worker.process.wait(60) == 4
        assert postgres_cli.json("show", run["run_id"])["status"] == "succeeded"
        assert postgres_cli.json("show", later["run_id"])["status"] == "queued"
    finally:
        worker.signal(signal.SIGTERM)
        worker.end()


def ready(worker: Running) -> Any:
    """What a worker says when it is: one JSON object."""
    assert worker.process.stdout is not None
    text = ""
    for line in worker.process.stdout:
        text += line
        if line.startswith("}"):
            return json.loads(text)
    raise AssertionError(worker.process.communicate())


def children_of(pid: int) -> set[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(each) for each in listed} | {pid}


def until(condition, seconds: float = 60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
