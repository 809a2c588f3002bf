"""What reading a file gives: a workbook of sheets, each a table with notes on what a reader should know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

ColumnType = Literal["integer", "number", "date", "datetime", "boolean", "text", "mixed", "empty"]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a plain text, how much is done and out of how much."""

DTYPES: dict[str, pl.DataType] = {
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
    "boolean": pl.Boolean(),
    "text": pl.String(),
    "mixed": pl.String(),
    "empty": pl.String(),
}


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that was found in the file and that a reader of the figures should know.

    `kind` is a fixed word for programs, `text` a plain sentence for people. `count` is how many cells, rows or
    columns it concerns, where that says something.
    """

    kind: str
    text: str
    column: str | None = None
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table and where it came from.

    `position` is the column's place in the file, from 0. `format` says how its text was read (a number style or a date
    format of `tools.text_types`), or None when the file itself held typed cells.
    """

    name: str
    type: ColumnType
    position: int
    format: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a sheet's rows lie in its file: the sheet's place, and the first data row, both from 0."""

    index: int
    first_row: int
    encoding: str | None = None
    delimiter: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """One table: unique, non-empty column names; rows that are empty from end to end are left out."""

    name: str
    table: pl.DataFrame
    columns: tuple[Column, ...]
    notes: tuple[Note, ...]
    source: Source


@dataclass(frozen=True, kw_only=True)
class Workbook:
    """All sheets of a file that hold any cell. `notes` are about the file as a whole."""

    name: str
    kind: Literal["xlsx", "csv"]
    sheets: tuple[Sheet, ...]
    notes: tuple[Note, ...] = ()


def silent(_text: str, _done: int, _total: int) -> None:
    """Take progress and say nothing."""


def unique_names(names: list[str]) -> list[str]:
    """Give each name that was taken before, case aside, a number: "x", "x (2)".

    Case aside because SQL identifiers ignore case, even quoted ones.
    """
    taken = {name.casefold() for name in names}
    seen: set[str] = set()
    unique: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate.casefold() in seen or (candidate is not name and candidate.casefold() in taken):
            candidate, number = f"{name} ({number})", number + 1
        seen.add(candidate.casefold())
        unique.append(candidate)
    return unique


def plural(count: int, what: str) -> str:
    """ "1 cell", "2 cells", "1,000 cells"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def quoted(value: str, most: int = 40) -> str:
    """A value as it may stand in a sentence: on one line, shortened, in double quotes."""
    line = " ".join(value.split())
    return f'"{line if len(line) <= most else line[: most - 1] + "…"}"'
