"""Reading .csv: encodings, delimiters, quoting and the styles in which the world writes numbers and dates."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tools.errors import InputError
from tools.profile import profile
from tools.workbook import Sheet, read_again, read_workbook


def read(content: bytes | str, name: str = "data.csv") -> Sheet:
    """Both reads, which have to agree cell by cell."""
    data = content.encode() if isinstance(content, str) else content
    workbook = read_workbook(data, name)
    again = read_again(data, name, profile(workbook))
    sheet = workbook.sheets[0]
    assert_frame_equal(sheet.table, again[sheet.name], check_exact=True)
    return sheet


def types(sheet: Sheet) -> list[str]:
    return [column.type for column in sheet.columns]


def column(*cells: str, delimiter: str = ";") -> Sheet:
    return read(f"x{delimiter}y\n" + "".join(f"{cell}{delimiter}z\n" for cell in cells))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(delimiter, line_end):
    sheet = read(line_end.join(delimiter.join(row) for row in (("a", "b"), ("1", "x"), ("2", "y"))))
    assert sheet.source.delimiter == delimiter
    assert sheet.table.rows() == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "名称,金额\n北京,1\n"),
        ("utf-8-sig", "名称,金额\n北京,1\n"),
        ("utf-16", "名称,金额\n北京,1\n"),
        ("utf-16-le", "name,city\nÅsa,Malmö\n"),
        ("utf-16-be", "a,b\n1,2\n"),
        ("gb18030", "日期,地区,销售额\n2025-01-01,华东,1\n2025-01-02,华北,2\n"),
        ("gbk", "a,b\n北京,1\n"),
        ("shift_jis", "商品,売上\nテレビ,100\nりんご,20\n"),
        ("euc_kr", "이름,금액\n김철수,1\n박영희,2\n서울사람,3\n"),
        ("cp1252", "name;wert\nMüller;‘smart’ €5\n"),
        ("cp1251", "имя,сумма\nИван,1\nПётр,2\n"),
    ],
)
def test_encodings(encoding, text):
    sheet = read(text.encode(encoding))
    lines = [line.replace(";", ",").split(",") for line in text.splitlines()]
    assert sheet.table.columns == lines[0]
    assert [str(cell).removesuffix(" 00:00:00") for cell in sheet.table.row(0)] == lines[1]
    guessed = not encoding.startswith("utf")
    assert [note.kind for note in sheet.notes] == (["encoding"] if guessed else [])


def test_quoted_delimiters_quotes_and_line_ends():
    sheet = read('a,b,c\n"x,1","say ""hi""","two\nlines"\n"","5"" pipe",5" pipe\n')
    assert sheet.table.rows() == [("x,1", 'say "hi"', "two\nlines"), (None, '5" pipe', '5" pipe')]


def test_separator_line_of_excel():
    sheet = read("sep=;\r\na;b\r\n1,5;2\r\n")
    assert sheet.table.rows() == [(1.5, 2)]


def test_identifiers_with_leading_zeros_stay_text():
    sheet = read("zip,phone,long\n01234,+4912345,12345678901234567890\n90210,+4998765,12345678901234567891\n")
    assert types(sheet) == ["text", "text", "text"]
    assert sheet.table.row(1) == ("90210", "+4998765", "12345678901234567891")
    assert sheet.notes == ()


