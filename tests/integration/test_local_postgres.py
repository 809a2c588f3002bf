"""The PostgreSQL that starts by itself: starts, attaches, stops, and says what is in its way."""

import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import psutil
import psycopg
import pytest

from runs import local_postgres
from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_place import find_place
from tests.support.local_servers import (
    ENSURE,
    log_of,
    python,
    server_processes,
    unfinished_of,
)


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


def test_the_server_is_durable_and_closed_to_others(local_home):
    with psycopg.connect(ensure(local_home)) as connection:
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

    place = find_place(local_home)
    assert place.data.stat().st_mode & 0o7777 == 0o700
    assert place.data.stat().st_uid == place.account.uid != 0
    assert (place.sockets / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700
    connections = [found for process in server_processes(local_home) for found in process.net_connections("inet")]
    assert connections == []


def test_the_log_is_readable_in_the_home(local_home):
    with (
        psycopg.connect(ensure(local_home), autocommit=True) as connection,
        pytest.raises(psycopg.errors.DivisionByZero),
    ):
        connection.execute("SELECT 1/0")
    assert "ERROR:  division by zero" in (local_home / "postgres.log").read_text()


def test_a_large_log_is_put_aside_at_the_next_start(local_home, monkeypatch):
    stop(local_home)
    monkeypatch.setattr(local_postgres, "LOG_BYTES", 10)
    ensure(local_home)
    assert "database system is shut down" in (local_home / "postgres.log.1").read_text()
    assert "database system is shut down" not in (local_home / "postgres.log").read_text()


def test_the_environment_stays_behind(local_home, monkeypatch):
    stop(local_home)
    monkeypatch.setenv("SOME_API_KEY", "secret-of-the-command")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    monkeypatch.setenv("PGPORT", "1")
    ensure(local_home)
    seen = []
    for process in server_processes(local_home):
        try:
            environment = process.environ()
        except psutil.Error:  # one that is just ending shows it no more, not even to its owner
            assert psutil.wait_procs([process], timeout=20)[1] == []
            continue
        assert not {"SOME_API_KEY", "PGDATA", "PGPORT"} & set(environment)
        seen.append(process.pid)
    assert status(local_home).pid in seen


def test_ctrl_c_is_not_for_the_server(local_home):
    assert os.getsid(status(local_home).pid) != os.getsid(0)


def test_several_first_starts_at_once_make_one_server(onward_home):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(python(ENSURE, onward_home)) for _ in range(3)]
        answers = {process.stdout.readline().strip() for process in processes}
        assert [process.wait() for process in processes] == [0, 0, 0]
    assert answers == {ensure(onward_home)}
    assert log_of(onward_home).count("ready to accept connections") == 1
    assert unfinished_of(onward_home) == []


def test_several_starts_in_one_process_make_one_server(local_home):
    stop(local_home)
    already = log_of(local_home).count("ready to accept connections")
    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(ensure, [local_home] * 4))
    assert len(answers) == 1
    assert log_of(local_home).count("ready to accept connections") == already + 1


def test_a_folder_that_is_no_database_is_left_alone(local_home):
    stop(local_home)
    version = find_place(local_home).data / "PG_VERSION"
    kept = version.read_text()
    version.unlink()
    try:
        with pytest.raises(LocalPostgresError, match="not a PostgreSQL database"):
            ensure(local_home)
    finally:
        version.write_text(kept)
        if find_place(local_home).account.switch:
            os.chown(version, find_place(local_home).account.uid, find_place(local_home).account.gid)
    ensure(local_home)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_data_folder_open_to_others_is_refused(local_home, mode):
    stop(local_home)
    data = find_place(local_home).data
    data.chmod(mode)
    try:
        with pytest.raises(LocalPostgresError, match=f"has mode {mode:04o} instead of 0700"):
            ensure(local_home)
    finally:
        data.chmod(0o700)
    ensure(local_home)


def test_a_link_in_place_of_the_data_is_refused(local_home):
    stop(local_home)
    data = find_place(local_home).data
    elsewhere = data.with_name(f"{data.name}.elsewhere")
    data.rename(elsewhere)
    data.symlink_to(elsewhere)
    try:
        with pytest.raises(LocalPostgresError, match="is a symbolic link"):
            ensure(local_home)
    finally:
        data.unlink()
        elsewhere.rename(data)
    ensure(local_home)


def test_a_home_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalPostgresError, match=r"cannot be used: .*Not a directory"):
        ensure(tmp_path / "file" / "home")


def test_the_status_names_everything_outside_the_home(local_home):
    found = status(local_home)
    assert all(not folder.is_relative_to(local_home) for folder in found.outside)
    if find_place(local_home).account.switch:
        assert json.loads((local_home / "postgres.json").read_text()) == {"data": str(found.data)}
        assert found.outside[0] == found.data
    else:
        assert found.data == local_home / "postgres"
