"""What the reader of an .xlsx does not tell: how far sheets reach, error cells, formulas without a stored value.

The sheets' XML is streamed through regular expressions, a megabyte at a time: an XML parser with Python callbacks
takes five times as long for 200,000 rows. Nothing is expanded, so entities do no harm. Three things follow:

* Every byte that the reader will unpack is unpacked here first, through zipfile, which stops at the declared size and
  checks the sum. An archive that lies about its sizes is refused before anything else touches it.
* The rectangle a sheet spans is known before the reader allocates it: one cell in XFD1048576 would take 500 GB.
* Cells in the form that every common program writes are counted fast; any other form takes the slow, general way.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import chain
from typing import Final

from tools.errors import InputError
from tools.input_check import MAX_COLUMNS, MAX_ROWS
from tools.sheet import Progress, silent

NOWHERE: Final = -1  # the column of a cell that does not say where it stands
_CHUNK: Final = 1 << 20
_LONGEST_ROW: Final = 64 << 20  # bytes of XML without a new row: 1,000 columns of 32,767 characters, and reserve
_SMALL_PART: Final = 8 << 20  # workbook.xml and its relations

_PREFIX: Final = rb"(?:[^\s<>:/!?]+:)?"
_COMMON_COLUMN: Final = re.compile(rb'<c r="([A-Z]+)')
_COMMON_ROW: Final = re.compile(rb'<c r="[A-Z]+(\d+)"')
_CELL: Final = re.compile(rb"<" + _PREFIX + rb"c[\s/>]")
_ELEMENT: Final = re.compile(rb"<" + _PREFIX + rb"(row|c)(?=[\s/>])([^<]*)")
_REFERENCE: Final = re.compile(rb"""(?:^|\s)r\s*=\s*["']\s*([A-Za-z]*)(\d+)""")
_FORMULA: Final = rb"<" + _PREFIX + rb"f(?:\s[^<>]*)?(?:/>|>[^<]*</" + _PREFIX + rb"f>)\s*"
_VALUE: Final = rb"<" + _PREFIX + rb"v"
_UNVALUED: Final = re.compile(
    rb"<" + _PREFIX + rb"c(\s[^<>]*|)>\s*" + _FORMULA + rb"(" + _VALUE + rb"\s*/>|" + _VALUE + rb"></|</)"
)
_MERGED: Final = re.compile(rb"""<""" + _PREFIX + rb"""mergeCell\s[^<>]*ref\s*=\s*["'][A-Z]+\d+:[A-Z]+(\d+)""")
_ERROR: Final = re.compile(
    rb"<" + _PREFIX + rb"""c(\s[^<>]*\bt\s*=\s*["']e["'][^<>]*)>\s*"""
    rb"(?:" + _FORMULA + rb")?" + _VALUE + rb">\s*([^<]*?)\s*</"
)


@dataclass(kw_only=True)
class SheetScan:
    """What was seen in one sheet. Columns count from 0; `rows` and `columns` are the far edges of what is filled."""

    rows: int = 0
    columns: int = 0
    errors: dict[int, Counter[str]] = field(default_factory=dict[int, Counter[str]])
    unvalued: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    merged_to: list[int] = field(default_factory=list[int])  # the last row of each merged range, from 1


def scan(content: bytes, progress: Progress = silent) -> list[SheetScan]:
    """Look through every sheet, in the order of the workbook. InputError when a part is damaged.

    A sheet that is no table of cells (a chart, for instance) gives an empty scan.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sheets = _sheet_parts(archive)
            meter = _Meter(progress, sum(part.file_size for part in archive.infolist()))
            for part in archive.namelist():
                if part not in sheets and part.endswith((".xml", ".rels")):
                    for _chunk in _chunks(archive, part, meter):
                        pass  # unpacked for its checksum only
            return [_scan_part(archive, part, meter) if part else SheetScan() for part in sheets]
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, ValueError, OSError):
        raise InputError(
            "The workbook is damaged: a part of it cannot be unpacked. Save or download it again."
        ) from None


def column_letters(column: int) -> str:
    """The letters Excel shows above a column, counted from 0."""
    letters = ""
    number = column + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


class _Meter:
    """Tells how many megabytes of the unpacked parts were looked through."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, count: int) -> None:
        self._done += count
        self._progress("looking through the workbook, MB", self._done >> 20, max(1, self._total >> 20))


def _scan_part(archive: zipfile.ZipFile, part: str, meter: _Meter) -> SheetScan:
    seen = SheetScan()
    row = 0
    for chunk in _whole_rows(archive, part, meter):
        row = _count(seen, chunk, row)
        if seen.rows > MAX_ROWS or seen.columns > MAX_COLUMNS:
            break  # the caller refuses the sheet by these edges
        _find_unvalued(seen, chunk)
        _find_errors(seen, chunk)
        seen.merged_to.extend(map(int, _MERGED.findall(chunk)))
    return seen


