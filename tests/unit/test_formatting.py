"""One format per column, sane for what the column holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_sample import result
from tools.formatting import column_formats, number, one_line, shorten, text_width


def shown(name, kind, *values):
    form = column_formats(result("q", [(name, kind)], [[value] for value in values]))[name]
    return [form.show(value) for value in values]


@pytest.mark.parametrize(
    ("name", "kind", "values", "expected"),
    [
        ("sum of revenue", "number", [1234567.891, 12.5, None, 3], ["1,234,567.89", "12.50", "–", "3.00"]),
        ("sum of units", "integer", [1234567, -3, 0], ["1,234,567", "-3", "0"]),
        ("whole", "number", [5.0, 1200.0], ["5", "1,200"]),
        ("small", "number", [0.0123, 0.5], ["0.012", "0.500"]),
        ("tiny beside large", "number", [1000.5, 0.001, -1e-9], ["1,000.50", "0.0010", "-1.0e-09"]),
        ("minus zero", "number", [-0.0, 1.5], ["0.00", "1.50"]),
        ("huge", "number", [1.5e18, 2.0], ["1.500e+18", "2"]),
        ("big", "bigint", ["12345678901234567890", "-7"], ["12,345,678,901,234,567,890", "-7"]),
        ("exact", "decimal", ["1234.5678", "3.10"], ["1,234.57", "3.10"]),
        ("share", "number", [0.1234, 0, 1.0, 0.00001], ["12.3%", "0.0%", "100.0%", "0.001%"]),
        ("market share", "number", [12.5, 40.0], ["12.50", "40.00"]),
        ("占比", "number", [0.5], ["50.0%"]),
        ("year", "integer", [2025], ["2025"]),
        ("order_id", "integer", [10001], ["10001"]),
        ("paid", "integer", [10001], ["10,001"]),
        ("count of order_id", "integer", [10001], ["10,001"]),
        ("年份", "integer", [2025], ["2025"]),
        ("row", "integer", [1200], ["1200"]),
        ("date (month)", "text", ["2025-01", "2025-12", None], ["Jan 2025", "Dec 2025", "–"]),
        ("date (quarter)", "text", ["2025-Q3"], ["Q3 2025"]),
        ("date (week) (2)", "text", ["2025-W03"], ["W03 2025"]),
        ("date (year)", "text", ["2025"], ["2025"]),
        ("part number", "text", ["2025-01"], ["2025-01"]),
        ("date", "date", ["2025-03-05"], ["5 Mar 2025"]),
        ("at", "datetime", ["2025-03-05T00:00:00", "2025-03-06T00:00:00"], ["5 Mar 2025", "6 Mar 2025"]),
        ("at", "datetime", ["2025-03-05T00:00:00", "2025-03-05T12:30:05"], ["5 Mar 2025 00:00", "5 Mar 2025 12:30:05"]),
        ("at", "date", ["12025-03-05"], ["12025-03-05"]),
        ("flag", "boolean", [True, False, None], ["yes", "no", "–"]),
        ("text", "text", ["a\n\tb", "x\x00y", "\u202eevil", "\ud800"], ["a b", "x\ufffdy", "\ufffdevil", "\ufffd"]),
        ("numbers as text", "text", ["1234567"], ["1234567"]),
    ],
)
def test_how_a_column_is_shown(name, kind, values, expected):
    assert shown(name, kind, *values) == expected


def test_numbers_stand_right_and_words_left():
    formats = column_formats(result("q", [("a", "integer"), ("b", "text"), ("c", "date")], []))
    assert [form.align for form in formats.values()] == ["right", "left", "left"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 8))
def test_a_number_that_is_not_zero_is_never_shown_as_zero(value, decimals):
    assert (float(number(value, decimals).replace(",", "")) == 0) == (value == 0)


@given(st.text())
def test_one_line_is_one_line_of_printable_text(text):
    line = one_line(text)
    assert line.splitlines() in ([], [line])
    assert line.encode("utf-8").decode("utf-8") == line
    assert one_line(line) == line


@given(st.text(), st.integers(1, 30))
def test_a_shortened_text_fits(text, width):
    assert text_width(shorten(text, width)) <= width


def test_wide_characters_take_two_columns():
    assert text_width("华东 ab") == 7
    assert shorten("华东大区上海", 7) == "华东大…"
