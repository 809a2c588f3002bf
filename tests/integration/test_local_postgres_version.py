"""Data of another major version: refused, kept, and moved by the commands of the refusal."""

import shutil
import subprocess
import sys

import psycopg
import pytest

from runs import postgres_move
from runs.local_postgres import LocalPostgresError, ensure, status, stop
from runs.postgres_binaries import Binaries, locate_binaries, runnable_binaries
from runs.postgres_place import find_place
from tests.support.local_servers import (
    ENSURE,
    REPOSITORY,
)


def test_another_major_version_is_refused_and_nothing_is_changed(local_home):
    stop(local_home)
    place = find_place(local_home)
    made_by = place.data / "PG_VERSION"
    right = made_by.read_text()
    before = sorted(path.relative_to(place.data) for path in place.data.rglob("*"))
    made_by.write_text("12\n")
    try:
        with pytest.raises(LocalPostgresError) as caught:
            ensure(local_home)
        assert sorted(path.relative_to(place.data) for path in place.data.rglob("*")) == before
    finally:
        made_by.write_text(right)
    said = str(caught.value)
    assert f"made by PostgreSQL 12, and the programs in {locate_binaries()} are PostgreSQL {right.strip()}" in said
    assert "OLD=/usr/lib/postgresql/12/bin" in said
    assert '"$OLD/pg_dump"' in said
    assert f"-f {local_home}/postgres-12.sql" in said
    ensure(local_home)


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
    old = runnable_binaries(place.account, place.copies).folder  # this environment may lie in a closed folder
    if old != origin:
        for program in ("pg_ctl", "pg_dump"):  # our own copy holds what a server needs, an installed one has all
            shutil.copy2(origin / program, old)
    assert [command.startswith("onward list ") for command in commands].count(True) == 1
    commands[0] = f"OLD={old}"
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
