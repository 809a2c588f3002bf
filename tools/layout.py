"""Where a table begins in a sheet, and what its columns are called.

People put titles, dates and empty rows above a table. The rule, on the first rows of a sheet:

1. The header row is the first that fills at least half as many cells as rows usually do here (and at least two, where
   rows usually have two). What stands above it are title rows; they are not data, and a note quotes them.
2. It is no header but data when a number, date or truth value stands in it and the same kind stands below it; a year
   over other numbers is a header. Then the columns are called "Column 1", "Column 2" …

A column without a header gets such a name too, and a repeated name gets a number: "x", "x (2)".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Final, TypeAlias

import polars as pl

from tools.sheet import Note, quoted, unique_names
from tools.text_types import DATE_FORMATS, NUMBER_STYLES

PREVIEW_ROWS: Final = 50
_MOST_TITLES_QUOTED: Final = 5
_TOTAL_WORDS: Final = frozenset(
    (
        "total",
        "totals",
        "grand total",
        "sum",
        "subtotal",
        "合计",
        "总计",
        "小计",
        "总和",
        "合計",
        "総計",
        "小計",
        "gesamt",
        "summe",
    )
)

Row: TypeAlias = Sequence[str | None]

_NUMBER: Final = re.compile("|".join(f"(?:{style.pattern})" for style in NUMBER_STYLES.values()))
_DATES: Final = [re.compile(pattern) for pattern in DATE_FORMATS.values()]
_YEAR: Final = re.compile(r"(?:19|20)[0-9][0-9]")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Row numbers in the sheet, from 0. `header` is None when the first row is data; `titles` are cells above it."""

    header: int | None
    first_row: int
    titles: tuple[str, ...] = ()


def find_layout(preview: Sequence[Row]) -> Layout | None:
    """Find header and data in the first rows of a sheet, or None when they hold nothing."""
    filled = [sum(_filled(cell) for cell in row) for row in preview]
    usual = median_high([count for count in filled if count] or [0])
    if not usual:
        return None
    needed = max(min(2, usual), (usual + 1) // 2)
    top = next(number for number, count in enumerate(filled) if count >= needed)
    titles = tuple(cell for row in preview[:top] for cell in row if cell and _filled(cell))
    if _is_data(preview[top], preview[top + 1 :]):
        return Layout(header=None, first_row=top, titles=titles)
    return Layout(header=top, first_row=top + 1, titles=titles)


def name_columns(raw: Sequence[str | None], used: Sequence[bool]) -> tuple[list[str], list[Note]]:
    """Unique names for the columns in use, from the header's cells, and notes on what was done to them."""
    given = [_tidy(cell) if cell and _filled(cell) else None for cell in raw]
    positions = [place for place, name in enumerate(given) if name is not None or used[place]]
    wanted = [given[place] or f"Column {place + 1}" for place in positions]
    names = unique_names(wanted)
    notes: list[Note] = []
    for place, want, name in zip(positions, wanted, names, strict=True):
        if given[place] is None:
            text = f"Column number {place + 1} has no header; it is called {quoted(name)}."
            notes.append(Note(kind="missing header", text=text, column=name))
        elif want != name:
            text = f"The header {quoted(want)} stands over more than one column; this one is called {quoted(name)}."
            notes.append(Note(kind="duplicate header", text=text, column=name))
    return names, notes


def kept_positions(raw: Sequence[str | None], used: Sequence[bool]) -> list[int]:
    """The columns that `name_columns` names: those with a header or any value."""
    return [place for place, cell in enumerate(raw) if (cell and _filled(cell)) or used[place]]


def title_notes(layout: Layout) -> list[Note]:
    """A note that quotes the cells above the header."""
    if not layout.titles:
        return []
    shown = ", ".join(quoted(title) for title in layout.titles[:_MOST_TITLES_QUOTED])
    more = ", …" if len(layout.titles) > _MOST_TITLES_QUOTED else ""
    text = f"The cells above the header are taken as titles, not as data: {shown}{more}."
    return [Note(kind="title rows", text=text, count=len(layout.titles))]


def total_notes(table: pl.DataFrame) -> list[Note]:
    """A warning when the last row looks like a total, which would count everything twice. Nothing is left out."""
    if table.is_empty():
        return []
    texts = [cell for cell in table.row(-1) if isinstance(cell, str) and _filled(cell)]
    if not texts or texts[0].strip().rstrip(":：").casefold() not in _TOTAL_WORDS:
        return []
    text = f"The last row begins with {quoted(texts[0])} and looks like a total; it is counted like any other row."
    return [Note(kind="total row", text=text, count=1)]


def _is_data(row: Row, below: Sequence[Row]) -> bool:
    return any(_continues(cell, [other[place] for other in below]) for place, cell in enumerate(row))


def _continues(cell: str | None, below: Sequence[str | None]) -> bool:
    """Whether a cell is a value of the same kind as the first one below it."""
    following = next((other for other in below if _filled(other)), None)
    if not cell or not following or _kind(cell) == "text":
        return False
    if _YEAR.fullmatch(cell.strip()) and not _YEAR.fullmatch(following.strip()):
        return False
    return _kind(cell) == _kind(following)


def _kind(cell: str) -> str:
    value = cell.strip()
    if _NUMBER.fullmatch(value):
        return "number"
    if value.lower() in ("true", "false"):
        return "boolean"
    return "date" if any(form.fullmatch(value) for form in _DATES) else "text"


def _filled(cell: str | None) -> bool:
    return cell is not None and bool(cell.strip())


def _tidy(cell: str) -> str:
    """A header as a name: no white space around it, no zero bytes (SQL has none), no midnight after a date."""
    return cell.strip().replace("\0", "\N{SYMBOL FOR NULL}").removesuffix(" 00:00:00")
