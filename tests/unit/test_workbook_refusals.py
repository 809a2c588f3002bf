"""Input that cannot be used gets one clear sentence, and no reader touches what could hurt."""

from __future__ import annotations

import io
import os
import struct
import zipfile

import pytest

from tests.support.workbook_files import rewritten, xlsx
from tools import input_check
from tools.errors import InputError
from tools.workbook import read_workbook

BOOK = xlsx([["a", "b"], [1, "x"]])


def refusal(data, name="book.xlsx"):
    with pytest.raises(InputError) as caught:
        read_workbook(data, name)
    message = caught.value.message
    assert caught.value.definite
    assert "\n" not in message and message.endswith((".", ")")) and len(message) < 400
    return message


def archive(parts: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in parts.items():
            target.writestr(name, data)
    return written.getvalue()


def test_no_such_file(tmp_path):
    assert "There is no file" in refusal(tmp_path / "gone.xlsx")
    assert "There is no file" in refusal(tmp_path / "gone.xlsx" / "deeper.xlsx")


def test_a_folder_and_a_pipe(tmp_path):
    assert "is a folder" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe.xlsx")
    assert "not a regular file" in refusal(tmp_path / "pipe.xlsx")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "book.xlsx"
    path.write_bytes(BOOK)

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", refuse)
    assert "may not be read by this user" in refusal(path)


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"", "book.xlsx", "empty (0 bytes)"),
        (b"", "data.csv", "empty (0 bytes)"),
        (b"%PDF-1.7 ...", "book.xlsx", "is not a workbook"),
        (b"a,b\n1,2\n", "book.xlsx", "is not a workbook"),
        (b"a,b\n1,2\n", "notes.docx", "of a kind that cannot be read"),
        (b"a,b\n1,2\n", "noext", "of a kind that cannot be read"),
        (BOOK[:200], "book.xlsx", "damaged or incomplete"),
        (b"PK\x03\x04" + b"x" * 50, "book.xlsx", "damaged or incomplete"),
        (archive({"hello.txt": b"x"}), "book.xlsx", "archive without a workbook"),
        (archive({"word/document.xml": b"x"}), "book.xlsx", "a Word document"),
        (archive({"xl/workbook.bin": b"x"}), "book.xlsb", "binary workbook"),
        (archive({"mimetype": b"x"}), "book.ods", "OpenDocument"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "book.xls", "old format"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
            "book.xlsx",
            "encrypted with a password",
        ),
        (bytes(range(32)) * 9, "data.csv", "not text"),
        (b"\x81\x8d\x8f\x90\x9d\xff" * 9, "data.csv", "cannot be made out"),
        (b"\n\n,,\n", "data.csv", "all of its cells are empty"),
        (b'a,b\n1,"open\n2,3\n', "data.csv", "damaged at line 3"),
        (b'a,b\n"x"y,2\n', "data.csv", "damaged at line 2"),
    ],
)
def test_files_that_are_no_tables(data, name, words):
    assert words in refusal(data, name)


def test_only_empty_sheets():
    assert "No sheet" in refusal(xlsx({"A": [], "B": [[None, " "]]}))


