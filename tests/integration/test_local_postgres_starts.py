"""The local PostgreSQL when whoever starts it, or its initdb, is killed or fails."""

import os
import re
import signal
import threading

import pytest

from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_place import find_place
from tests.support.local_servers import (
    ENSURE,
    add_row,
    command_of,
    initdb_of,
    kill_all,
    python,
    rows,
    server_processes,
    unfinished_of,
    wait_for,
)


def test_the_server_outlives_the_process_group_that_started_it(local_home):
    stop(local_home)
    with python(ENSURE + "import time; time.sleep(600)", local_home) as parent:
        dsn = parent.stdout.readline().strip()
        pid = status(local_home).pid
        add_row(dsn)
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    assert ensure(local_home) == dsn
    assert status(local_home).pid == pid
    assert rows(dsn) == 1


LAUNCH_AND_DIE = """
import os, sys, signal
from pathlib import Path
from runs import local_postgres
local_postgres._wait_until_it_answers = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
local_postgres.ensure(Path(sys.argv[1]))
"""


def test_killed_while_the_server_starts(local_home):
    """Killed after the launch, before the server has recorded its pid or answers."""
    add_row(ensure(local_home))
    kill_all(local_home)
    with python(LAUNCH_AND_DIE, local_home) as parent:
        assert parent.wait() == -signal.SIGKILL
    assert rows(ensure(local_home)) == 1
    # A child has its parent's command line for a moment, and then a title of its own.
    data = str(find_place(local_home).data)
    wait_for(lambda: [p.pid for p in server_processes(local_home) if data in command_of(p)] == [status(local_home).pid])


def test_stop_waits_for_a_server_that_is_only_just_starting(local_home):
    kill_all(local_home)
    with python(LAUNCH_AND_DIE, local_home) as parent:
        assert parent.wait() == -signal.SIGKILL
    assert stop(local_home) is True
    assert server_processes(local_home) == []


def test_a_lock_holder_that_hangs_is_named_and_not_waited_for_for_ever(local_home):
    stop(local_home)
    code = """
import fcntl, sys, time
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(600)
"""
    with python(code, find_place(local_home).lock) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(LocalPostgresError, match=re.escape(str(find_place(local_home).lock))):
            ensure(local_home, timeout_seconds=0.2)
    ensure(local_home, timeout_seconds=20)


def test_killed_initdb_leaves_no_half_database(onward_home):
    errors = []

    def first_start():
        with pytest.raises(LocalPostgresError) as caught:
            ensure(onward_home)
        errors.append(str(caught.value))

    thread = threading.Thread(target=first_start)
    thread.start()
    initdb = wait_for(lambda: initdb_of(onward_home))
    wait_for(lambda: any((folder / "base").exists() for folder in unfinished_of(onward_home)))
    initdb.kill()
    thread.join()

    assert "initdb could not make a database" in errors[0]
    assert "exit code -9" in errors[0]
    assert not find_place(onward_home).data.exists()
    ensure(onward_home)
    assert unfinished_of(onward_home) == []


def test_killed_with_initdb_leaves_no_half_database(onward_home):
    with python(ENSURE, onward_home) as parent:
        wait_for(lambda: any((folder / "base").exists() for folder in unfinished_of(onward_home)))
        initdb = initdb_of(onward_home)
        parent.kill()
        if initdb:
            initdb.kill()
        parent.wait()
    # The negative control: something unfinished was there to be taken for a database.
    assert unfinished_of(onward_home) != []
    assert not find_place(onward_home).data.exists()
    assert status(onward_home).major is None

    ensure(onward_home)
    assert unfinished_of(onward_home) == []


def test_a_disk_that_takes_no_more_is_told_and_leaves_nothing(onward_home):
    code = """
import resource, sys
from pathlib import Path
from runs.local_postgres import LocalPostgresError, ensure
from runs.postgres_binaries import runnable_binaries
from runs.postgres_place import find_place
place = find_place(Path(sys.argv[1]))
runnable_binaries(place.account, place.copies)  # copied before the disk is full, where root's environment is closed
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    ensure(Path(sys.argv[1]))
except LocalPostgresError as error:
    print(error)
"""
    with python(code, onward_home) as process:
        said = process.stdout.read()
    assert f"initdb could not make a database in {find_place(onward_home).data}" in said
    assert re.search("File too large|terminated by signal", said)
    assert "DATABASE_URL" in said
    assert not find_place(onward_home).data.exists()
    assert unfinished_of(onward_home) == []
