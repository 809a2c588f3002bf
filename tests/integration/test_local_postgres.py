"""The server that starts by itself, with everything around it killed."""

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

from runs import local_postgres, postgres_move
from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_binaries import Account, Binaries, copies_beside, locate_binaries, runnable_binaries
from runs.postgres_place import find_place, key_of

REPOSITORY = Path(__file__).parents[2]


# -- what the tests need -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory):
    """One database for the tests that leave it whole; initdb is the slow part."""
    home = tmp_path_factory.mktemp("shared") / "home"
    ensure(home)
    yield home
    stop(home)
    for folder in (*status(home).outside, home):
        shutil.rmtree(folder)


@pytest.fixture
def home(shared_home):
    """The shared home with its server running and one empty table."""
    with psycopg.connect(ensure(shared_home), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept (n int)")
    return shared_home


@pytest.fixture
def bystander(home):
    """A living process of the server's account that has nothing to do with the server."""
    process = subprocess.Popen(["sleep", "600"], **find_place(home).account.identity)
    yield process
    process.kill()
    process.wait()


@contextlib.contextmanager
def python(code: str, *arguments: object, **options):
    """A Python process of the repository, in a session of its own; killed with its group at the end."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, start_new_session=True, **options
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


ENSURE = """
import sys
from pathlib import Path
from runs.local_postgres import ensure
print(ensure(Path(sys.argv[1])), flush=True)
"""


def wait_for(condition, seconds: float = 20.0):
    """The first true value of the condition; a failure when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return value


def server_processes(home: Path) -> list[psutil.Process]:
    """The server's processes, found by the title that PostgreSQL gives them."""
    place = find_place(home)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and (
                f"postgres: {place.key}: " in " ".join(process.cmdline()) or str(place.data) in process.cmdline()
            ):
                found.append(process)
    return found


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def kill_all(home: Path) -> None:
    """SIGKILL to every process of the server: for the database, the loss of the machine."""
    processes = server_processes(home)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_for(lambda: not server_processes(home))


def rows(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT count(*) FROM kept").fetchone()[0]


def add_row(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO kept VALUES (1)")


# -- a start -------------------------------------------------------------------------------------------------------


def test_first_start_then_attach_then_stop(onward_home):
    assert status(onward_home).major is None

    dsn = ensure(onward_home)
    first = status(onward_home)
    assert first.dsn == dsn
    assert first.major >= 13
    assert ensure(onward_home) == dsn
    assert status(onward_home).pid == first.pid

    assert stop(onward_home) is True
    assert status(onward_home).pid is None
    assert status(onward_home).dsn is None
    assert server_processes(onward_home) == []
    assert stop(onward_home) is False


def test_looking_and_stopping_create_nothing(tmp_path):
    home = tmp_path / "nothing-here"
    assert stop(home) is False
    assert status(home).dsn is None
    assert not home.exists()
    assert not find_place(home).data.exists()


def test_the_server_is_durable_and_closed_to_others(home):
    with psycopg.connect(ensure(home)) as connection:
        settings = dict(connection.execute("SELECT name, setting FROM pg_settings").fetchall())
        rules = connection.execute("SELECT type, auth_method FROM pg_hba_file_rules").fetchall()
    assert {name: settings[name] for name in ("fsync", "synchronous_commit", "full_page_writes")} == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
    }
    assert settings["listen_addresses"] == ""
    assert settings["server_encoding"] == "UTF8"
    assert settings["max_connections"] == "100"
    assert {kind for kind, method in rules if method == "trust"} == {"local"}

    place = find_place(home)
    assert place.data.stat().st_mode & 0o7777 == 0o700
    assert place.data.stat().st_uid == place.account.uid != 0
    assert (place.sockets / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700
    connections = [found for process in server_processes(home) for found in process.net_connections("inet")]
    assert connections == []


def test_the_log_is_readable_in_the_home(home):
    with psycopg.connect(ensure(home), autocommit=True) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1/0")
    assert "ERROR:  division by zero" in (home / "postgres.log").read_text()


def test_a_large_log_is_put_aside_at_the_next_start(home, monkeypatch):
    stop(home)
    monkeypatch.setattr(local_postgres, "LOG_BYTES", 10)
    ensure(home)
    assert "database system is shut down" in (home / "postgres.log.1").read_text()
    assert "database system is shut down" not in (home / "postgres.log").read_text()


def test_the_environment_stays_behind(home, monkeypatch):
    stop(home)
    monkeypatch.setenv("SOME_API_KEY", "secret-of-the-command")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    monkeypatch.setenv("PGPORT", "1")
    ensure(home)
    for process in server_processes(home):
        assert not {"SOME_API_KEY", "PGDATA", "PGPORT"} & set(process.environ())


def test_ctrl_c_is_not_for_the_server(home):
    assert os.getsid(status(home).pid) != os.getsid(0)


def test_several_first_starts_at_once_make_one_server(onward_home):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(python(ENSURE, onward_home)) for _ in range(3)]
        answers = {process.stdout.readline().strip() for process in processes}
        assert [process.wait() for process in processes] == [0, 0, 0]
    assert answers == {ensure(onward_home)}
    assert log_of(onward_home).count("ready to accept connections") == 1
    assert unfinished_of(onward_home) == []


def test_several_starts_in_one_process_make_one_server(home):
    stop(home)
    already = log_of(home).count("ready to accept connections")
    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(ensure, [home] * 4))
    assert len(answers) == 1
    assert log_of(home).count("ready to accept connections") == already + 1


def log_of(home: Path) -> str:
    return (home / "postgres.log").read_text()


# -- an ordinary user, and long paths ------------------------------------------------------------------------------


class OrdinaryUser:
    """Runs code as an ordinary user: as the tests' own account, or under root as `nobody`.

    Under root the interpreter may lie where `nobody` cannot read. So the process begins as root, loads what it needs,
    and then gives up its rights for good.
    """

    def __init__(self, folder: Path, binaries: Path):
        self.folder = folder
        self.binaries = binaries
        self.uid = folder.stat().st_uid

    def run(self, code: str, *arguments: object) -> str:
        prelude = f"""
import os, sys, traceback, encodings.idna
from pathlib import Path
from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_place import find_place
status(Path("/nonexistent"))
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({self.folder.stat().st_gid})
    os.setuid({self.uid})
assert os.getuid() == {self.uid} != 0
home = Path(sys.argv[1])
"""
        environment = {**os.environ, "PG_BIN": str(self.binaries)}
        with python(prelude + code, *arguments, env=environment) as process:
            said = process.stdout.read()
            assert process.wait() == 0
        return said


@pytest.fixture
def ordinary_user(monkeypatch):
    folder = Path(tempfile.mkdtemp(prefix="onward-user-", dir="/tmp"))
    copies = Path("/var/tmp") / folder.name
    binaries = locate_binaries()
    if os.geteuid() == 0:
        entry = pwd.getpwnam("nobody")
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        nobody = Account(name="nobody", uid=entry.pw_uid, gid=entry.pw_gid, switch=True)
        binaries = runnable_binaries(nobody, copies).folder
    yield OrdinaryUser(folder, binaries)
    for left in (folder, *copies_beside(copies)):
        shutil.rmtree(left)


LIFE = """
try:
    dsn = ensure(home)
    pid = status(home).pid
    assert ensure(home) == dsn and status(home).dsn == dsn
    print(pid, dsn, status(home).data, *status(home).outside)
finally:
    assert stop(home) is True
assert status(home).dsn is None and status(home).pid is None
"""


def test_an_ordinary_user_has_everything_in_the_home(ordinary_user):
    home = ordinary_user.folder / "home"
    pid, dsn, data, *outside = ordinary_user.run(LIFE, home).split()
    assert data == f"{home}/postgres"
    assert outside == []
    assert dsn == f"postgresql://postgres@/postgres?host={quote(data, safe='')}&port=5432"
    assert Path(data).stat().st_uid == ordinary_user.uid
    assert Path(data).stat().st_mode & 0o7777 == 0o700
    assert home.stat().st_mode & 0o777 == 0o700
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


def test_a_home_in_which_no_socket_can_be(ordinary_user):
    home = ordinary_user.folder / ("x" * 120) / "a b, c\"d'e 工作簿"
    said = ordinary_user.run(LIFE, home)
    short = f"/tmp/{key_of(home)}"
    assert f"host={quote(short, safe='')}&" in said
    assert said.strip().endswith(f" {short}")
    assert Path(short).stat().st_mode & 0o7777 == 0o700
    assert Path(short).stat().st_uid == ordinary_user.uid
    assert list(Path(short).iterdir()) == []
    Path(short).rmdir()


def test_a_short_folder_that_is_open_to_others_is_refused(ordinary_user):
    home = ordinary_user.folder / ("x" * 120)
    short = Path("/tmp") / key_of(home)
    short.mkdir()
    short.chmod(0o777)
    os.chown(short, ordinary_user.uid, -1)
    try:
        code = "try: ensure(home); stop(home)\nexcept LocalPostgresError as error: print(error)"
        said = ordinary_user.run(code, home)
    finally:
        short.rmdir()
    assert f"{short} has mode 0777 instead of 0700" in said
    assert not home.exists()


# -- the one who starts it is killed -------------------------------------------------------------------------------


def test_the_server_outlives_the_process_group_that_started_it(home):
    stop(home)
    with python(ENSURE + "import time; time.sleep(600)", home) as parent:
        dsn = parent.stdout.readline().strip()
        pid = status(home).pid
        add_row(dsn)
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    assert ensure(home) == dsn
    assert status(home).pid == pid
    assert rows(dsn) == 1


LAUNCH_AND_DIE = """
import os, sys, signal
from pathlib import Path
from runs import local_postgres
local_postgres._wait_until_it_answers = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
local_postgres.ensure(Path(sys.argv[1]))
"""


def test_killed_while_the_server_starts(home):
    """Killed after the launch, before the server has recorded its pid or answers."""
    add_row(ensure(home))
    kill_all(home)
    with python(LAUNCH_AND_DIE, home) as parent:
        assert parent.wait() == -signal.SIGKILL
    assert rows(ensure(home)) == 1
    # A child has its parent's command line for a moment, and then a title of its own.
    data = str(find_place(home).data)
    wait_for(lambda: [p.pid for p in server_processes(home) if data in command_of(p)] == [status(home).pid])


def test_stop_waits_for_a_server_that_is_only_just_starting(home):
    kill_all(home)
    with python(LAUNCH_AND_DIE, home) as parent:
        assert parent.wait() == -signal.SIGKILL
    assert stop(home) is True
    assert server_processes(home) == []


def test_a_lock_holder_that_hangs_is_named_and_not_waited_for_for_ever(home):
    stop(home)
    code = """
import fcntl, sys, time
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(600)
"""
    with python(code, find_place(home).lock) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(LocalPostgresError, match=re.escape(str(find_place(home).lock))):
            ensure(home, timeout_seconds=0.2)
    ensure(home, timeout_seconds=20)


# -- initdb is killed, or fails ------------------------------------------------------------------------------------


def initdb_of(home: Path) -> psutil.Process | None:
    """initdb while it works for this home."""
    place = find_place(home)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if command and command[0].endswith("initdb") and f"{place.data}.init-" in " ".join(command):
                return process
    return None


def unfinished_of(home: Path) -> list[Path]:
    place = find_place(home)
    return list(place.data.parent.glob(f"{place.data.name}.init-*"))


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


# -- the server is killed ------------------------------------------------------------------------------------------


def test_killed_postmaster_with_sessions_still_there(home):
    dsn = ensure(home)
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(contextlib.closing(psycopg.connect(dsn))) for _ in range(10)]
        for session in sessions:
            session.execute("INSERT INTO kept VALUES (1)")  # not committed: must be gone
        add_row(dsn)
        killed = status(home).pid
        os.kill(killed, signal.SIGKILL)
        assert ensure(home) == dsn
    assert status(home).pid != killed
    assert rows(dsn) == 1


