"""Reading .xlsx: types over whole columns, nothing dropped, and everything unusual named."""

from __future__ import annotations

import io
import random
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from tests.support.workbook_files import filled_cells, rewritten, xlsx
from tools.profile import profile
from tools.sheet import silent
from tools.workbook import Sheet, Workbook, read_again, read_workbook
from tools.workbook_xlsx import XlsxReader, read_xlsx
from tools.xlsx_scan import scan

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def read(content: bytes) -> Workbook:
    """Both reads, which have to agree cell by cell."""
    workbook = read_workbook(content, "book.xlsx")
    again = read_again(content, "book.xlsx", profile(workbook))
    assert list(again) == [sheet.name for sheet in workbook.sheets]
    for sheet in workbook.sheets:
        assert_frame_equal(sheet.table, again[sheet.name], check_exact=True)
    return workbook


def read_one(rows: list[list[object]]) -> Sheet:
    return read(xlsx(rows)).sheets[0]


def types(sheet: Sheet) -> list[str]:
    return [column.type for column in sheet.columns]


def kinds(sheet: Sheet) -> list[str]:
    return [note.kind for note in sheet.notes]


def column(*cells: object) -> Sheet:
    return read_one([["x"], *[[cell] for cell in cells]])


def test_every_kind_of_cell_becomes_its_type():
    sheet = read_one(
        [
            ["id", "share", "day", "moment", "paid", "name"],
            [1, 0.1, date(2025, 1, 31), datetime(2025, 1, 1, 12, 30, 15), True, "a"],
            [2, -1.5, date(1900, 3, 1), datetime(2025, 1, 2), False, "  b "],
        ]
    )
    assert types(sheet) == ["integer", "number", "date", "datetime", "boolean", "text"]
    assert sheet.table.rows() == [
        (1, 0.1, date(2025, 1, 31), datetime(2025, 1, 1, 12, 30, 15), True, "a"),
        (2, -1.5, date(1900, 3, 1), datetime(2025, 1, 2), False, "  b "),
    ]
    assert sheet.notes == ()


def test_types_come_from_the_whole_column_not_from_its_first_thousand_rows():
    sheet = column(*range(1500), "late text", *range(500))
    assert types(sheet) == ["mixed"]
    assert sheet.table["x"].null_count() == 0
    assert sheet.table["x"][1500] == "late text"


@pytest.mark.parametrize("sample_rows", [1000, None])
def test_a_sample_of_rows_or_a_word_for_nothing_loses_no_value(sample_rows):
    """The library alone loses the late text with a sample, and "n/a" even without one."""
    content = xlsx([["x", "y"], *[[n, n] for n in range(1200)], ["lost", "n/a"]])
    alone = XlsxReader(content).load(0, 1, schema_sample_rows=sample_rows).frame
    assert alone.null_count().row(0) == ((1, 1) if sample_rows else (0, 1))
    sheet = read_xlsx(content, "book.xlsx", silent, sample_rows).sheets[0]
    assert types(sheet) == ["mixed", "mixed"]
    assert sheet.table.row(-1) == ("lost", "n/a")


@pytest.mark.parametrize("word", ["n/a", "NA", "#N/A N/A", "NULL", "null", "None", "nan", "NaN", "-", "1.#IND", "<NA>"])
def test_words_for_nothing_among_numbers_stay_and_are_named(word):
    sheet = column(1, 2.5, word)
    assert types(sheet) == ["mixed"]
    assert sheet.table["x"].to_list() == ["1", "2.5", word]
    assert kinds(sheet) == ["mixed column"]
    assert word in sheet.notes[0].text


