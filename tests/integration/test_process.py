"""A process notices that its parent is gone: by signal, by pipe, and when it was gone before it looked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import psutil
import pytest

from tools.query import REPOSITORY

LINUX = sys.platform == "linux"

# A parent that starts a child, tells the pid of it and waits. What the child does first is the second argument.
PARENT = """
import os, subprocess, sys
command = [sys.executable, "-c", sys.argv[1], str(os.getpid())]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""
CHILD = "import sys, time; from tools.process import die_with_parent; {first}; print(flush=True); time.sleep(60)"
BY_SIGNAL = CHILD.format(first="die_with_parent(int(sys.argv[1]))")
BY_PIPE = CHILD.format(
    first="import tools.process as p; p._ask_for_a_signal = lambda: None; die_with_parent(int(sys.argv[1]), 0)"
)
NOT_AT_ALL = CHILD.format(first="pass")


def gone(pid: int) -> bool:
    """Whether no process runs under the pid; a zombie only waits for its reaper."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], bool]) -> None:
    """Until another process has made it true; the test's time limit ends it else."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.005)


def child_of_a_killed_parent(child: str) -> int:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, child], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
    return pid


@pytest.mark.parametrize("child", [*([BY_SIGNAL] if LINUX else []), BY_PIPE], ids=lambda _: "")
def test_a_child_dies_with_its_killed_parent(child):
    pid = child_of_a_killed_parent(child)
    wait_for(lambda: gone(pid))


def test_a_child_that_does_not_ask_for_it_lives_on():
    pid = child_of_a_killed_parent(NOT_AT_ALL)
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: gone(pid))


def test_a_child_dies_when_its_living_parent_lets_go_of_the_pipe():
    child = subprocess.Popen(
        [sys.executable, "-c", BY_PIPE, str(os.getpid())], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"bytes mean nothing")
        child.stdin.flush()
        child.stdout.readline()
        assert child.poll() is None
        child.stdin.close()
        assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("call", ["die_with_parent", "parent_handle"])
def test_a_child_whose_parent_was_gone_before_it_looked_ends_at_once(call):
    script = f"import sys; from tools.process import {call}; {call}(int(sys.argv[1])); print('alive')"
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass
    done = subprocess.run([sys.executable, "-c", script, str(ended.pid)], cwd=REPOSITORY, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
    done = subprocess.run([sys.executable, "-c", script, str(os.getpid())], cwd=REPOSITORY, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, b"alive\n")
