"""`onward run --graph`: what is wrong with the request is said before anything is started, or made."""

from __future__ import annotations

import pytest

from runs.cli import main
from tests.support.cli_world import ROOT


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("ONWARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ONWARD_STORE", "sqlite")
    monkeypatch.chdir(ROOT / "examples/graphs")
    yield
    assert not (tmp_path / "home").exists(), "something was made"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--graph", "safe.py:nothing", "--input", "{}"], "has no nothing"),
        (["--graph", "safe.py", "--input", "{}"], "give it as file.py:name"),
        (["--graph", "safe.py:graph"], "Give the input of the graph"),
        (["--graph", "safe.py:graph", "--input", "{"], "--input is not JSON"),
        (["--graph", "safe.py:graph", "--input", "NaN"], "NaN is no JSON value"),
        (["--graph", "safe.py:graph", "--input", "@no.json"], "no.json cannot be read"),
        (["--graph", "safe.py:graph", "--input", "{}", "--config", "[]"], "--config has to be a JSON object"),
        (
            ["--graph", "safe.py:graph", "--input", "{}", "--config", '{"configurable": 1}'],
            '"configurable" in --config',
        ),
        (["--graph", "safe.py:graph", "--input", "{}", "--graph-version", "a b"], "no version of a graph"),
        (["--graph", "safe.py:graph", "--input", "{}", "--ask", "x"], "--ask is for the analysis"),
        (["--graph", "safe.py:graph", "x.csv"], "gets its input with --input"),
        (["--input", "{}", "x.csv"], "--input is for a graph of your own"),
        ([], "Give an .xlsx workbook or a .csv file, or a graph"),
    ],
)
def test_a_request_that_makes_no_sense(words, sentence, capsys):
    assert main(["run", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_an_answer_that_is_no_json(capsys):
    assert main(["answer", "0123abcd", "yes"]) == 2
    assert "The answer is not JSON" in capsys.readouterr().err
