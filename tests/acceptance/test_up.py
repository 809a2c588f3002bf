"""`onward up`, workers and the command line together, as somebody has them on one machine."""

import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests.conftest import forget_home
from tests.support.cli_world import ROOT, Cli

pytestmark = pytest.mark.timeout(240)


class Up:
    """The supervisor in a process of its own; what it has said so far."""

    def __init__(self, environment, *words, cwd=ROOT):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "runs.cli", "up", *words],
            cwd=cwd,
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.process.stderr:
            for line in self.process.stderr:
                self.said.append(line.rstrip("\n"))

    def close(self):
        """End it, if it has not ended, and read what it said last."""
        self.process.kill()
        self.process.wait()
        self._reader.join(timeout=20)

    def heard(self, *words, seconds=120):
        """Wait until a line holds all of these words; the line."""
        deadline = time.monotonic() + seconds
        while True:
            for line in list(self.said):
                if all(word in line for word in words):
                    return line
            assert self.process.poll() is None or words[0] == "stopped", self.said
            assert time.monotonic() < deadline, (words, self.said)
            time.sleep(0.05)

    def workers(self):
        return [p for p in psutil.Process(self.process.pid).children() if "worker" in p.cmdline()]


@pytest.fixture
def cli(tmp_path):
    """`onward` in a home of its own: what a supervisor stops is nobody else's."""
    made = Cli(tmp_path / "home", "postgres")
    yield made
    made("down", "--force")
    forget_home(made.home)


def test_everything_runs_under_one_supervisor_and_stops_cleanly(cli, sales, report_digest):
    up = Up(cli.environment(), "--workers", "2", "--concurrency", "1")
    try:
        up.heard("Everything is up")
        made = cli("run", sales, "--approve", "--queue", "-o", "json")
        assert (made.code, made.json["status"]) == (0, "queued")
        assert "No worker is running" not in made.err
        run_id = made.json["run_id"]
        up.heard(run_id, "finished it")
        shown = cli("show", run_id, "-o", "json").json
        assert (shown["status"], shown["report"]["digest"], shown["driver"]) == ("succeeded", report_digest, None)

        # A decision queues the run again, and the command follows the worker that has it.
        waiting = cli("run", sales, "--queue", "-o", "json").json["run_id"]
        up.heard(waiting, "waiting for a person")
        approved = cli("approve", waiting, "-o", "json")
        assert (approved.code, approved.json["status"]) == (0, "succeeded")
        assert "A worker drives it" in approved.err

        # A worker that is killed is started again, and everything goes on.
        killed = up.workers()[0]
        killed.kill()
        up.heard("ended (signal 9); again at once")
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(timeout=60) == 0
        up.heard("stopped")
        assert not psutil.pid_exists(killed.pid)
        assert "Nothing was running" in cli("down").err
    finally:
        up.close()


def test_workers_end_with_a_supervisor_that_is_killed(cli):
    up = Up(cli.environment(), "--workers", "1", "--concurrency", "1")
    up.heard("starting")
    workers = up.workers()
    assert len(workers) == 1
    up.close()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []


GRAPH = """
from langgraph.graph import START, StateGraph
graph = StateGraph(dict)
graph.add_node("only", lambda state: {"answer": 42})
graph.add_edge(START, "only")
"""


@pytest.mark.campaign
def test_graphs_are_named_from_where_it_was_typed_and_one_that_changes_is_served_anew(cli, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "tiny.py").write_text(GRAPH)
    (folder / "runs.py").write_text("raise AssertionError('a module of theirs was taken for ours')")
    up = Up(cli.environment(), "--workers", "1", "--graph", "tiny.py:graph", cwd=folder)
    try:
        first = up.heard("ready for", "graph:graph@").rpartition(" ")[2]
        (folder / "tiny.py").write_text(GRAPH.replace("42", "43"))
        up.heard("ended (exit code 4); again at once")
        up.heard("was started. This worker takes nothing new")
        deadline = time.monotonic() + 60
        while not (again := [line for line in list(up.said) if "ready for" in line][1:]):
            assert time.monotonic() < deadline, up.said
            time.sleep(0.05)
        assert again[0].rpartition(" ")[2] != first
    finally:
        up.close()
    refused = cli("up", "--graph", "nothing.py:graph")
    assert (refused.code, "there is no file nothing.py" in refused.err) == (2, True)


@pytest.mark.parametrize("command", [("up",), ("worker",)])
def test_workers_need_postgres(sqlite_cli, command):
    refused = sqlite_cli(*command)
    assert refused.code == 2
    assert "Workers need Postgres" in refused.err