def _count(seen: SheetScan, chunk: bytes, row: int) -> int:
    """Count the cells of some rows and give the number of the last row."""
    columns = _COMMON_COLUMN.findall(chunk)
    rows = _COMMON_ROW.findall(chunk)
    if not len(columns) == len(rows) == _cell_starts(chunk):
        return _count_any_form(seen, chunk, row)
    if columns:
        seen.columns = max(seen.columns, 1 + max(map(_column_number, set(columns))))
        seen.rows = max(seen.rows, *map(int, set(rows)))
        row = int(rows[-1])
    return row


def _cell_starts(chunk: bytes) -> int:
    """How many cells begin here, in any form; counting fixed bytes is the fast way when there is but one form."""
    plain = chunk.count(b"<c ")
    if plain == chunk.count(b"<c") and b":c" not in chunk:
        return plain
    return len(_CELL.findall(chunk))


def _count_any_form(seen: SheetScan, chunk: bytes, row: int) -> int:
    """As `_count`, for cells and rows without a reference, with prefixes, or with attributes in any order."""
    column = 0
    for element, attributes in _ELEMENT.findall(chunk):
        reference = _REFERENCE.search(attributes)
        if element == b"row":
            row, column = int(reference[2]) if reference else row + 1, 0
        else:
            if reference:
                column, row = _column_number(reference[1]), int(reference[2])
            column += 1
            seen.columns = max(seen.columns, column)
        seen.rows = max(seen.rows, row)
    return row


def _find_unvalued(seen: SheetScan, chunk: bytes) -> None:
    if b"</f>" not in chunk and b"<f " not in chunk and b":f" not in chunk:
        return
    for attributes, end in _UNVALUED.findall(chunk):
        reference = _REFERENCE.search(attributes)
        if b'"str"' in attributes and not end.startswith(b"</"):
            continue  # a formula whose stored value is the empty text
        column = _column_number(reference[1]) if reference else NOWHERE
        cell = (reference[1] + reference[2]).decode() if reference else ""
        seen.unvalued.setdefault(column, []).append(cell)


def _find_errors(seen: SheetScan, chunk: bytes) -> None:
    """Look for the value that `t` has in an error cell, then back to where its tag begins."""
    for place in chain(re.finditer(b'"e"', chunk), re.finditer(b"'e'", chunk)):
        cell = _ERROR.match(chunk, chunk.rfind(b"<", 0, place.start()))
        if cell:
            reference = _REFERENCE.search(cell[1])
            column = _column_number(reference[1]) if reference else NOWHERE
            found = seen.errors.setdefault(column, Counter())
            found[unescape(cell[2].decode("utf-8", "replace"))] += 1


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper()[:4]:  # four letters are beyond every limit already
        number = number * 26 + letter - ord("A") + 1
    return number - 1


def _whole_rows(archive: zipfile.ZipFile, part: str, meter: _Meter) -> Iterator[bytes]:
    """The XML of a sheet in pieces that end where a row begins, so that no cell is cut."""
    rest = b""
    for chunk in _chunks(archive, part, meter):
        rest += chunk
        cut = max(rest.rfind(b"<row"), rest.rfind(b":row"))
        cut = rest.rfind(b"<", 0, cut + 1) if cut > 0 else 0
        if cut > 0:
            yield rest[:cut]
            rest = rest[cut:]
        elif len(rest) > _LONGEST_ROW:
            raise ValueError("no row for too long")
    if not rest.rstrip().endswith(b"worksheet>"):
        raise ValueError("cut off")
    yield rest


def _chunks(archive: zipfile.ZipFile, part: str, meter: _Meter) -> Iterator[bytes]:
    with archive.open(part) as stream:
        while chunk := stream.read(_CHUNK):
            meter.add(len(chunk))
            yield chunk


def _sheet_parts(archive: zipfile.ZipFile) -> list[str]:
    """The part of the archive that holds each sheet, in the workbook's order; "" for a sheet without cells."""
    workbook = next(name for name in archive.namelist() if name.endswith("workbook.xml"))
    folder, base = posixpath.split(workbook)
    targets = {
        attributes.get("Id", ""): attributes.get("Target", "")
        for attributes in _elements(archive, posixpath.join(folder, "_rels", base + ".rels"), "Relationship")
    }
    parts: list[str] = []
    for attributes in _elements(archive, workbook, "sheet"):
        target = targets[attributes.get("id", "")]
        path = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        parts.append(path if "worksheets" in path else "")
    return parts


def _elements(archive: zipfile.ZipFile, part: str, element: str) -> Iterator[dict[str, str]]:
    """The attributes of all elements of one name in a small part, by name without prefix."""
    if archive.getinfo(part).file_size > _SMALL_PART:
        raise ValueError(f"{part} is too large")
    text = archive.read(part).decode("utf-8-sig")
    for found in re.finditer(rf"<(?:[^\s<>:/!?]+:)?{element}\s([^<>]*)>", text):
        pairs = re.findall(r"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""", found[1])
        yield {name.rpartition(":")[2]: unescape(double or single) for name, double, single in pairs}