def test_killed_postmaster_with_a_session_that_cannot_end(home, monkeypatch):
    """A stopped session holds the old shared memory for ever; no second server may start beside it."""
    dsn = ensure(home)
    with contextlib.closing(psycopg.connect(dsn)) as session:
        stuck = psutil.Process(session.info.backend_pid)
        stuck.suspend()
        os.kill(status(home).pid, signal.SIGKILL)

        monkeypatch.setattr(local_postgres, "ORPHAN_GRACE_SECONDS", 60)
        with pytest.raises(LocalPostgresError, match="in use by processes"):
            ensure(home, timeout_seconds=0.5)
        assert stuck.is_running()

        monkeypatch.setattr(local_postgres, "ORPHAN_GRACE_SECONDS", 0.1)
        assert ensure(home) == dsn
        assert not stuck.is_running() or stuck.status() == psutil.STATUS_ZOMBIE


def test_acknowledged_rows_survive_the_loss_of_all_processes(home):
    dsn = ensure(home)
    acknowledged = 0
    for _ in range(3):
        seen = threading.Event()

        def write(seen=seen):
            nonlocal acknowledged
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(dsn, autocommit=True) as connection:
                for _ in range(100_000):
                    connection.execute("INSERT INTO kept VALUES (1)")
                    acknowledged += 1
                    if acknowledged % 50 == 0:
                        seen.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert seen.wait(20)
        kill_all(home)
        writer.join()
        assert (find_place(home).data / "postmaster.pid").exists()
        assert ensure(home) == dsn
        # One more than acknowledged may be there for each kill: committed, and the answer lost.
        assert acknowledged <= rows(dsn) <= acknowledged + 3
    assert acknowledged >= 150