@pytest.mark.parametrize(
    ("cells", "delimiter", "expected"),
    [
        (("1", "-2", "0"), ",", ("integer", [1, -2, 0])),
        (("1.5", "-.5", "2."), ",", ("number", [1.5, -0.5, 2.0])),
        (("-0.0", "1.5"), ",", ("number", [0.0, 1.5])),
        (("1.5e-7", "2E+3"), ",", ("number", [1.5e-7, 2000.0])),
        (("1,5", "2,25"), ";", ("number", [1.5, 2.25])),
        (("1.234,5", "7"), ";", ("number", [1234.5, 7.0])),
        (("1.234.567", "7"), ";", ("integer", [1234567, 7])),
        (("1 234,5", "7\u202f000,25"), ";", ("number", [1234.5, 7000.25])),
        (("1'234.5", "12’000"), ";", ("number", [1234.5, 12000.0])),
        (('"1,234.50"', '"12"'), ",", ("number", [1234.5, 12.0])),
        (('"1,234"', '"56"'), ",", ("integer", [1234, 56])),  # with , between cells it cannot be a decimal comma
        (("1.234", "0.5"), ";", ("number", [1.234, 0.5])),
        (("1.234", "5.678"), "\t", ("number", [1.234, 5.678])),
        (("123456789012345678", "1"), ",", ("integer", [123456789012345678, 1])),
        (("true", "FALSE"), ",", ("boolean", [True, False])),
    ],
)
def test_numbers(cells, delimiter, expected):
    sheet = column(*cells, delimiter=delimiter)
    assert (types(sheet)[0], sheet.table["x"].to_list()) == expected


@pytest.mark.parametrize(("cells", "delimiter"), [(("1,234", "5"), ";"), (("1.234", "5"), ";"), (("1,234",), "\t")])
def test_numbers_that_can_be_read_in_two_ways_stay_text_and_are_named(cells, delimiter):
    sheet = column(*cells, delimiter=delimiter)
    assert types(sheet)[0] == "text"
    assert [note.kind for note in sheet.notes] == ["ambiguous"]


def test_a_certain_column_settles_the_doubtful_ones():
    sheet = read("a;b;c\n1,234;2,5;03/04/2025\n5,678;3,25;25/12/2025\n")
    assert sheet.table.rows() == [(1.234, 2.5, date(2025, 4, 3)), (5.678, 3.25, date(2025, 12, 25))]
    sheet = read("shipped;ordered\n03/04/2025;13/04/2025\n")
    assert sheet.table["shipped"].to_list() == [date(2025, 4, 3)]


def test_columns_that_contradict_each_other_settle_nothing():
    sheet = read("a;b;c\n1,234;2,5;2.5\n")
    assert types(sheet) == ["text", "number", "number"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("2025-01-31", "2025-2-3"), [date(2025, 1, 31), date(2025, 2, 3)]),
        (("2025/01/31",), [date(2025, 1, 31)]),
        (("2025年1月31日",), [date(2025, 1, 31)]),
        (("31.01.2025",), [date(2025, 1, 31)]),
        (("31/01/2025", "01/02/2025"), [date(2025, 1, 31), date(2025, 2, 1)]),
        (("01/31/2025", "02/01/2025"), [date(2025, 1, 31), date(2025, 2, 1)]),
        (("31 Jan 2025", "1-February-2025"), [date(2025, 1, 31), date(2025, 2, 1)]),
        (("Jan 31, 2025",), [date(2025, 1, 31)]),
        (("2025-01-31 00:00:00",), [date(2025, 1, 31)]),
        (("2025-01-31T10:05:07.25Z", "2025-02-01"), [datetime(2025, 1, 31, 10, 5, 7, 250000), datetime(2025, 2, 1)]),
    ],
)
def test_dates(cells, expected):
    sheet = column(*cells)
    assert sheet.table["x"].to_list() == expected
    assert types(sheet)[0] == ("datetime" if isinstance(expected[0], datetime) else "date")


@pytest.mark.parametrize("cells", [("03/04/2025",), ("2025-02-30",), ("2025-01-01", "31/12/2025"), ("0203-01-01",)])
def test_dates_that_are_none_or_doubtful_stay_text(cells):
    assert types(column(*cells))[0] in ("text", "mixed")


@pytest.mark.parametrize(
    ("cells", "others"), [(("n/a", "5", "6"), "n/a"), (("2025-01-01", "unknown"), "unknown"), (("$5", "6"), "$5")]
)
def test_mixed_columns_are_kept_as_text_and_named(cells, others):
    sheet = column(*cells)
    assert types(sheet)[0] == "mixed"
    assert sheet.table["x"].to_list() == list(cells)
    assert [(note.kind, note.column) for note in sheet.notes] == [("mixed column", "x")]
    assert others in sheet.notes[0].text


