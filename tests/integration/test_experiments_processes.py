"""Processes of an experiment: their ends, their silence, their children, and the order in which they store."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from experiments.errors import NotRun
from experiments.processes import ForkServer
from tests.support import experiment_works as works
from tests.support.fork_servers import own_fork_server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with own_fork_server(), ForkServer() as forks:
        forks.warm_up(tmp_path_factory.mktemp("warm"))
        yield forks


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# --- one process ------------------------------------------------------------------------------------------------------


def test_a_process_tells_its_story_and_ends(forks: ForkServer, tmp_path: Path) -> None:
    process = forks.run(works.say, tmp_path / "told", "hello")
    assert (process.exit_code, process.executed, process.end) == (0, ("hello",), "hello")
    assert not process.killed


def test_each_one_is_fresh(forks: ForkServer, tmp_path: Path) -> None:
    running = [forks.start(works.say, tmp_path / str(n), "x") for n in range(3)]
    assert len({one.pid for one in running} | {os.getpid()}) == 4
    assert [one.wait().exit_code for one in running] == [0, 0, 0]


def test_one_that_fails_has_its_reason_as_last_words(forks: ForkServer, tmp_path: Path) -> None:
    process = forks.run(works.fail, tmp_path / "told")
    assert (process.exit_code, process.executed, process.end) == (1, ("plan",), None)
    assert process.last_words == "ValueError: as it was to"


def test_one_that_is_stopped_lives_goes_on_when_woken_and_ends(forks: ForkServer, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = forks.start(works.wait_for, tmp_path / "told", gate)
    assert not running.wait_until_stopped(0.05)
    running.stop()
    assert running.wait_until_stopped() and running.alive
    gate.touch()
    assert not running.ends_within(0.2)  # the gate is open, and it is silent
    running.wake()
    assert running.wait().end == "through the gate"
    assert not running.alive
    running.wake()  # to one that is gone: nothing
    running.kill()
    running.terminate()


def test_one_that_ends_was_not_stopped(forks: ForkServer, tmp_path: Path) -> None:
    running = forks.start(works.say, tmp_path / "told", "x")
    assert not running.wait_until_stopped()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_kill_ends_it_also_while_it_is_stopped(stopped: bool, forks: ForkServer, tmp_path: Path) -> None:
    running = forks.start(works.wait_for, tmp_path / "told", tmp_path / "never")
    if stopped:
        running.stop()
        assert running.wait_until_stopped()
    running.kill()
    process = running.wait()
    assert (process.exit_code, process.killed, process.end) == (-signal.SIGKILL, True, None)


def test_one_that_takes_too_long_is_ended_and_has_no_exit_code(forks: ForkServer, tmp_path: Path) -> None:
    running = forks.start(works.wait_for, tmp_path / "told", tmp_path / "never")
    process = running.wait(0.2)
    assert (process.exit_code, process.killed) == (None, False)
    assert gone(running.pid)


def test_ctrl_c_is_for_the_experiment_and_sigterm_for_the_process(forks: ForkServer, tmp_path: Path) -> None:
    assert forks.run(works.strike_oneself, tmp_path / "int", signal.SIGINT).end == "still there"
    assert forks.run(works.strike_oneself, tmp_path / "term", signal.SIGTERM).exit_code == -signal.SIGTERM


def test_when_it_is_closed_nothing_runs_and_nothing_starts(forks: ForkServer, tmp_path: Path) -> None:
    with ForkServer() as others:
        running = others.start(works.wait_for, tmp_path / "told", tmp_path / "never")
    assert running.wait().exit_code == -signal.SIGKILL
    with pytest.raises(NotRun, match=r"The experiment was stopped\."):
        others.start(works.say, tmp_path / "late", "x")
    assert forks.run(works.say, tmp_path / "other", "x").exit_code == 0  # of somebody else it ends nothing


def test_an_import_that_fails_is_told_and_not_a_slow_case(forks: ForkServer, tmp_path: Path) -> None:
    name = "experiments.no_such_module"
    with ForkServer(name) as broken, pytest.raises(NotRun, match=r"experiments\.no_such_module"):
        broken.warm_up(tmp_path)


# --- children that are forked instead of started ----------------------------------------------------------------------


def told_by_child(forks: ForkServer, tmp_path: Path, *words: str) -> dict[str, Any]:
    process = forks.run(works.start_child, tmp_path / words[0], tmp_path, *words)
    assert process.end == "done", process
    return json.loads(process.lines[0]) | {"last_words": process.last_words}


def test_a_warm_child_is_a_process_of_its_own_with_its_own_pipes(forks: ForkServer, tmp_path: Path) -> None:
    told = told_by_child(forks, tmp_path, "describe", "x")
    said = json.loads(told["said"])
    assert told["code"] == 0
    assert said["pid"] == told["child"] == said["group"]
    assert said["parent"] == told["parent"]
    assert said["arguments"] == [works.NAME, "describe", "x"]
    assert said["heard"] == "hello\n"
    assert said["environment"] == {"ONLY": "this"}
    assert said["cwd"] == str(tmp_path)
    assert (said["threads"], said["sigterm"]) == (1, True)
    assert len(said["open"]) <= 1  # the listing itself: nothing of the driver's is left, inheritable or not


def test_a_warm_child_ends_with_its_own_status(forks: ForkServer, tmp_path: Path) -> None:
    assert told_by_child(forks, tmp_path, "exit")["code"] == 3
    failed = told_by_child(forks, tmp_path, "fail")
    assert (failed["code"], failed["last_words"]) == (1, "ValueError: as it was to")


def test_a_warm_child_dies_with_its_parent(forks: ForkServer, tmp_path: Path) -> None:
    process = forks.run(works.leave_child, tmp_path / "told", tmp_path)
    assert process.exit_code == -signal.SIGKILL
    wait_until(lambda: gone(int(process.lines[0])))


# --- the order of checkpoints and writes ------------------------------------------------------------------------------


def stored(forks: ForkServer, tmp_path: Path, order: str) -> list[str]:
    process = forks.run(works.run_a_graph, tmp_path / order, tmp_path / f"{order}.sqlite", order)
    assert process.end == "done", process.last_words
    return [line.removeprefix("insert into ").removeprefix("EXECUTE ") for line in process.lines[:-1]]


def test_checkpoints_are_durable_before_the_writes_that_they_hold(forks: ForkServer, tmp_path: Path) -> None:
    natural, forced = (stored(forks, tmp_path, order) for order in ("natural", "checkpoint first"))
    begun = ["checkpoints", "writes", "checkpoints"]  # of the input
    assert sorted(natural[:3]) == sorted(forced[:3]) == sorted(begun)
    assert natural[-6:] == ["node", "writes", "checkpoints"] * 2
    assert forced[-6:] == ["node", "checkpoints", "writes"] * 2