@pytest.mark.parametrize("and_socket", [True, False], ids=["both-files", "socket-lock-only"])
def test_a_stale_pid_of_another_living_process(home, bystander, and_socket):
    """After a restart of the machine the recorded number can be anybody's, also of the server's account."""
    add_row(ensure(home))
    place = find_place(home)
    recorded = (place.data / "postmaster.pid").read_text()
    kill_all(home)
    stale = recorded.replace(recorded.split("\n")[0], str(bystander.pid), 1)
    (place.data / "postmaster.pid").write_text(stale)
    (place.sockets / ".s.PGSQL.5432.lock").write_text(stale)
    if not and_socket:
        (place.data / "postmaster.pid").unlink()

    assert status(home).pid is None
    assert stop(home) is False
    assert rows(ensure(home)) == 1
    assert bystander.poll() is None


def test_a_server_that_is_stopped_is_not_replaced(home, monkeypatch):
    """It does not answer, but it lives: a second one would destroy the data."""
    monkeypatch.setattr(local_postgres, "CONNECT_SECONDS", 1)
    pid = status(home).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(LocalPostgresError, match=f"in use by process {pid}"):
            ensure(home, timeout_seconds=0.3)
    finally:
        os.kill(pid, signal.SIGCONT)
    ensure(home)
    assert status(home).pid == pid