def test_true_among_numbers_does_not_become_one():
    sheet = column(5, True, 7)
    assert types(sheet) == ["mixed"]
    assert sheet.table["x"].to_list() == ["5", "true", "7"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((date(2025, 1, 1), "soon"), "mixed"),
        ((date(2025, 1, 1), 5), "mixed"),
        ((True, "x"), "text"),
        ((timedelta(hours=30), 5), "mixed"),
        (("A1", 5), "mixed"),
        (("00123", "00456"), "text"),
        ((None, None, " "), "empty"),
    ],
)
def test_mixtures(cells, expected):
    sheet = column(*cells, "" if expected == "empty" else cells[0])
    assert types(sheet) == [expected]


def test_all_cells_of_the_file_are_in_the_tables_headers_and_titles():
    chance = random.Random(7)
    kinds_of_cell = [1, 2.5, "n/a", "text", None, "", " ", True, date(2025, 1, 1), "00123", "2025-01-01", "1,234", -0.0]
    for _ in range(40):
        width = chance.randint(1, 6)
        pools = [chance.sample(kinds_of_cell, chance.randint(1, 4)) for _ in range(width)]
        rows = [[chance.choice(pool) for pool in pools] for _ in range(chance.randint(1, 12))]
        content = xlsx([[f"h{n}" for n in range(width)], *rows])
        sheet = read(content).sheets[0]
        values = sum(len(cells) - cells.null_count() for cells in sheet.table)
        assert values + width == filled_cells(content), rows


def test_the_messy_example_accounts_for_every_cell():
    content = (EXAMPLES / "messy.xlsx").read_bytes()
    workbook = read(content)
    values = sum(len(cells) - cells.null_count() for sheet in workbook.sheets for cells in sheet.table)
    headers = 10 + 4
    titles = sum(note.count or 0 for sheet in workbook.sheets for note in sheet.notes if note.kind == "title rows")
    assert (values, titles) == (84, 2)
    assert values + headers + titles == filled_cells(content)
    assert set(kinds(workbook.sheets[0])) == {
        "title rows",
        "duplicate header",
        "mixed column",
        "error cells",
        "formula without value",
        "total row",
    }
    counts = {note.kind: note.count for note in workbook.sheets[0].notes}
    assert (counts["error cells"], counts["formula without value"]) == (1, 7)
    assert workbook.sheets[0].table["金额"].to_list()[:2] == [14997.0, 12997.5]  # formulas with stored values


def test_numbers_keep_every_digit_alone_and_among_numbers_stored_as_text():
    cells = [1 / 3, 1.5e-10, 123456789.125]
    assert column(*cells, 1e300).table["x"].to_list() == [*cells, 1e300]
    sheet = column(*cells, "5", "0.25")
    assert (types(sheet), kinds(sheet)) == (["number"], ["stored as text"])
    assert sheet.table["x"].to_list() == [*cells, 5.0, 0.25]


def test_a_number_among_numbers_in_a_foreign_style_stays_what_it_is():
    sheet = column("1.234,5", "2.000,0", 1.234)
    assert types(sheet) == ["mixed"]
    assert sheet.table["x"].to_list() == ["1.234,5", "2.000,0", "1.234"]


def test_text_stored_numbers_and_dates_are_read_and_named():
    sheet = read_one([["n", "d"], ["5", "2025-01-31"], ["7", "2025-02-28"]])
    assert types(sheet) == ["integer", "date"]
    assert kinds(sheet) == ["stored as text", "stored as text"]


def test_times_of_day_are_text_and_lengths_of_time_are_hours():
    sheet = read_one([["at", "took"], [time(9, 5), timedelta(hours=30)], [time(23, 59, 1), timedelta(minutes=90)]])
    assert types(sheet) == ["text", "number"]
    assert sheet.table.rows() == [("09:05:00", 30.0), ("23:59:01", 1.5)]
    assert kinds(sheet) == ["hours"]


def test_not_a_number_and_infinity_in_the_xml_are_no_numbers():
    content = xlsx([["x"], [1], [2]], sheet1=lambda xml: xml.replace("<v>2</v>", "<v>NaN</v>"))
    assert types(read(content).sheets[0]) == ["mixed"]