@pytest.mark.parametrize(
    "changed",
    [
        {"sheet1": lambda xml: xml.replace("<v>1</v>", "<v>1</w>")},
        {"sheet1": lambda xml: xml[: len(xml) // 2]},
        {"workbook": lambda xml: ""},
        {"workbook": lambda xml: xml.replace('r:id="rId1"', 'r:id="rId9"')},
        {"sheet1": lambda xml: xml[: xml.index("</sheetData>")]},
    ],
)
def test_damaged_parts(changed):
    assert "workbook" in refusal(rewritten(BOOK, **changed))


def test_a_flipped_bit_is_noticed_before_the_reader_sees_it():
    place = BOOK.index(b"xl/worksheets/sheet1.xml") + 60
    damaged = BOOK[:place] + bytes([BOOK[place] ^ 0x55]) + BOOK[place + 1 :]
    assert "damaged" in refusal(damaged)


def test_a_bomb_is_refused_by_the_directory_of_the_archive(monkeypatch):
    monkeypatch.setattr(input_check, "MAX_UNPACKED_BYTES", 1_000_000)
    bomb = rewritten(BOOK, app=lambda xml: xml + " " * 2_000_000)
    assert "absurdly large" in refusal(bomb)


def test_a_bomb_that_lies_about_its_size_is_refused_too():
    """The directory says 100 bytes; a reader that trusts the stream would unpack a million."""
    bomb = rewritten(BOOK, sheet1=lambda xml: xml.replace("</sheetData>", " " * 1_000_000 + "</sheetData>"))
    place = bomb.rindex(b"xl/worksheets/sheet1.xml") - 46  # its entry in the central directory
    assert bomb[place : place + 4] == b"PK\x01\x02"
    lying = bomb[: place + 24] + struct.pack("<I", 100) + bomb[place + 28 :]
    assert "cannot be unpacked" in refusal(lying)


def test_too_many_parts_and_encrypted_parts(monkeypatch):
    place = BOOK.index(b"PK\x01\x02")
    flagged = BOOK[: place + 8] + struct.pack("<H", 1) + BOOK[place + 10 :]
    assert "encrypted archive" in refusal(flagged)
    monkeypatch.setattr(input_check, "MAX_PARTS", 3)
    assert "absurdly large" in refusal(BOOK)


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="XFD1048576"><v>1</v></c>',
        "<c r='XFD1048576'><v>1</v></c>",
        '<c s="0" r = "XFD1048576" ><v>1</v></c>',
        '<y:c xmlns:y="http://schemas.openxmlformats.org/spreadsheetml/2006/main" r="XFD1048576"><v>1</v></y:c>',
        '<c\n\tr="XFD1048576"\n><v>1</v></c>',
        '<c x="&gt;>" r="XFD1048576"><v>1</v></c>',
    ],
)
def test_a_stray_cell_in_the_far_corner_is_refused_in_whatever_form(cell):
    """The library would ask for 500 GB and take the process with it."""
    hostile = rewritten(BOOK, sheet1=lambda xml: xml.replace("</row></sheetData>", f"{cell}</row></sheetData>"))
    assert hostile != BOOK
    assert "and at most" in refusal(hostile)


def test_a_row_without_references_far_down_is_refused():
    row = '<row r="9999999"><c><v>1</v></c></row></sheetData>'
    assert "9,999,999 rows" in refusal(rewritten(BOOK, sheet1=lambda xml: xml.replace("</sheetData>", row)))


def test_too_many_rows_columns_cells_and_bytes(monkeypatch, tmp_path):
    wide = xlsx([[f"c{n}" for n in range(30)], list(range(30))])
    with monkeypatch.context() as limits:
        limits.setattr(input_check, "MAX_COLUMNS", 20)
        assert "30 columns, and at most 20" in refusal(wide)
        assert "21 columns, and at most 20" in refusal(b"," * 20 + b"x\n", "data.csv")
    with monkeypatch.context() as limits:
        limits.setattr(input_check, "MAX_CELLS", 50)
        assert "60 cells" in refusal(wide)
        assert "60 cells" in refusal(xlsx({"A": [[1] * 10] * 3, "B": [[1] * 10] * 3}))
        assert "cells" in refusal(b"1,2\n" * 26, "data.csv")
    with monkeypatch.context() as limits:
        limits.setattr(input_check, "MAX_ROWS", 5)
        assert "rows, and at most 5" in refusal(xlsx([[n] for n in range(6)]))
        assert "rows, and at most 5" in refusal(b"1\n" * 6, "data.csv")
    with monkeypatch.context() as limits:
        limits.setattr(input_check, "MAX_FILE_BYTES", 1024**2)
        (tmp_path / "large.csv").write_bytes(b"x" * (1024**2 + 1))
        assert "at most 1 MB" in refusal(tmp_path / "large.csv")
        assert "at most 1 MB" in refusal(b"x" * (1024**2 + 1), "data.csv")


def test_a_workbook_named_as_text_is_read_by_its_content():
    assert read_workbook(BOOK, "export.csv").kind == "xlsx"


def test_the_same_checks_pass_a_good_file():
    assert read_workbook(BOOK, "book.xlsx").sheets[0].table.rows() == [(1, "x")]


def test_a_width_is_told_as_a_lower_bound():
    """The rest of the table is not looked through once a limit is passed."""
    assert "spans at least 20,000 columns, and at most 1,000" in refusal(b"," * 19_999 + b"x\n", "data.csv")
