"""The plan of kills, and the marks that the kills follow."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from experiments.recovering import marks, plan, work
from experiments.recovering.marks import Marks, tell


def first(count: int, seed: int = 7) -> list[plan.Kill]:
    return list(itertools.islice(plan.kills(seed), count))


def test_a_seed_makes_one_plan_and_another_seed_another():
    assert first(40) == first(40)
    assert first(40) != first(40, seed=8)


def test_a_shorter_plan_is_the_beginning_of_a_longer_one():
    assert first(10) == first(200)[:10]


@pytest.mark.parametrize("seed", range(5))
def test_each_block_of_ten_covers_the_run(seed: int):
    blocks = first(30, seed)
    for begin in (0, 10, 20):
        block = blocks[begin : begin + 10]
        assert Counter(kill.step for kill in block) == dict.fromkeys(range(1, work.STEPS + 1), 2)
        assert Counter(kill.target for kill in block) == {"driver": 5, "worker": 5}
        for step in range(1, work.STEPS + 1):
            span = plan.LAST_SPAN_SECONDS if step == work.STEPS else plan.SPAN_SECONDS
            early, late = sorted(kill.after_seconds for kill in block if kill.step == step)
            assert 0 <= early <= span / 2 <= late <= span


def test_no_kill_of_the_last_step_comes_behind_it():
    step_seconds = 2 * work.HALF_STEP_SECONDS
    assert all(kill.after_seconds < step_seconds for kill in first(500) if kill.step == work.STEPS)


def test_a_mark_is_heard_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv(marks.ADDRESS, str(tmp_path / "marks"))
    with Marks(tmp_path / "marks") as receiver:
        tell("a", 1, "begin")
        tell("a", 1, "end")
        found = receiver.wait(lambda mark: mark.word == "end", 5)
        assert found is not None
        assert (found.run_id, found.step, found.pid) == ("a", 1, os.getpid())
        assert [mark.word for mark in receiver.of("a")] == ["begin", "end"]
        assert receiver.of("b") == ()
        assert receiver.wait(lambda mark: mark.run_id == "b", 0.01) is None


def test_a_mark_outlives_the_process_that_sent_it(tmp_path):
    code = (
        "import os, signal\nfrom experiments.recovering.marks import tell\n"
        "tell('a', 3, 'begin')\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    with Marks(tmp_path / "marks") as receiver:
        environment = {**os.environ, marks.ADDRESS: str(tmp_path / "marks")}
        died = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=30)
        assert died.returncode == -signal.SIGKILL
        found = receiver.wait(lambda mark: mark.run_id == "a", 5)
    assert found is not None
    assert found.step == 3


def test_a_step_performs_its_effect_between_its_marks(tmp_path, monkeypatch):
    monkeypatch.setenv(marks.ADDRESS, str(tmp_path / "marks"))
    monkeypatch.setattr(work, "HALF_STEP_SECONDS", 0.001)
    performed: list[tuple[int, str]] = []
    with Marks(tmp_path / "marks") as receiver:
        for number in range(1, work.STEPS + 1):
            work.step("a", number, lambda run_id, number=number: performed.append((number, run_id)))
        assert receiver.wait(lambda mark: (mark.step, mark.word) == (work.STEPS, "end"), 5)
        assert [(mark.step, mark.word) for mark in receiver.of("a")] == [
            (number, word) for number in range(1, work.STEPS + 1) for word in ("begin", "end")
        ]
    assert performed == [(work.EFFECT_STEP, "a")]
