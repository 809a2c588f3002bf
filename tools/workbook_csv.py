"""Reading a .csv: cells through Python's csv module, strictly, then types over whole columns.

Nothing is guessed about damaged quotes: a cell that is not closed would swallow the rest of the file, so it is refused
with its line. Rows may be shorter or longer than the header; longer ones make new columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import PurePath
from typing import Final

import polars as pl

from tools import layout, text_types
from tools.csv_text import LONGEST_CELL, find_delimiter, find_encoding
from tools.errors import InputError
from tools.input_check import check_size
from tools.sheet import Column, Note, Progress, Sheet, Source, Workbook, quoted

_BLOCK: Final = 20_000  # records; as Python objects they take fifty times their size in the file
_PLAIN_ENCODINGS: Final = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
# Only these end a line; str.splitlines knows eight more characters, all of which may stand in a cell.
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")

Record = list[str]


def read_csv(content: bytes, name: str, progress: Progress) -> Workbook:
    """Read the one table of a text file."""
    encoding = find_encoding(content)
    text = content.decode(encoding)
    delimiter, start = find_delimiter(text)
    records = _records(text[start:] if start else text, delimiter, progress)
    preview = list(islice(records, layout.PREVIEW_ROWS))
    found = layout.find_layout(_same_width(preview))
    if found is None:
        raise InputError(
            f"{quoted(name)} holds no table: all of its cells are empty. Check that it was saved with data."
        )
    header = preview[found.header] if found.header is not None else []
    cells = _columns(chain(preview[found.first_row :], records), len(header))
    rows = ~pl.select(pl.all_horizontal([column.is_null() for column in cells])).to_series()
    cells = [column.filter(rows) for column in cells]
    raw = [*header, *[None] * (len(cells) - len(header))]
    used = [bool(column.is_not_null().any()) for column in cells]
    names, notes = layout.name_columns(raw, used)
    by_name = dict(zip(names, layout.kept_positions(raw, used), strict=True))
    typed = text_types.infer_all({n: cells[place] for n, place in by_name.items()}, delimiter)
    title = PurePath(name).stem.replace("\0", "") or "Data"
    sheet = Sheet(
        name=title,
        table=pl.DataFrame([column.values.alias(n) for n, column in typed.items()]),
        columns=tuple(
            Column(name=n, type=column.type, position=by_name[n], format=column.format) for n, column in typed.items()
        ),
        notes=(
            *_encoding_notes(encoding),
            *layout.title_notes(found),
            *notes,
            *(note for column in typed.values() for note in column.notes),
            *layout.total_notes(pl.DataFrame(cells)),
        ),
        source=Source(index=0, first_row=found.first_row, encoding=encoding, delimiter=delimiter),
    )
    progress("reading the table", 1, 1)
    return Workbook(name=name, kind="csv", sheets=(sheet,))


def _records(text: str, delimiter: str, progress: Progress) -> Iterator[Record]:
    """The records of the text, counted against the limits while they come."""
    csv.field_size_limit(LONGEST_CELL)
    lines = _LINE.finditer(text)
    reader = csv.reader((line[0] for line in lines), delimiter=delimiter, strict=True)
    widest = seen = number = 0
    try:
        for number, record in enumerate(reader, 1):
            seen += sum(map(len, record), len(record))
            if len(record) > widest or number % _BLOCK == 0:
                widest = max(widest, len(record))
                check_size("The file", number, widest)
                progress("reading the table, million characters", seen // 10**6, max(1, len(text) // 10**6))
            yield record
        check_size("The file", number, widest)
    except csv.Error as error:
        raise InputError(
            f"The table is damaged at line {reader.line_num}: {error}. "
            "A cell that begins with a quotation mark must end with one; correct it or save the file again."
        ) from None


def _columns(records: Iterator[Record], least: int) -> list[pl.Series]:
    """The records as text columns of equal length, white space alone made null, in blocks to save memory."""
    blocks: list[pl.DataFrame] = []
    while block := list(islice(records, _BLOCK)):
        width = max(least, *map(len, block))
        padded = [record + [""] * (width - len(record)) if len(record) < width else record for record in block]
        columns = zip(*padded, strict=True)
        blocks.append(pl.DataFrame([pl.Series(str(n), column, dtype=pl.String) for n, column in enumerate(columns)]))
    if not blocks:
        return [pl.Series(str(n), [], dtype=pl.String) for n in range(least)]
    table = pl.concat(blocks, how="diagonal", rechunk=True)
    return [text_types.clean(column) for column in table]


def _same_width(preview: list[Record]) -> list[layout.Row]:
    width = max(map(len, preview), default=0)
    return [[*record, *[None] * (width - len(record))] for record in preview]


def _encoding_notes(encoding: str) -> list[Note]:
    if encoding in _PLAIN_ENCODINGS:
        return []
    text = f"The file does not say how its characters are encoded; it was read as {encoding}."
    return [Note(kind="encoding", text=text)]