def test_errors_and_formulas_without_value_are_named_and_those_with_value_are_read():
    def store(xml: str) -> str:
        return xml.replace("<f>A2*2</f><v />", "<f>A2*2</f><v>10</v>").replace(
            '<c r="D2"><f>""</f><v />', '<c r="D2" t="str"><f>""</f><v></v>'
        )

    content = xlsx(
        [["a", "stored", "lost", "blank", "wrong"], [5, "=A2*2", "=A2*3", '=""', "#DIV/0!"], [6, 12, 1, "x", "#N/A"]],
        sheet1=store,
    )
    sheet = read(content).sheets[0]
    assert sheet.table.rows() == [(5, 10, None, None, None), (6, 12, 1, "x", None)]
    named = {note.kind: (note.column, note.count) for note in sheet.notes}
    assert named == {"formula without value": ("lost", 1), "error cells": ("wrong", 2)}
    assert "C2" in sheet.notes[1].text and "#DIV/0!" in sheet.notes[0].text


def test_headers_missing_duplicate_and_equal_but_for_case():
    sheet = read_one([["x", None, "X", "x", "Column 2", "kept"], [1, 2, 3, 4, 5, None]])
    assert sheet.table.columns == ["x", "Column 2", "X (2)", "x (3)", "Column 2 (2)", "kept"]
    assert types(sheet)[-1] == "empty"
    assert kinds(sheet) == ["missing header", "duplicate header", "duplicate header", "duplicate header"]


def test_titles_empty_rows_and_a_table_that_begins_elsewhere():
    rows = [
        [],
        [],
        [None, "Report 2025"],
        [],
        [None, "day", "amount"],
        [None, date(2025, 1, 1), 5],
        [],
        [None, None, 6],
    ]
    sheet = read_one(rows)
    assert sheet.table.columns == ["day", "amount"]
    assert sheet.table.rows() == [(date(2025, 1, 1), 5), (None, 6)]
    assert [c.position for c in sheet.columns] == [1, 2]
    assert kinds(sheet) == ["title rows"]


def test_a_table_far_down_is_found():
    sheet = read_one([*[[] for _ in range(400)], ["a", "b"], [1, "x"], [2, "y"]])
    assert sheet.table.rows() == [(1, "x"), (2, "y")]
    assert sheet.source.first_row == 401


def test_data_without_a_header_loses_no_row():
    sheet = read_one([["Ada", 5], ["Bob", 6]])
    assert sheet.table.columns == ["Column 1", "Column 2"]
    assert sheet.table.height == 2


def test_years_as_headers_are_headers():
    assert read_one([["region", 2024, 2025], ["North", 5, 6]]).table.columns == ["region", "2024", "2025"]


def test_a_total_row_is_named_and_kept():
    sheet = read_one([["who", "n"], ["a", 1], ["b", 2], ["Total", 3]])
    assert sheet.table["n"].sum() == 6
    assert kinds(sheet) == ["total row"]


def test_several_sheets_empty_ones_charts_and_hidden_ones():
    content = xlsx(
        {"One": [["a"], [1]], "Blank": [], "Two": [["b"], [2]]},
        workbook=lambda xml: xml.replace(
            'name="Two" sheetId="3" state="visible"', 'name="Two" sheetId="3" state="hidden"'
        ),
    )
    workbook = read(content)
    assert [sheet.name for sheet in workbook.sheets] == ["One", "Two"]
    assert [note.kind for note in workbook.notes] == ["empty sheet"]
    assert "Blank" in workbook.notes[0].text
    assert kinds(workbook.sheets[1]) == ["hidden sheet"]


def test_merged_cells_in_the_data_are_named():
    merge = '</sheetData><mergeCells count="2"><mergeCell ref="A1:B1"/><mergeCell ref="A2:A3"/></mergeCells>'
    content = xlsx([["a", "b"], ["x", 1], [None, 2]], sheet1=lambda xml: xml.replace("</sheetData>", merge))
    sheet = read(content).sheets[0]
    assert [(note.kind, note.count) for note in sheet.notes] == [("merged cells", 1)]


