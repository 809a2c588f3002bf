"""Where the local server lies, and the commands for another major version."""

from pathlib import Path

import psycopg.conninfo
import pytest

from runs import postgres_place
from runs.postgres_binaries import Account, Binaries, LocalPostgresError
from runs.postgres_move import move_commands
from runs.postgres_place import Place, find_place, key_of

USER = Account(name="ada", uid=1000, gid=1000, switch=False)
NOBODY = Account(name="nobody", uid=65534, gid=65534, switch=True)


def place(home: str, account: Account = USER, data: str | None = None) -> Place:
    folder = Path(data or f"{home}/postgres")
    return Place(home=Path(home), data=folder, sockets=folder, account=account)


def test_the_key_is_stable_and_differs_by_home():
    assert key_of(Path("/home/ada/.onward")) == "onward-ea2ad62caf6ea673"
    assert key_of(Path("/home/bob/.onward")) != key_of(Path("/home/ada/.onward"))


def test_the_connection_string_names_the_socket_and_asks_for_no_password():
    found = psycopg.conninfo.conninfo_to_dict(place("/home/ada l/ö").dsn)
    assert found == {"user": "postgres", "dbname": "postgres", "host": "/home/ada l/ö/postgres", "port": "5432"}


@pytest.mark.parametrize(
    ("folder", "fits"),
    [
        ("/home/ada/.onward/postgres", True),
        ("/" + "x" * 85, True),
        ("/" + "x" * 86, False),
        ("/" + "ö" * 43, False),
        ("/home/a,b", False),
        ("/home/a b", False),
        ('/home/a"b', False),
        ("/home/a\nb", False),
    ],
)
def test_whether_a_socket_can_lie_in_a_folder(folder, fits):
    assert postgres_place._fits_a_socket(Path(folder)) is fits


def test_a_long_home_has_its_socket_elsewhere(monkeypatch):
    monkeypatch.setattr(postgres_place.os, "geteuid", lambda: 4711)
    home = Path("/nonexistent") / ("x" * 100)
    found = find_place(home)
    assert found.data == home / "postgres"
    assert found.sockets == Path("/tmp") / key_of(home)
    assert found.account.uid == 4711
    assert found.account.switch is False


def test_a_tilde_is_the_users_home(monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent/ada")
    assert find_place(Path("~/.onward")).home == Path("/nonexistent/ada/.onward")


def test_windows_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(postgres_place.sys, "platform", "win32")
    with pytest.raises(LocalPostgresError, match="Set DATABASE_URL to a PostgreSQL server"):
        find_place(Path("/nonexistent"))


def test_commands_for_an_ordinary_user():
    binaries = Binaries(folder=Path("/new/bin"), origin=Path("/new/bin"), major=18)
    assert move_commands(place("/home/ada l"), 16, binaries) == [
        "OLD=/usr/lib/postgresql/16/bin    # or wherever PostgreSQL 16's programs are",
        "\"$OLD/pg_ctl\" -D '/home/ada l/postgres' -l '/home/ada l/postgres'/move.log "
        "-o '-c listen_addresses= -c unix_socket_directories='\"'\"'/home/ada l/postgres'\"'\"'' -w start",
        "\"$OLD/pg_dump\" -h '/home/ada l/postgres' -p 5432 -U postgres -f '/home/ada l/postgres-16.sql' postgres",
        "\"$OLD/pg_ctl\" -D '/home/ada l/postgres' -m fast -w stop",
        "mv '/home/ada l/postgres' '/home/ada l/postgres-16'",
        "onward list    # makes an empty database of PostgreSQL 18",
        "/new/bin/psql -h '/home/ada l/postgres' -p 5432 -U postgres -q -d template1 "
        "-c 'DROP DATABASE postgres WITH (FORCE)' -c 'CREATE DATABASE postgres'",
        "/new/bin/psql -h '/home/ada l/postgres' -p 5432 -U postgres -q -d postgres -v ON_ERROR_STOP=1 "
        "-f '/home/ada l/postgres-16.sql'",
    ]


def test_commands_for_root_run_the_server_as_its_account():
    binaries = Binaries(folder=Path("/copy/bin"), origin=Path("/root/bin"), major=18)
    commands = move_commands(place("/root/.onward", NOBODY, "/var/tmp/onward-1"), 17, binaries)
    assert [command for command in commands if command.startswith("runuser")] == [
        'runuser -u nobody -- "$OLD/pg_ctl" -D /var/tmp/onward-1 -l /var/tmp/onward-1/move.log '
        "-o '-c listen_addresses= -c unix_socket_directories=/var/tmp/onward-1' -w start",
        'runuser -u nobody -- "$OLD/pg_ctl" -D /var/tmp/onward-1 -m fast -w stop',
    ]
    assert "mv /var/tmp/onward-1 /var/tmp/onward-1-17 && rm -f /root/.onward/postgres.json" in commands
    assert any(command.startswith("/root/bin/psql ") for command in commands)
