"""What two runs have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from experiments.anygraph.stable import counted, plain, shown, varying, varying_items, without


def test_where_two_results_differ() -> None:
    one: Any = {"messages": [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], "n": 1, "only": True}
    other: Any = {"messages": [{"id": 3, "text": "a"}, {"id": 4, "text": "b"}], "n": 1.5}
    paths = varying(one, other)
    assert shown(paths) == ["messages[].id", "n", "only"]
    assert without(one, paths)["messages"] == [{"id": None, "text": "a"}, {"id": None, "text": "b"}]
    assert varying(one, one) == frozenset()


def test_a_list_of_another_length_differs_as_a_whole() -> None:
    assert shown(varying({"a": [1]}, {"a": [1, 2]})) == ["a"]
    assert shown(varying([1], {"a": 1})) == ["everything"]
    assert shown(varying(True, 1)) == ["everything"]


def test_effects_in_any_order_are_the_same() -> None:
    assert varying_items([["a", "b"], ["b", "a"]]) == frozenset()


def test_fields_that_differ_from_run_to_run_are_left_out() -> None:
    lists = [[{"id": "1", "amount": 5}], [{"id": "2", "amount": 5}]]
    paths = varying_items(lists)
    assert shown(paths) == ["id"]
    assert counted(lists[0], paths) == counted(lists[1], paths)
    assert counted([*lists[0], *lists[1]], paths).total() == 2


@pytest.mark.parametrize("lists", [[["a-1"], ["a-2"]], [["a"], ["a", "b"]]])
def test_where_texts_differ_as_a_whole_only_their_number_is_compared(lists: list[list[str]]) -> None:
    paths = varying_items(lists)
    assert () in paths
    assert counted(lists[0], paths) == {"null": 1}


def test_any_state_becomes_json() -> None:
    @dataclass
    class Order:
        number: int

    class Odd:
        def __repr__(self) -> str:
            return "<Odd at 0x7f00aa>"

    assert plain({"a": {3, 1}, 2: (Order(7), b"\x01"), "odd": Odd()}) == {
        "a": [1, 3],
        "2": [{"number": 7}, "01"],
        "odd": "<Odd>",
    }
    assert plain([AIMessage("hello")])[0]["content"] == "hello"
