"""Settings and the data folder."""

from __future__ import annotations

import os
import stat

import pytest
from pydantic import ValidationError

from runs.errors import UsageError
from runs.settings import Settings, prepare_home


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in list(os.environ):
        if name.startswith("ONWARD_") or name in ("DATABASE_URL", "LEDGER_DATABASE_URL"):
            monkeypatch.delenv(name)


def test_nothing_needs_to_be_set(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings()
    assert settings.home == tmp_path / ".onward"
    assert settings.store == "postgres"
    assert settings.database_url is None and settings.ledger_url is None
    assert settings.objects_url == f"file://{tmp_path}/.onward/objects"
    assert settings.principal


def test_the_environment_is_read_and_arguments_win(monkeypatch, tmp_path):
    monkeypatch.setenv("ONWARD_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@h/d")
    monkeypatch.setenv("ONWARD_OBJECTS", "s3://bucket/x")
    monkeypatch.setenv("ONWARD_PRINCIPAL", "alice")
    monkeypatch.setenv("ONWARD_LEDGER_TOKEN", "sesame")
    settings = Settings(home=tmp_path / "b")
    assert (settings.home, settings.objects_url, settings.principal) == (tmp_path / "b", "s3://bucket/x", "alice")
    assert "secret" not in repr(settings) and "sesame" not in repr(settings)
    assert settings.ledger_token.get_secret_value() == "sesame"


def test_empty_values_count_as_unset(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("ONWARD_OBJECTS", "")
    settings = Settings()
    assert settings.database_url is None and settings.objects is None


@pytest.mark.parametrize("given", [{"store": "oracle"}, {"lease_seconds": 0}, {"principal": ""}])
def test_nonsense_is_refused(given):
    with pytest.raises(ValidationError):
        Settings(**given)


def test_the_data_folder_is_private(tmp_path):
    settings = Settings(home=tmp_path / "deep" / "home")
    prepare_home(settings)
    assert stat.S_IMODE(settings.home.stat().st_mode) == 0o700
    settings.home.chmod(0o755)
    prepare_home(settings)
    assert stat.S_IMODE(settings.home.stat().st_mode) == 0o700


def test_a_file_in_its_place_is_named(tmp_path):
    (tmp_path / "home").write_text("x")
    with pytest.raises(UsageError, match="Set ONWARD_HOME"):
        prepare_home(Settings(home=tmp_path / "home"))


@pytest.mark.root
def test_the_folder_of_somebody_else_is_refused(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    with pytest.raises(UsageError, match="belongs to another account"):
        prepare_home(Settings(home=home))
