"""The second read is a second opinion: it notices what a first read lost or changed."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.support.workbook_files import xlsx
from tools import text_types, workbook_csv, workbook_xlsx
from tools.errors import ReadsDiffer
from tools.profile import profile
from tools.sheet import silent
from tools.workbook import read_again, read_workbook
from tools.workbook_xlsx import read_xlsx

ROWS = [["n", "d", "b", "t"], *[[n, n / 8, n % 2 == 0, f"t{n}"] for n in range(1200)]]


@pytest.fixture
def trusting(monkeypatch):
    """A first read that believes its library: what typing loses is not looked for."""
    monkeypatch.setattr(workbook_xlsx._SheetReader, "_is_spoiled", lambda *_: False)


@pytest.mark.parametrize(
    ("late", "column"), [(["lost", 1, True, "x"], "n"), ([1, "n/a", True, "x"], "d"), ([1, 0.5, "maybe", "x"], "b")]
)
def test_a_value_lost_beyond_the_first_thousand_rows_is_noticed(trusting, late, column):
    content = xlsx([*ROWS, late])
    lossy = read_xlsx(content, "book.xlsx", silent, 1000)
    assert lossy.sheets[0].table[column].null_count() == 1
    with pytest.raises(ReadsDiffer, match=f'"{column}" was read as'):
        read_again(content, "book.xlsx", profile(lossy))


def test_the_same_file_read_with_care_agrees():
    content = xlsx([*ROWS, ["lost", "n/a", "maybe", "x"]])
    careful = read_workbook(content, "book.xlsx")
    again = read_again(content, "book.xlsx", profile(careful))
    assert_frame_equal(careful.sheets[0].table, again["Data"], check_exact=True)


def test_a_changed_number_is_a_difference(monkeypatch):
    """Here the first read of a .csv drops the separator of thousands together with what follows."""
    text = b"a;b\n1.234,5;x\n7,5;y\n"
    good = read_workbook(text, "data.csv")
    monkeypatch.setattr(text_types, "parse_numbers", lambda values, style: values.str.head(1).cast(pl.Float64))
    bad = read_workbook(text, "data.csv")
    again = read_again(text, "data.csv", profile(bad))["data"]
    assert_frame_equal(good.sheets[0].table, again)
    assert bad.sheets[0].table["a"].to_list() == [1.0, 7.0]
    assert again["a"].to_list() == [1234.5, 7.5]


def test_a_dropped_record_is_a_difference(monkeypatch):
    records = workbook_csv._records
    monkeypatch.setattr(workbook_csv, "_records", lambda *args: (r for r in records(*args) if r != ["2", "y"]))
    text = b"a,b\n1,x\n2,y\n3,z\n"
    bad = read_workbook(text, "data.csv")
    assert bad.sheets[0].table.height == 2
    assert read_again(text, "data.csv", profile(bad))["data"].height == 3


def test_it_takes_sheets_and_columns_from_the_profile_alone():
    content = xlsx({"A": [["x", "y"], [1, "p"], [2, "q"]], "B": [[None, None, "z"], [None, None, 1.5]]})
    described = profile(read_workbook(content, "book.xlsx"))
    del described["sheets"][0]["columns"][0]
    again = read_again(content, "book.xlsx", described)
    assert {name: table.rows() for name, table in again.items()} == {"A": [("p",), ("q",)], "B": [(1.5,)]}
