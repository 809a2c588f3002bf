"""The doctor names what is missing and what to do, and leaves everything as it was."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from runs import doctor
from runs.cli import main
from runs.settings import Settings


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in (
        "DATABASE_URL",
        "LEDGER_DATABASE_URL",
        "ONWARD_LEDGER_URL",
        "ONWARD_OBJECTS",
        "ONWARD_STORE",
        "PG_BIN",
    ):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    monkeypatch.setenv("ONWARD_HOME", str(folder))
    return folder


def by_name(settings):
    return {check.name: check for check in doctor.examine(settings)}


def test_a_machine_that_never_ran_anything_is_well_and_stays_untouched(home, capsys):
    assert main(["doctor", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert {"python", "packages", "data folder", "disk", "memory", "postgres programs", "object store", "ledger"} <= {
        check["name"] for check in found["checks"]
    }
    assert set(found["checks"][0]) == {"name", "verdict", "text", "advice"}
    assert not home.exists()


def test_a_data_folder_that_is_a_file_fails_with_advice(home, capsys):
    home.write_text("not a folder")
    assert main(["doctor", "--store", "sqlite", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    failed = [check for check in found["checks"] if check["verdict"] == "fail"]
    assert found["ok"] is False
    assert failed[0]["name"] == "data folder"
    assert "ONWARD_HOME" in failed[0]["advice"]


def test_a_data_folder_that_others_can_enter_is_a_warning(home):
    home.mkdir()
    home.chmod(0o755)
    assert by_name(Settings(store="sqlite"))["data folder"].verdict == "warn"
    assert home.stat().st_mode & 0o777 == 0o755


def test_a_wrong_pg_bin_is_named(home, monkeypatch, tmp_path):
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    failed = [check for check in doctor.examine(Settings()) if check.verdict == "fail"]
    assert [check.name for check in failed] == ["postgres"]
    assert "PG_BIN" in failed[0].text


def test_a_ledger_url_that_nobody_answers_fails(home, monkeypatch):
    monkeypatch.setenv("ONWARD_LEDGER_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ONWARD_LEDGER_TOKEN", "secret")
    found = by_name(Settings(store="sqlite"))["ledger"]
    assert found.verdict == "fail"
    assert "secret" not in found.text


def test_a_clock_that_is_off_fails_and_one_that_is_not_does_not():
    assert doctor._clock(datetime.now(UTC) + timedelta(seconds=5)).verdict == "fail"
    assert doctor._clock(datetime.now(UTC)).verdict == "ok"


def test_a_missing_fence_fails_by_name():
    assert doctor._fence(["checkpoint_blobs"]).verdict == "fail"
    assert "checkpoint_blobs" in doctor._fence(["checkpoint_blobs"]).text
    assert doctor._fence([]).verdict == "ok"


def test_the_table_says_what_to_do(home, capsys):
    home.write_text("not a folder")
    assert main(["doctor", "--store", "sqlite"]) == 1
    shown = capsys.readouterr().out
    assert "fail" in shown
    assert "Set ONWARD_HOME to a folder of your own." in shown