def test_rows_of_other_lengths_lose_nothing():
    sheet = read("a,b\n1,2,3\n4\n\n5,6,7,8\n")
    assert sheet.table.rows() == [(1, 2, 3, None), (4, None, None, None), (5, 6, 7, 8)]
    assert sheet.table.columns == ["a", "b", "Column 3", "Column 4"]


def test_titles_above_the_table_and_a_total_below():
    sheet = read("Sales report\n\nid,who,amount\n1,a,5.5\n2,b,6\n3,c,7\nTotal,,18.5\n")
    assert sheet.table.columns == ["id", "who", "amount"]
    assert [note.kind for note in sheet.notes] == ["title rows", "mixed column", "total row"]


def test_header_only_gives_a_table_without_rows():
    sheet = read("a,b\n")
    assert sheet.table.shape == (0, 2)
    assert types(sheet) == ["empty", "empty"]


def test_the_sheet_is_named_after_the_file():
    assert read("a\n1\n", "Q1 'report'.csv").name == "Q1 'report'"


def test_late_values_decide_too():
    text = "x,y\n" + "".join(f"{n},a\n" for n in range(5000)) + "oops,a\n"
    sheet = read(text)
    assert types(sheet)[0] == "mixed"
    assert sheet.table["x"].null_count() == 0


NUMBERS = ["1", "1.5", "00123", "1,234", "1.234,5", "1e5", "NaN", "-", "$5", "١٢", "１２", "0.1", "-0", "1 234,5"]
OTHERS = [
    "2025-01-01",
    "03/04/2025",
    "true",
    "n/a",
    "",
    " ",
    "北京",
    '"x,y"',
    '"a""b"',
    '"l1\nl2"',
    "'",
    "=1+1",
    "\u2028",
]
CELLS = st.sampled_from(NUMBERS + OTHERS)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=8),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_in_it_both_reads_agree(rows, delimiter, line_end):
    try:
        read(line_end.join(delimiter.join(row) for row in rows))
    except InputError as error:
        assert "damaged at line" in error.message or "empty" in error.message


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"a,b\n1,\0\n2,3\n", 2), (b"xy\0\n" * 3, 1), (b"a,\0\nb,\0\n", 1), (b"a,b\n" * 500 + b"1,\0\n", 501)],
)
def test_stray_zero_bytes_are_no_utf_16(content, line):
    with pytest.raises(InputError, match=f"a zero byte in line {line}[.]"):
        read_workbook(content, "data.csv")
    assert read(content.replace(b"\0", b"0")).source.encoding == "utf-8"


@pytest.mark.parametrize(
    ("cells", "numbers", "form"),
    [
        (["1.5E+06", "-2.5e-01", "3"], [1_500_000.0, -0.25, 3.0], "1234.5"),
        (["1E+05", "2E-02"], [100_000.0, 0.02], "1234.5"),
        (["1,5E+06", "2,25"], [1_500_000.0, 2.25], "1.234,5"),
    ],
)
def test_scientific_notation_of_excel(cells, numbers, form):
    sheet = column(*cells)
    assert (types(sheet)[0], sheet.columns[0].format, sheet.table["x"].to_list()) == ("number", form, numbers)
    assert sheet.notes == ()


@pytest.mark.parametrize("cells", [["5%", "10%"], ["7,5 %", "-1 %"], ["1e5", "2E7"]])
def test_figures_kept_as_text_are_told(cells):
    sheet = column(*cells)
    assert types(sheet)[0] == "text"
    assert [(note.kind, note.column) for note in sheet.notes] == [("kept as text", "x")]
    assert f'values such as "{cells[0]}"' in sheet.notes[0].text
    assert column("5% off", "north").notes == ()


@pytest.mark.parametrize("cell", ["1.5E+400", "123456789E+305", "1.0E+300"])
def test_numbers_beyond_doubles_stay_text(cell):
    sheet = column(cell, "2.5")
    assert types(sheet)[0] == "mixed"
    assert column("1.5E+299", "2.5").table["x"].to_list() == [1.5e299, 2.5]
