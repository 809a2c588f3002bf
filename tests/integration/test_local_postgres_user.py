"""The local PostgreSQL of an ordinary user, whoever runs the tests, and of homes in which no socket can lie."""

import os
import pwd
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from runs.postgres_binaries import Account, copies_beside, locate_binaries, runnable_binaries
from runs.postgres_place import key_of
from tests.support.local_servers import (
    python,
)


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
