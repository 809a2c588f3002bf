"""The processes behind a query live and die as they should: no query, and no kill, leaves one behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import psutil
import pytest

from tools.errors import QueryError
from tools.process import end_children
from tools.query import REPOSITORY, QueryServer

LINUX = sys.platform == "linux"
ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000000) b"


def children_of(pid: int | None) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def wait_for(condition: Callable[[], object]) -> object:
    """The first true value of a condition that another process will make true; the test's time limit ends it else."""
    pause = threading.Event()
    while not (value := condition()):
        pause.wait(0.005)
    return value


def gone(pid: int) -> bool:
    """Whether no process runs under the pid; a zombie holds nothing any more and only waits to be reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Background:
    """A query in a thread, and how it ended."""

    def __init__(self, server: QueryServer, sql: str) -> None:
        self.error: QueryError | None = None
        self._thread = threading.Thread(target=self._run, args=(server, sql))
        self._thread.start()

    def _run(self, server: QueryServer, sql: str) -> None:
        try:
            server.run([], sql)
        except QueryError as error:
            self.error = error

    def join(self) -> QueryError | None:
        self._thread.join()
        return self.error


def test_nothing_runs_before_the_first_query_nor_after_close():
    queries = QueryServer()
    assert queries.pid is None
    assert queries.run([], "SELECT 1").rows == ((1,),)
    pid = queries.pid
    assert pid is not None
    queries.close()
    assert queries.pid is None
    assert not psutil.pid_exists(pid)
    queries.close()
    assert queries.run([], "SELECT 2").rows == ((2,),)  # a closed server may be asked again
    queries.close()


def test_the_server_forks_from_a_single_thread_and_inherits_nothing():
    kept = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(kept, True)
    with QueryServer() as queries:
        queries.run([], "SELECT 1")
        server = psutil.Process(queries.pid)
        assert server.num_threads() == 1
        # 0, 1, 2, the two pipes of the protocol and, on Linux, the handle on this process
        assert server.num_fds() == 5 + LINUX
        assert server.net_connections() == []
    os.close(kept)


@pytest.mark.parametrize(
    ("victim", "how", "kind"),
    [
        ("server", signal.SIGKILL, "died"),
        ("child", signal.SIGKILL, "died"),
        ("child", signal.SIGSEGV, "died"),
        ("child", signal.SIGXCPU, "time"),
    ],
)
def test_a_killed_process_is_an_error_and_the_next_query_works(victim, how, kind):
    with QueryServer() as queries:
        queries.start()
        server = queries.pid
        background = Background(queries, ENDLESS)
        (child,) = wait_for(lambda: children_of(server))
        os.kill(server if victim == "server" else child, how)
        error = background.join()
        assert error is not None
        assert (error.kind, error.definite) == (kind, kind != "died")
        wait_for(lambda: gone(child))
        assert queries.run([], "SELECT 1").rows == ((1,),)
        assert (queries.pid == server) is (victim == "child")


def test_a_server_that_died_between_queries_is_started_again():
    with QueryServer() as queries:
        queries.run([], "SELECT 1")
        server = queries.pid
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: gone(server))
        assert queries.run([], "SELECT 2").rows == ((2,),)
        assert queries.pid != server


def test_the_server_outlives_the_thread_that_started_it():
    with QueryServer() as queries:
        starter = threading.Thread(target=queries.start)
        starter.start()
        starter.join()
        server = queries.pid
        assert queries.run([], "SELECT 1").rows == ((1,),)
        assert queries.pid == server


def test_a_server_that_cannot_start_is_said_to(monkeypatch, tmp_path, capfd):
    (tmp_path / "duckdb.py").write_text("raise ImportError('no such engine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with QueryServer() as queries, pytest.raises(QueryError, match="could not start") as caught:
        queries.start()
    assert caught.value.kind == "died"
    assert queries.pid is None
    assert "no such engine" in capfd.readouterr().err


def test_an_interrupted_wait_does_not_answer_the_next_query(monkeypatch):
    class Stopped(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    with QueryServer() as queries:
        queries.start()
        with monkeypatch.context() as patched:
            patched.setattr("tools.query._receive", stop)
            with pytest.raises(Stopped):
                queries.run([], "SELECT 'first'")
        assert queries.run([], "SELECT 'second'").rows == (("second",),)


DRIVER = f"""
import subprocess, sys
from tools.query import QueryServer
with QueryServer() as queries:
    queries.start()
    other = 0
    if sys.argv[2] == "shared":  # a process that outlives this one holds the server's pipe open
        fd = queries._server.stdin.fileno()
        null = subprocess.DEVNULL
        other = subprocess.Popen(["sleep", "60"], pass_fds=[fd], stdin=null, stdout=null).pid
    print(queries.pid, other, flush=True)
    if sys.argv[1] == "busy":
        queries.run([], {ENDLESS!r})
    sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["busy", "idle"])
@pytest.mark.parametrize(
    ("how", "pipe"),
    [(signal.SIGKILL, "own"), (signal.SIGTERM, "own"), *([(signal.SIGKILL, "shared")] if LINUX else [])],
)
def test_all_of_it_dies_with_the_driver(state, how, pipe):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, state, pipe], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with driver:
        assert driver.stdout is not None
        server, other = map(int, driver.stdout.readline().split())
        children = wait_for(lambda: children_of(server)) if state == "busy" else []
        driver.send_signal(how)
        for pid in [server, *children]:
            wait_for(lambda pid=pid: gone(pid))
    if other:
        assert not gone(other)
        os.kill(other, signal.SIGKILL)


def test_a_child_dies_with_a_killed_server_whose_driver_lives():
    with QueryServer() as queries:
        queries.start()
        background = Background(queries, ENDLESS)
        (child,) = wait_for(lambda: children_of(queries.pid))
        os.kill(queries.pid, signal.SIGKILL)
        wait_for(lambda: gone(child))
        assert background.join() is not None


LIMITED = """
import mmap, resource, sys
from tools.query_child import limit_this_process
limit_this_process({"seconds": 2.5, "process_bytes": 1 << 28}, hard_memory=sys.argv[2] == "hard")
print([resource.getrlimit(number)[0] for number in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)])
try:
    mmap.mmap(-1, 1 << 29)
except OSError:
    print("no memory")
with open(sys.argv[1], "w") as file:
    file.write("x")
"""


@pytest.mark.parametrize("memory", ["hard", "soft"] if LINUX else ["soft"])
def test_a_limited_process_can_neither_write_nor_take_memory(tmp_path, memory):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "file"), memory], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["[4, 0, 0]"] + ["no memory"] * (memory == "hard")
    assert "File too large" in done.stderr
    assert (tmp_path / "file").read_bytes() == b""


def test_a_query_is_ended_at_once_when_the_step_is_to_stop():
    with QueryServer() as queries:
        running = Background(queries, ENDLESS)
        server = wait_for(lambda: queries.pid)
        wait_for(lambda: children_of(server))
        pids = [server, *children_of(server)]
        assert end_children() == 1
        error = running.join()
        assert error is not None and error.kind == "died"
        wait_for(lambda: all(gone(pid) for pid in pids))
        assert queries.run([], "SELECT 1").rows == ((1,),)  # what is asked afterwards finds a new server
    assert end_children() == 0
