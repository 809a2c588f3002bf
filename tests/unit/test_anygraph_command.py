"""The command line of somebody's own graph: what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.anygraph import command
from experiments.anygraph.errors import GraphError
from experiments.anygraph.request import for_thread, mentions_thread, parse_json, without_thread
from verify import _parser

EFFECTS = ["--effects", "file:x"]


@pytest.fixture
def agent(tmp_path: Path) -> str:
    file = tmp_path / "agent.py"
    file.touch()
    (tmp_path / "agent.txt").touch()
    return f"{file}:graph"


def refused(*words: str) -> str:
    said: list[str] = []
    assert command.run(_parser().parse_args(words), said.append) == 2
    (sentence,) = said
    return sentence


def test_a_graph_has_to_be_named() -> None:
    example = "give it as file.py:name, for example agent.py:graph."
    assert refused("--graph", "agent.py", *EFFECTS) == f"--graph agent.py: {example}"
    assert refused("--graph", "agent.py:a-b", *EFFECTS) == f"--graph agent.py:a-b: {example}"
    assert refused("--graph", "gone.py:graph", *EFFECTS) == "--graph gone.py:graph: there is no file gone.py."


def test_what_is_no_python_file(agent: str) -> None:
    text = agent.replace(".py", ".txt")
    assert refused("--graph", text, *EFFECTS) == f"--graph {text}: {text[:-6]} is not a Python file."


def test_json_that_is_none(agent: str, tmp_path: Path) -> None:
    graph = ["--graph", agent, *EFFECTS]
    assert refused(*graph, "--input", "{a}") == (
        "--input is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)."
    )
    assert refused(*graph, "--resume", "yes") == "--resume is not JSON: Expecting value: line 1 column 1 (char 0)."
    assert refused(*graph, "--config", "[]") == '--config has to be a JSON object, such as {"key": "value"}.'
    gone = tmp_path / "gone.json"
    assert refused(*graph, "--input", f"@{gone}").startswith(f"--input: {gone} cannot be read: ")


def test_effects_are_needed(agent: str) -> None:
    assert refused("--graph", agent).startswith("Say what is to be counted with --effects: ")


def test_options_of_onwards_own_run(agent: str) -> None:
    for option in (["--pairs"], ["--random", "3"], ["--minutes", "1"], ["--plant", "no-replay"]):
        said = refused("--graph", agent, *EFFECTS, *option)
        assert said == f"{option[0]} is for Onward's own run, and does not go with --graph."


def test_lanes(agent: str) -> None:
    assert refused("--graph", agent, *EFFECTS, "--lanes", "0") == "--lanes has to be at least 1."


def test_all_that_can_be_asked_for(agent: str, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"n": 1}')
    words = ["--graph", agent, "--input", f"@{tmp_path}/in.json", "--resume", "true", "--resume", '"b"']
    more = ["--config", '{"recursion_limit": 9}', "--context", "3", "--durability", "exit", "--ainvoke"]
    target = command.target_of(_parser().parse_args([*words, *more]))
    assert (target.graph, target.input, target.answers) == (agent, {"n": 1}, (True, "b"))
    assert (target.config, target.context) == ({"recursion_limit": 9}, 3)
    assert (target.durability, target.asynchronous) == ("exit", True)
    assert command.target_of(_parser().parse_args(["--graph", agent])).asynchronous is None


def test_the_thread_id_in_json_and_back() -> None:
    value = {"order": "o-{thread_id}", "list": ["{thread_id}", 1, None]}
    given = for_thread(value, "77")
    assert given == {"order": "o-77", "list": ["77", 1, None]}
    assert without_thread(given, "77") == value
    assert mentions_thread(value)
    assert not mentions_thread({"a": [1]})


def test_json_from_the_command_line() -> None:
    assert parse_json("--input", "[1]") == [1]
    with pytest.raises(GraphError):
        parse_json("--input", "")