def test_stop_does_not_wait_for_a_session_that_cannot_end(home, monkeypatch):
    monkeypatch.setattr(local_postgres, "FAST_STOP_SECONDS", 0.3)
    with contextlib.closing(psycopg.connect(ensure(home))) as session:
        os.kill(session.info.backend_pid, signal.SIGSTOP)
        assert stop(home) is True
    assert server_processes(home) == []


def test_a_server_that_cannot_start_says_why(home):
    stop(home)
    conf = find_place(home).data / "postgresql.conf"
    whole = conf.read_text()
    conf.write_text(whole + "\nno_such_setting = on\n")
    try:
        with pytest.raises(LocalPostgresError) as caught:
            ensure(home)
    finally:
        conf.write_text(whole)
    assert 'unrecognized configuration parameter "no_such_setting"' in str(caught.value)
    assert "shut down" not in str(caught.value)  # the log's end, not what was said before
    assert "DATABASE_URL" in str(caught.value)
    assert caught.value.exit_code == 9
    ensure(home)


# -- another major version -----------------------------------------------------------------------------------------


def test_another_major_version_is_refused_and_nothing_is_changed(home):
    stop(home)
    place = find_place(home)
    made_by = place.data / "PG_VERSION"
    right = made_by.read_text()
    before = sorted(path.relative_to(place.data) for path in place.data.rglob("*"))
    made_by.write_text("12\n")
    try:
        with pytest.raises(LocalPostgresError) as caught:
            ensure(home)
        assert sorted(path.relative_to(place.data) for path in place.data.rglob("*")) == before
    finally:
        made_by.write_text(right)
    said = str(caught.value)
    assert f"made by PostgreSQL 12, and the programs in {locate_binaries()} are PostgreSQL {right.strip()}" in said
    assert "OLD=/usr/lib/postgresql/12/bin" in said
    assert '"$OLD/pg_dump"' in said
    assert f"-f {home}/postgres-12.sql" in said
    ensure(home)


