"""Which graphs are meant, and which workflow version their runs have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runs.foreign.errors import GraphError
from runs.foreign.specs import spec_of, specs_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text("graph = 1\n")
    package = tmp_path / "src/shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "bot.py").write_text("graph = 2\n")
    (tmp_path / ".env").write_text("# keys\nMODEL=small\nexport KEY='a b'\n")
    settings = {
        "dependencies": [".", "langchain"],
        "graphs": {"agent": "./agent.py:graph", "bot": {"path": "shop.bot:graph", "description": "sells"}},
        "env": ".env",
    }
    (tmp_path / "langgraph.json").write_text(json.dumps(settings))
    return tmp_path


def test_a_file_and_a_name(project: Path) -> None:
    spec = spec_of("agent.py:graph", folder=project)
    assert (spec.text, spec.folder, spec.env) == (f"{project}/agent.py:graph", project, {})
    assert spec_of(spec.text, folder=Path("/")).version == spec.version, "the same from everywhere"
    assert spec.version.startswith("graph:graph@")
    (project / "agent.py").write_text("graph = 3\n")
    assert spec_of("agent.py:graph", folder=project).version != spec.version


@pytest.mark.parametrize("typed", ["agent.py:graph@2.1", "agent.py:graph"])
def test_a_version_of_their_own_is_independent_of_the_text(project: Path, typed: str) -> None:
    spec = spec_of(typed, folder=project, version=None if "@" in typed else "2.1")
    assert (spec.version, spec.text) == ("graph:graph@2.1", f"{project}/agent.py:graph@2.1")
    assert spec_of(spec.text) == spec_of(spec.text)


def test_a_path_with_an_at_sign_is_no_version(tmp_path: Path) -> None:
    folder = tmp_path / "me@home"
    folder.mkdir()
    (folder / "a.py").touch()
    assert spec_of(f"{folder}/a.py:graph").given is None


def test_all_graphs_of_a_langgraph_json_or_one(project: Path) -> None:
    both = specs_of("langgraph.json", folder=project)
    assert [(s.name, s.file.name, s.attribute) for s in both] == [
        ("agent", "agent.py", "graph"),
        ("bot", "bot.py", "graph"),
    ]
    assert {s.folder for s in both} == {project}
    assert both[0].paths == (project, project / "src")
    assert both[0].env == {"MODEL": "small", "KEY": "a b"}
    assert spec_of(f"{project}/langgraph.json:bot") == both[1]
    assert both[1].version.startswith("graph:bot@")
    with pytest.raises(GraphError, match=r"name one: langgraph.json:agent, langgraph.json:bot"):
        spec_of("langgraph.json", folder=project)
    with pytest.raises(GraphError, match="A version is for one graph"):
        specs_of("langgraph.json", folder=project, version="1")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("agent.py", "give it as file.py:name"),
        ("agent.py:", "give it as file.py:name"),
        ("nowhere.py:graph", "there is no file nowhere.py"),
        (".env:graph", "is not a Python file"),
        ("nowhere.json", "there is no file nowhere.json"),
        ("langgraph.json:cook", "has no graph cook; it has: agent, bot"),
    ],
)
def test_what_is_no_graph_is_said_in_a_sentence(project: Path, typed: str, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        specs_of(typed, folder=project)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("[]", "is no JSON object"),
        ("{", "cannot be read"),
        ('{"graphs": []}', "is not an object"),
        ('{"graphs": {}}', "has no graphs"),
        ('{"graphs": {"a": "agent.py"}}', "is not given as"),
        ('{"graphs": {"a": "./no.py:graph"}}', "there is no file ./no.py"),
        ('{"graphs": {"a": "no.where:graph"}}', "there is no module no.where"),
        ('{"graphs": {"a": "./agent.py:graph"}, "env": "no.env"}', "which is not there"),
    ],
)
def test_what_is_wrong_in_a_langgraph_json_is_said(project: Path, settings: str, sentence: str) -> None:
    (project / "langgraph.json").write_text(settings)
    with pytest.raises(GraphError, match=sentence):
        specs_of("langgraph.json", folder=project)


def test_a_version_has_to_be_a_word(project: Path) -> None:
    with pytest.raises(GraphError, match="no version of a graph"):
        spec_of("agent.py:graph", folder=project, version="a b")
