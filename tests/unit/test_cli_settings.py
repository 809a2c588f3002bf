"""A setting or a model that cannot be used ends a command with 2 and a sentence that names it."""

import os
import sys
from types import ModuleType

import pytest

from graph.models import ModelNotFound, load_model
from runs.cli import main
from runs.settings import Settings


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("ONWARD_") or name in ("DATABASE_URL", "LEDGER_DATABASE_URL"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ONWARD_HOME", str(tmp_path / "home"))


def refused(capsys, *arguments):
    assert main(list(arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("onward: ") and shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize("name", ["DATABASE_URL", "LEDGER_DATABASE_URL"])
@pytest.mark.parametrize("value", ["foo:sesame", "postgresql://u:sesame@h/d?colour=red", "mysql://u:sesame@h/d"])
def test_an_address_that_is_none_is_named_and_not_shown(name, value, monkeypatch, capsys):
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("ONWARD_DEBUG", "0")
    told = refused(capsys, "list")
    assert f"onward: {name} is no address of a Postgres database." in told
    assert "sesame" not in told


@pytest.mark.parametrize("value", ["postgresql://u:p@h:5432/d?sslmode=require", "host=h dbname=d", "postgres:///d"])
def test_an_address_of_either_form_is_taken(value, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", value)
    assert Settings().database_url == value


def test_an_address_of_another_program_does_not_matter_to_sqlite(monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", "mysql://u@h/d")
    assert main(["list", "--store", "sqlite"]) == 0
    assert "There are no runs yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "--store", "sqlite"], ["ledger", "list"], ["show", "12345678"]]
)
@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_data_folder_that_is_a_file_is_named(arguments, place, monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("ONWARD_HOME", str(tmp_path / place))
    told = refused(capsys, *arguments)
    assert str(tmp_path / place) in told
    assert "Set ONWARD_HOME" in told


def test_a_data_folder_that_is_not_there_yet_is_no_error(capsys):
    assert main(["list"]) == 0
    assert "There are no runs yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("json:loads", "json:loads was called to make a chat model and raised TypeError: "),
        ("sys:exit", "sys:exit was called to make a chat model and raised SystemExit: "),
        ("json:JSONDecoder", "json:JSONDecoder is a JSONDecoder, not a LangChain chat model."),
    ],
)
def test_an_object_that_makes_no_model_is_named(spec, words, tmp_path, capsys):
    table = tmp_path / "a.csv"
    table.write_text("a,b\n1,2\n")
    assert main(["run", str(table), "--model", spec]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"onward: {words}")


def test_a_module_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_models.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ModelNotFound, match="The module broken_models of the model broken_models:m raised ZeroDivision"
    ):
        load_model("broken_models:m")


def test_a_function_that_makes_a_model_is_called(monkeypatch):
    made = load_model(None)
    module = ModuleType("made_models")
    module.__spec__ = type(sys.__spec__)("made_models", None)
    vars(module)["make"] = lambda: made
    monkeypatch.setitem(sys.modules, "made_models", module)
    assert load_model("made_models:make") is made