def test_the_commands_of_the_refusal_move_the_data(onward_home):
    """Run as they are printed; only `OLD`, and the command that makes the new database, are set for this test."""
    with psycopg.connect(ensure(onward_home)) as connection:
        connection.execute("CREATE SCHEMA onward CREATE TABLE moved (n int PRIMARY KEY)")
        connection.execute("INSERT INTO onward.moved VALUES (1), (2)")
    stop(onward_home)
    place = find_place(onward_home)
    major = status(onward_home).major
    origin = locate_binaries()
    commands = postgres_move.move_commands(place, major, Binaries(folder=origin, origin=origin, major=major))
    assert [command.startswith("onward list ") for command in commands].count(True) == 1
    commands[0] = f"OLD={origin}"
    commands = [f"{sys.executable} -c '{ENSURE}' {onward_home}" if c.startswith("onward ") else c for c in commands]

    done = subprocess.run(
        ["sh", "-ec", "\n".join(commands)], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with psycopg.connect(ensure(onward_home)) as connection:
        assert connection.execute("SELECT n FROM onward.moved ORDER BY n").fetchall() == [(1,), (2,)]
    aside = place.data.with_name(f"{place.data.name}-{major}")
    assert (aside / "PG_VERSION").exists()
    shutil.rmtree(aside)


# -- what is in the way --------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_database_is_left_alone(home):
    stop(home)
    version = find_place(home).data / "PG_VERSION"
    kept = version.read_text()
    version.unlink()
    try:
        with pytest.raises(LocalPostgresError, match="not a PostgreSQL database"):
            ensure(home)
    finally:
        version.write_text(kept)
        if find_place(home).account.switch:
            os.chown(version, find_place(home).account.uid, find_place(home).account.gid)
    ensure(home)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_data_folder_open_to_others_is_refused(home, mode):
    stop(home)
    data = find_place(home).data
    data.chmod(mode)
    try:
        with pytest.raises(LocalPostgresError, match=f"has mode {mode:04o} instead of 0700"):
            ensure(home)
    finally:
        data.chmod(0o700)
    ensure(home)


def test_a_link_in_place_of_the_data_is_refused(home):
    stop(home)
    data = find_place(home).data
    elsewhere = data.with_name(f"{data.name}.elsewhere")
    data.rename(elsewhere)
    data.symlink_to(elsewhere)
    try:
        with pytest.raises(LocalPostgresError, match="is a symbolic link"):
            ensure(home)
    finally:
        data.unlink()
        elsewhere.rename(data)
    ensure(home)


def test_a_home_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalPostgresError, match=r"cannot be used: .*Not a directory"):
        ensure(tmp_path / "file" / "home")


def test_the_status_names_everything_outside_the_home(home):
    found = status(home)
    assert all(not folder.is_relative_to(home) for folder in found.outside)
    if find_place(home).account.switch:
        assert json.loads((home / "postgres.json").read_text()) == {"data": str(found.data)}
        assert found.outside[0] == found.data
    else:
        assert found.data == home / "postgres"