def test_hostile_names_and_cells_survive_as_data():
    names = [
        '"; DROP TABLE x; --',
        "a\nb",
        "'quoted'",
        "<script>alert(1)</script>",
        "|a|**b**",
        "名称",
        "n" * 500,
        "{0}",
    ]
    cells = ["@SUM(1)", "a\tb", "it's", "</td><script>", "`code`", "𝒳é", "v" * 3000, "%s {x}"]
    content = xlsx({"A&B <i>'x'": [names, cells, cells]})
    workbook = read(rewritten(content))
    assert workbook.sheets[0].name == "A&B <i>'x'"
    assert workbook.sheets[0].table.columns == names
    assert list(workbook.sheets[0].table.row(0)) == cells


def test_zero_bytes_in_names_become_a_visible_sign():
    content = xlsx([["a_x0000_b"], [1]])
    assert read(content).sheets[0].table.columns == ["a\N{SYMBOL FOR NULL}b"]


def test_progress_is_told_from_the_start_to_the_end():
    told: list[tuple[str, int, int]] = []
    read_workbook(xlsx({"One": [["a"], [1]], "Two": [["b"], [2]]}), "b.xlsx", lambda *step: told.append(step))
    assert told[0] == ("opening the file", 0, 1)
    assert told[-1] == ("reading sheets", 2, 2)
    assert {"looking through the workbook, MB", 'reading sheet "Two"'} <= {text for text, _, _ in told}
    assert all(done <= total for _, done, total in told)


def test_a_path_gives_the_same_as_its_bytes(tmp_path):
    path = tmp_path / "book.xlsx"
    path.write_bytes(xlsx([["a"], [1.5]]))
    assert_frame_equal(
        read_workbook(path, path.name).sheets[0].table, read_workbook(path.read_bytes(), path.name).sheets[0].table
    )


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OTHER_FORMS = f"""<?xml version="1.0"?>
<x:worksheet xmlns:x="{MAIN}"><x:sheetData>
<x:row><x:c t="s"><x:v>0</x:v></x:c><x:c t="s"><x:v>1</x:v></x:c><x:c t="inlineStr"><x:is><x:t>b</x:t></x:is></x:c>
</x:row>
<x:row><x:c><x:v>5</x:v></x:c><x:c t='e'><x:v>#REF!</x:v></x:c><x:c><x:f>1+1</x:f></x:c></x:row>
<x:row><x:c t="n"><x:v>6.5</x:v></x:c><x:c><x:v>1</x:v></x:c><x:c><x:f>A2</x:f><x:v>7</x:v></x:c></x:row>
</x:sheetData></x:worksheet>"""
SHARED = f"""<?xml version="1.0"?>
<sst xmlns="{MAIN}" count="2"><si><t>a &amp; b</t></si>
<si><r><t xml:space="preserve">rich </t></r><r><t>text</t></r></si></sst>"""


def test_other_forms_of_xml_are_read_and_looked_through_alike():
    """Shared strings, a prefix, no references on cells and rows, single quotes."""
    written = rewritten(xlsx([["p"], [1]]), sheet1=lambda _xml: OTHER_FORMS)
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    parts["xl/sharedStrings.xml"] = SHARED
    relations = "xl/_rels/workbook.xml.rels"
    link = f'<Relationship Type="{relation}" Target="sharedStrings.xml" Id="rId99"/></Relationships>'
    parts[relations] = parts[relations].replace("</Relationships>", link)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(
        "</Types>", f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    )
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    sheet = read(result.getvalue()).sheets[0]
    assert sheet.table.columns == ["a & b", "rich text", "b"]
    assert sheet.table.rows() == [(5.0, None, None), (6.5, 1, 7)]
    seen = scan(result.getvalue())[0]
    assert (seen.rows, seen.columns) == (3, 3)
    assert {note.kind: note.count for note in sheet.notes} == {"error cells": 1, "formula without value": 1}
