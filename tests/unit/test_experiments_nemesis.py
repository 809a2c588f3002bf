"""A fault hits its process at its boundary: it ends as it should, or stands still until it is woken."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from experiments.boundaries import Boundary
from experiments.nemesis import EXIT_CODE, Fault, armed
from experiments.story import Story

AT = Boundary(role="background", label="commit", occurrence=2)
Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(how)`: a process with a busy main thread, whose other thread passes boundary after boundary."""
    started: list[subprocess.Popen[str]] = []

    def begin(how: str) -> subprocess.Popen[str]:
        program = f"""
import threading
from dataclasses import replace
from pathlib import Path
from experiments.boundaries import Boundary
from experiments.nemesis import Fault, armed
from experiments.story import Story
at = {AT!r}
story = Story(Path({str(tmp_path / "told")!r}))
passing = armed(Fault(at=at, how={how!r}), story)
def work():
    try:
        for label in ("begin", "insert"):
            passing(replace(at, label=label))
        passing(replace(at, occurrence=1))
        passing(replace(at, side="after"))
        passing(replace(at, role="main"))
        while True:
            passing(at)
            if {how == "exit" or how == "kill"}:
                break
    finally:
        story.tell("cleaned up")
thread = threading.Thread(target=work, daemon=True)
thread.start()
while thread.is_alive():
    sum(range(1000))
"""
        started.append(subprocess.Popen([sys.executable, "-c", program], text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("how", "exit_code"), [("exit", EXIT_CODE), ("kill", -signal.SIGKILL)])
def test_it_dies_at_its_boundary_and_cleans_nothing_up(how: str, exit_code: int, start: Start, tmp_path: Path) -> None:
    assert start(how).wait(30) == exit_code
    assert (tmp_path / "told").read_text() == "CRASH before commit #2 (background)\n"
    assert Fault(at=AT, how=how).exit_code == exit_code


def test_one_that_is_stopped_does_not_get_a_step_further_until_it_is_woken(start: Start, tmp_path: Path) -> None:
    process = start("stop")
    looked = psutil.Process(process.pid)
    for times in range(1, 51):  # the thread that passes the boundary has to be the one that stops: so look often
        deadline = time.monotonic() + 30
        while looked.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        lines = (tmp_path / "told").read_text().splitlines()
        assert lines.count("STOP before commit #2 (background)") == times
        assert lines.count("WAKE before commit #2 (background)") == times - 1
        process.send_signal(signal.SIGCONT)
        while looked.status() == psutil.STATUS_STOPPED and len((tmp_path / "told").read_text().splitlines()) == len(
            lines
        ):
            assert time.monotonic() < deadline
    assert Fault(at=AT, how="stop").exit_code is None


def test_without_a_fault_nothing_happens(tmp_path: Path) -> None:
    armed(None, Story(tmp_path / "told"))(AT)
    assert (tmp_path / "told").read_text() == ""
