"""What a cell shows is escaped, and reads the same as text."""

from __future__ import annotations

import pytest

from runs import notebook
from runs.notebook.table import Table, facts_html, sections_html, sections_text, table_html

HOSTILE = '<script>alert("x")</script>\x1b[31m\u202e'
ESCAPED = "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;\\x1b[31m\\u202e"


@pytest.mark.parametrize(
    "html",
    [
        facts_html([("Title", HOSTILE)]),
        facts_html([(HOSTILE, 1)]),
        table_html(("name",), [(HOSTILE,)]),
        table_html((HOSTILE,), [(1,)]),
        sections_html([("Run", 1)], [(HOSTILE, ("name",), [(HOSTILE,)])]),
        Table([{"data": {"text": HOSTILE}}], ("data",))._repr_html_(),
        notebook.Proposal(title=HOSTILE, note="", resource="r", digest="d", action_id="a")._repr_html_(),
    ],
)
def test_nothing_from_outside_is_obeyed(html):
    assert ESCAPED in html
    assert "<script" not in html
    assert "\x1b" not in html


def test_a_table_is_a_list_and_shows_what_can_be_read():
    rows = [
        {"seq": 1, "at": "2026-01-02T03:04:05.678901+00:00", "digest": "ab" * 32, "data": {"a": 1, "b": None}},
        {"seq": 2, "at": None, "digest": "ab", "data": {}},
    ]
    table = Table(rows, ("seq", "at", "digest", "data"))
    assert list(table) == rows
    first, second = repr(table).splitlines()[1:]
    assert first.split() == ["1", "03:04:05", "UTC", "abababababab…", "a=1"]
    assert second.split() == ["2", "-", "ab"]
    assert [row["seq"] for row in table.last(1)] == [2]
    assert repr(table.last(1)).splitlines()[0].split() == ["seq", "at", "digest", "data"]


def test_an_empty_table_says_so():
    assert (repr(Table([], ("a",))), Table([], ("a",))._repr_html_()) == ("none", "none")


def test_sections_as_text():
    text = sections_text([("Run", 1), ("Note", None)], [("Steps", ("step", "status"), [("plan", "done")])])
    assert text == "Run  1\n\nSteps\nstep  status\nplan  done"
