"""Nothing that comes from outside drives a terminal, and JSON stays JSON."""

import json
import sys
from io import StringIO

import pytest

from runs.commands import output

HOSTILE = "a\x1b[31m\x07b\u202ec\x9b2J\udcff[bold red]d[/]"


def test_a_hostile_name_is_seen_and_not_obeyed():
    assert output.visible(HOSTILE) == "a\\x1b[31m\\x07b\\u202ec\\x9b2J\\udcff[bold red]d[/]"


def test_ordinary_text_of_any_script_is_left_alone():
    assert output.visible("Umsätze 销售额 (café) 🙂") == "Umsätze 销售额 (café) 🙂"


def test_a_newline_in_one_line_is_shown_as_an_escape():
    assert output.visible("one\ntwo") == "one\\x0atwo"
    assert output.visible_lines("one\ntwo\x1b") == "one\ntwo\\x1b"


def test_json_keeps_its_value_and_holds_no_dangerous_character():
    value = {"name": HOSTILE, "销售": ["tab\there", 1, None]}
    text = output.to_json(value)
    assert json.loads(text) == value
    assert output.visible_lines(text) == text
    assert "销售" in text


def test_tables_show_markup_as_it_is_and_do_not_cut_what_is_piped(monkeypatch):
    stream = StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    output.write_table(("name", "text"), [(HOSTILE, "x" * 300), (None, 7)])
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert "[bold red]d[/]" in lines[1]
    assert "x" * 300 in lines[1]
    assert "\x1b" not in stream.getvalue()
    assert lines[2].split() == ["-", "7"]


def test_facts_without_a_value_are_left_out(monkeypatch):
    stream = StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    output.write_facts([("Run", "1"), ("Report", None), ("Epoch", 0)])
    assert [line.split() for line in stream.getvalue().splitlines()] == [["Run", "1"], ["Epoch", "0"]]


def test_a_reader_of_messages_that_went_away_stops_nothing(monkeypatch):
    class Gone(StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    output.say("nobody reads this")


def test_a_reader_of_data_that_went_away_is_told_to_the_caller(monkeypatch):
    class Gone(StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        output.write("data")
