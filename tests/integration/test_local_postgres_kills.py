"""The local PostgreSQL when its own processes are killed, suspended, or replaced by strangers."""

import contextlib
import os
import signal
import subprocess
import threading

import psutil
import psycopg
import pytest

from runs import local_postgres
from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_place import find_place
from tests.support.local_servers import (
    add_row,
    kill_all,
    rows,
    server_processes,
)


@pytest.fixture
def bystander(local_home):
    """A living process of the server's account that has nothing to do with the server."""
    process = subprocess.Popen(["sleep", "600"], **find_place(local_home).account.identity)
    yield process
    process.kill()
    process.wait()


def test_killed_postmaster_with_sessions_still_there(local_home):
    dsn = ensure(local_home)
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(contextlib.closing(psycopg.connect(dsn))) for _ in range(10)]
        for session in sessions:
            session.execute("INSERT INTO kept VALUES (1)")  # not committed: must be gone
        add_row(dsn)
        killed = status(local_home).pid
        os.kill(killed, signal.SIGKILL)
        assert ensure(local_home) == dsn
    assert status(local_home).pid != killed
    assert rows(dsn) == 1


def test_killed_postmaster_with_a_session_that_cannot_end(local_home, monkeypatch):
    """A stopped session holds the old shared memory for ever; no second server may start beside it."""
    dsn = ensure(local_home)
    with contextlib.closing(psycopg.connect(dsn)) as session:
        stuck = psutil.Process(session.info.backend_pid)
        stuck.suspend()
        os.kill(status(local_home).pid, signal.SIGKILL)

        monkeypatch.setattr(local_postgres, "ORPHAN_GRACE_SECONDS", 60)
        with pytest.raises(LocalPostgresError, match="in use by processes"):
            ensure(local_home, timeout_seconds=0.5)
        assert stuck.is_running()

        monkeypatch.setattr(local_postgres, "ORPHAN_GRACE_SECONDS", 0.1)
        assert ensure(local_home) == dsn
        assert not stuck.is_running() or stuck.status() == psutil.STATUS_ZOMBIE


def test_acknowledged_rows_survive_the_loss_of_all_processes(local_home):
    dsn = ensure(local_home)
    acknowledged = 0
    for _ in range(3):
        seen = threading.Event()

        def write(seen=seen):
            nonlocal acknowledged
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(dsn, autocommit=True) as connection:
                for _ in range(100_000):
                    connection.execute("INSERT INTO kept VALUES (1)")
                    acknowledged += 1
                    if acknowledged % 20 == 0:
                        seen.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert seen.wait(20)
        kill_all(local_home)
        writer.join()
        assert (find_place(local_home).data / "postmaster.pid").exists()
        assert ensure(local_home) == dsn
        # One more than acknowledged may be there for each kill: committed, and the answer lost.
        assert acknowledged <= rows(dsn) <= acknowledged + 3
    assert acknowledged >= 60


@pytest.mark.parametrize("and_socket", [True, False], ids=["both-files", "socket-lock-only"])
def test_a_stale_pid_of_another_living_process(local_home, bystander, and_socket):
    """After a restart of the machine the recorded number can be anybody's, also of the server's account."""
    add_row(ensure(local_home))
    place = find_place(local_home)
    recorded = (place.data / "postmaster.pid").read_text()
    kill_all(local_home)
    stale = recorded.replace(recorded.split("\n")[0], str(bystander.pid), 1)
    (place.data / "postmaster.pid").write_text(stale)
    (place.sockets / ".s.PGSQL.5432.lock").write_text(stale)
    if not and_socket:
        (place.data / "postmaster.pid").unlink()

    assert status(local_home).pid is None
    assert stop(local_home) is False
    assert rows(ensure(local_home)) == 1
    assert bystander.poll() is None


def test_a_server_that_is_stopped_is_not_replaced(local_home, monkeypatch):
    """It does not answer, but it lives: a second one would destroy the data."""
    monkeypatch.setattr(local_postgres, "CONNECT_SECONDS", 1)
    pid = status(local_home).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(LocalPostgresError, match=f"in use by process {pid}"):
            ensure(local_home, timeout_seconds=0.3)
    finally:
        os.kill(pid, signal.SIGCONT)
    ensure(local_home)
    assert status(local_home).pid == pid


def test_stop_does_not_wait_for_a_session_that_cannot_end(local_home, monkeypatch):
    monkeypatch.setattr(local_postgres, "FAST_STOP_SECONDS", 0.3)
    with contextlib.closing(psycopg.connect(ensure(local_home))) as session:
        os.kill(session.info.backend_pid, signal.SIGSTOP)
        assert stop(local_home) is True
    assert server_processes(local_home) == []


def test_a_server_that_cannot_start_says_why(local_home):
    stop(local_home)
    conf = find_place(local_home).data / "postgresql.conf"
    whole = conf.read_text()
    conf.write_text(whole + "\nno_such_setting = on\n")
    try:
        with pytest.raises(LocalPostgresError) as caught:
            ensure(local_home)
    finally:
        conf.write_text(whole)
    assert 'unrecognized configuration parameter "no_such_setting"' in str(caught.value)
    assert "shut down" not in str(caught.value)  # the log's end, not what was said before
    assert "DATABASE_URL" in str(caught.value)
    assert caught.value.exit_code == 9
    ensure(local_home)
