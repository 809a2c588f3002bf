"""What cannot be done is said in one clear sentence, with the right exit code, and leaves nothing half made."""

import json
import os
import subprocess
import sys
import zipfile
from contextlib import closing

import pytest

from runs import registry
from runs.cli import main
from runs.settings import Settings
from runs.store import open_store
from tests.support.cli_world import ROOT

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 512


@pytest.fixture
def here(sqlite_cli, inside):
    """What is refused is refused before anything else happens, so this process can ask for it."""

    def run(*arguments):
        done = inside(sqlite_cli, *arguments)
        return done.code, done.out, done.err

    return run


def encrypted(path):
    path.write_bytes(OLE + "EncryptedPackage".encode("utf-16-le"))


def a_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no workbook")


def a_bomb(path):
    """A workbook whose list of contents says that one part unpacks to 2 GB."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
        archive.writestr("xl/workbook.xml", "x" * 123_457)
    data = path.read_bytes()
    start = data.rindex(b"PK\x01\x02")  # the last entry of the central directory
    says, lies = (number.to_bytes(4, "little") for number in (123_457, 2**31 - 1))
    path.write_bytes(data[:start] + data[start:].replace(says, lies))


def absurdly_large(path):
    with path.open("wb") as file:
        file.truncate(300 * 1024**2)


INPUTS = {
    "missing.csv": (lambda path: None, "There is no file"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "pipe.csv": (lambda path: os.mkfifo(path), "not a regular file"),
    "empty.csv": (lambda path: path.write_bytes(b""), "empty"),
    "large.csv": (absurdly_large, "at most 256 MB"),
    "secret.xlsx": (encrypted, "encrypted"),
    "old.xls": (lambda path: path.write_bytes(OLE), "old format"),
    "zip.xlsx": (a_zip, "without a workbook"),
    "bomb.xlsx": (a_bomb, "absurdly large"),
    "text.xlsx": (lambda path: path.write_text("a,b\n1,2\n"), "whatever its name says"),
    "cut.xlsx": (lambda path: path.write_bytes(b"PK\x03\x04" + b"\0" * 100), "damaged"),
    "paper.pdf": (lambda path: path.write_bytes(b"%PDF-1.7"), "of a kind that cannot be read"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_bad_input_is_refused_before_anything_is_made(name, here, tmp_path, sqlite_cli):
    make, words = INPUTS[name]
    make(tmp_path / name)
    before = sqlite_cli.home.exists() and sorted(sqlite_cli.home.iterdir())
    code, out, err = here("run", tmp_path / name, "-o", "json")
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "Starting…"
    assert len(err.splitlines()) == 2
    assert words in err
    assert (sqlite_cli.home.exists() and sorted(sqlite_cli.home.iterdir())) == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--ask", " "], 2, "--ask is empty"),
        (["--deadline", "soon"], 2, "no deadline"),
        (["--deadline", "2001-01-01"], 2, "has passed"),
        (["--model", "nonsense"], 2, "neither provider:name nor module:object"),
        (["--model", "tests.support.cli_world:ROOT"], 2, "not a LangChain chat model"),
        (["--store", "paper"], 2, "--store"),
    ],
)
def test_a_bad_request_makes_no_run(arguments, code, words, here, sales, sqlite_cli):
    before = here("list", "-o", "json")[1]
    found, out, err = here("run", sales, *arguments, "-o", "json")
    assert (found, out) == (code, "")
    assert words in err
    assert len(json.loads(here("list", "-o", "json")[1])["runs"]) == len(json.loads(before)["runs"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "00000000-0000-4000-8000-000000000000"], 3, "There is no run"),
        (["resume", "00000000"], 3, "There is no run"),
        (["approve", "00000000"], 3, "There is no run"),
        (["ledger", "list", "--run", "00000000"], 3, "There is no run"),
        (["ledger", "show", "00000000-0000-4000-8000-000000000000"], 3, "There is no action"),
        (["ledger", "show", "nonsense"], 2, "not an action id"),
        (["ledger", "list", "--status", "maybe"], 2, "no status of an action"),
        (["list", "--status", "maybe"], 2, "no status"),
        (["show", "../../etc/passwd"], 2, "not a run id"),
        (["show", "\x1b[2J"], 2, "not a run id"),
        (["revise", "00000000", "--reason", " "], 2, "Give the reason"),
        (["approve", "00000000", "--set", "digest=0"], 2, "title, note, resource"),
    ],
)
def test_what_does_not_exist_or_cannot_be_meant(arguments, code, words, here, report_digest):
    found, out, err = here(*arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


def test_an_ambiguous_beginning_names_what_it_fits(here, sqlite_cli, undisturbed):
    ids = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"]
    with closing(open_store(Settings(home=sqlite_cli.home, store="sqlite")).database()) as database:
        made = registry.list_runs(database, limit=1)[0]
        for run_id in ids:
            with database.transaction() as tx:
                copied = {name: getattr(made, name) for name in COPIED}
                tx.run("insert_run", **copied | {"run_id": run_id, "wake_seconds": None})
    code, _, err = here("show", "aaaaaaaa")
    assert code == 2
    assert "aaaaaaaa-0000-4000-8000-000000000001, aaaaaaaa-0000-4000-8000-000000000002" in err
    assert here("show", "aaaaaaaa-0000-4000-8000-000000000001")[0] == 0


COPIED = (
    "kind", "owner", "tenant", "workflow_version", "input_name", "input_key", "input_digest", "input_size", "asks",
    "model", "params", "deadline_at", "budget_micros", "budget_tokens", "allowed_kinds", "parent", "store", "objects",
    "ledger",
)  # fmt: skip


def test_a_database_that_does_not_answer_is_exit_9(monkeypatch, capsys, tmp_path, sales):
    monkeypatch.setenv("ONWARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:9/none?connect_timeout=1")
    monkeypatch.setattr("onward_ledger.database.postgres.CONNECT_TIMEOUT_SECONDS", 1)
    monkeypatch.delenv("ONWARD_STORE", raising=False)
    assert main(["run", str(sales)]) == 9
    err = capsys.readouterr().err
    assert "does not answer" in err
    assert "secret" not in err


def test_a_pipe_whose_reader_left_is_no_error_to_read_about(sqlite_cli, report_digest):
    done = subprocess.run(
        f"{sys.executable} -m runs.cli list -o json | true",
        shell=True,
        cwd=ROOT,
        env=sqlite_cli.environment(),
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def test_data_is_json_and_nothing_else(here, report_digest):
    for arguments in (["list"], ["ledger", "list"], ["doctor"]):
        code, out, _ = here(*arguments, "-o", "json")
        assert code == 0
        assert isinstance(json.loads(out), dict)
    code, out, _ = here("ledger", "list", "-o", "json", "--status", "succeeded")
    action = json.loads(out)["actions"][0]
    assert action["status"] == "SUCCEEDED"
    assert action["receipt"]
    shown = json.loads(here("ledger", "show", action["action_id"], "-o", "json")[1])
    assert shown["events"][0]["word"] == "propose"
    assert shown["params"]["digest"]
    assert here("ledger", "show", action["action_id"])[0] == 0


def test_a_held_ledger_is_told_by_doctor_and_released_by_a_person(sqlite_cli, inside):
    from runs import local_ledger

    settings = Settings(home=sqlite_cli.home, store="sqlite")
    with local_ledger.connect(settings, principal="alice") as ledger:
        ledger.hold(reason="a backup was restored")
    told = inside(sqlite_cli, "doctor")
    assert (told.code, "is held and sends nothing" in told.out + told.err) == (1, True)
    released = inside(sqlite_cli, "ledger", "release", "--reason", "nothing was lost", "--look-first-days", "0")
    assert (released.code, "Released." in released.err) == (0, True)
    again = inside(sqlite_cli, "ledger", "release", "--reason", "nothing was lost")
    assert (again.code, "not held" in again.err) == (0, True)
    assert "is held" not in inside(sqlite_cli, "doctor").out
