"""Reading an .xlsx through calamine: once as text, which loses nothing, and once typed, which is checked against it.

The typed load is told to look at *all* rows before it decides on a column's type; by default it looks at 1,000 and
turns what does not fit into nulls. Three more of its habits are undone here. It takes "n/a", "NA", "null" and a dozen
more words among numbers for nothing: a column that has fewer values typed than as text is kept as text. It makes 1 and
0 of true and false among numbers. And it says nothing of errors and of formulas without a stored value.
"""

from __future__ import annotations

import ctypes
import logging
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final, TypeVar

import fastexcel
import polars as pl

from tools import layout, text_types
from tools.errors import InputError
from tools.input_check import check_cells, check_size
from tools.sheet import Column, Note, Progress, Sheet, Source, Workbook, plural, quoted, unique_names
from tools.text_types import Typed
from tools.xlsx_scan import NOWHERE, SheetScan, column_letters, scan

MAX_SHEETS: Final = 200
EXACT_INTEGERS: Final = 2**53  # doubles beyond it no longer tell neighbours apart
DAY_ZERO: Final = (date(1899, 12, 30), date(1899, 12, 31))  # what a time without a day is given as
T = TypeVar("T")

_UNNAMED: Final = re.compile(r"__UNNAMED__(\d+)")

# The reader's library warns of columns without values; we say so ourselves, in a note.
for _logger in ("fastexcel", "calamine"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Rows of one sheet as loaded, without a header.

    `offset` is the place of the first loaded column in the sheet; `unlike` are the places of columns whose cells have
    types that do not go together, such as dates and lengths of time. `filled` says of each cell whether there is text,
    and `words` are the places of columns where some of it is more than a number.
    """

    frame: pl.DataFrame
    offset: int
    hidden: bool
    unlike: frozenset[int] = frozenset()
    filled: pl.DataFrame | None = None
    words: frozenset[int] = frozenset()

    def column(self, position: int) -> pl.Series:
        """The cells of one column of the sheet."""
        return self.frame.to_series(position - self.offset)


class XlsxReader:
    """The library's reader, with its errors turned into ours."""

    def __init__(self, content: bytes) -> None:
        # The library copies bytes that it is given, and reads a file piece by piece: 14 MB less for 200,000 rows. It
        # keeps the file open, so that its name can go at once.
        with tempfile.NamedTemporaryFile(prefix="onward-", suffix=".xlsx") as file:
            file.write(content)
            file.flush()
            self._reader = _guarded(lambda: fastexcel.read_excel(file.name))
        self.names = list(self._reader.sheet_names)

    def load(self, index: int, skip_rows: int, **options: Any) -> Grid:
        """The rows of a sheet from `skip_rows` on, counted from the top of the sheet."""
        loaded = _guarded(lambda: self._reader.load_sheet(index, header_row=None, skip_rows=skip_rows, **options))
        frame = _guarded(loaded.to_polars)
        columns = loaded.available_columns()
        offset = columns[0].absolute_index if columns else 0
        hidden = loaded.visible != "visible"
        del loaded
        _give_memory_back()
        return Grid(frame=frame, offset=offset, hidden=hidden)

    def load_text(self, index: int, skip_rows: int, **options: Any) -> Grid:
        """The same rows with every cell as text."""
        return self.load(index, skip_rows, dtypes="string", **options)

    def load_typed(self, index: int, skip_rows: int, sample_rows: int | None) -> Grid:
        """The same rows with a type for each column; columns whose cells agree on none are loaded as text."""
        unlike: dict[str, int] = {}
        while True:
            as_text = dict.fromkeys(unlike, "string") or None
            try:
                grid = self.load(index, skip_rows, schema_sample_rows=sample_rows, dtypes=as_text)
            except fastexcel.UnsupportedColumnTypeCombinationError as error:
                column = _UNNAMED.search(str(error))
                if column is None or column[0] in unlike:
                    raise _unreadable(error) from None
                unlike[column[0]] = int(column[1])
            else:
                return replace(grid, unlike=frozenset(grid.offset + place for place in unlike.values()))


def read_xlsx(content: bytes, name: str, progress: Progress, sample_rows: int | None = None) -> Workbook:
    """Read all sheets. `sample_rows` is for the test that shows what looking at a sample would lose."""
    scans = scan(content, progress)
    reader = XlsxReader(content)
    _check_limits(name, reader, scans)
    names = unique_names([sheet.replace("\0", "\N{SYMBOL FOR NULL}") or "Sheet" for sheet in reader.names])
    sheets: list[Sheet] = []
    for index, seen in enumerate(scans):
        progress(f"reading sheet {quoted(names[index])}", index, len(scans))
        found = _SheetReader(reader, index, names[index], seen).read(sample_rows) if seen.columns else None
        if found is not None:
            sheets.append(found)
    progress("reading sheets", len(scans), len(scans))
    if not sheets:
        raise InputError(f"No sheet of {quoted(name)} holds a table: all are empty. Check that it was saved with data.")
    empty = [sheet for sheet in names if sheet not in {found.name for found in sheets}]
    return Workbook(name=name, kind="xlsx", sheets=tuple(sheets), notes=tuple(map(_empty_note, empty)))


def only_times(values: pl.Series) -> bool:
    """Whether a datetime column holds times of day without a day."""
    return bool(values.drop_nulls().dt.date().is_in(DAY_ZERO).all())


class _SheetReader:
    """Reads one sheet: its layout, then its cells, then the type of each column."""

    def __init__(self, reader: XlsxReader, index: int, name: str, seen: SheetScan) -> None:
        self._reader, self._index, self._name, self._seen = reader, index, name, seen

    def read(self, sample_rows: int | None) -> Sheet | None:
        """The sheet, or None when no cell of it holds anything."""
        text = self._reader.load_text(self._index, 0)
        found, header = self._find_layout(text) if text.frame.width else (None, [])
        if found is None:
            return None
        below = text.frame.slice(found.first_row)
        filled = pl.DataFrame([~_blank(cells) for cells in below])
        words = frozenset(p for p, cells in enumerate(below, text.offset) if cells.str.contains("[^-+.0-9eE]").any())
        rows = pl.select(pl.any_horizontal(filled.get_columns())).to_series()
        filled = filled.filter(rows)
        del text, below  # the next load needs the room
        grid = self._reader.load_typed(self._index, found.first_row, sample_rows)
        grid = replace(grid, frame=grid.frame.filter(rows))
        raw = [None] * grid.offset + header
        used = [False] * grid.offset + [bool(cells.any()) for cells in filled]
        names, notes = layout.name_columns(raw, used)
        by_position = dict(zip(layout.kept_positions(raw, used), names, strict=True))
        typed = self._types(replace(grid, filled=filled, words=words), by_position, found.first_row, rows)
        return Sheet(
            name=self._name,
            table=pl.DataFrame([column.values.alias(by_position[p]) for p, column in typed.items()]),
            columns=tuple(
                Column(name=by_position[p], type=column.type, position=p, format=column.format)
                for p, column in typed.items()
            ),
            notes=(
                *self._sheet_notes(grid.hidden, found),
                *notes,
                *(note for column in typed.values() for note in column.notes),
                *self._cell_notes(by_position),
                *layout.total_notes(grid.frame),
            ),
            source=Source(index=self._index, first_row=found.first_row),
        )

    def _find_layout(self, text: Grid) -> tuple[layout.Layout | None, list[str | None]]:
        """Where the table lies, and the cells of its header."""
        blank = pl.select(pl.all_horizontal([_blank(cells) for cells in text.frame]))
        top = blank.to_series().not_().arg_max()
        found = layout.find_layout(text.frame.head((top or 0) + layout.PREVIEW_ROWS).rows())
        if found is None or found.header is None:
            return found, [None] * text.frame.width
        return found, list(text.frame.row(found.header))

    def _types(self, grid: Grid, names: dict[int, str], first_row: int, rows: pl.Series) -> dict[int, Typed]:
        typed: dict[str, Typed] = {}
        text: dict[str, pl.Series] = {}
        spoiled: list[int] = []
        for position, name in names.items():
            cells = grid.column(position)
            if self._is_spoiled(position, grid):
                spoiled.append(position)
            elif cells.dtype == pl.String or cells.dtype == pl.Null:
                text[name] = text_types.clean(cells.cast(pl.String))
            else:
                typed[name] = _from_cells(name, cells)
        if spoiled:
            again = self._reader.load_text(self._index, first_row)
            for position in spoiled:
                values = text_types.clean(again.column(position).filter(rows))
                typed[names[position]] = text_types.as_text(names[position], values)
        inferred = text_types.infer_all(text, None)
        self._make_exact(inferred, {name: position for position, name in names.items()}, first_row, rows)
        typed |= {name: _say_converted(name, found) for name, found in inferred.items()}
        return {position: typed[name] for position, name in names.items()}

    def _make_exact(self, typed: dict[str, Typed], places: dict[str, int], first_row: int, rows: pl.Series) -> None:
        """Numbers that stand among numbers stored as text came as text of nine decimals: fetch them as they are.

        With another style than a plain one, 1.234 as text means something else than the number 1.234: such a column
        stays text.
        """
        plain = [name for name, found in typed.items() if found.type == "number" and found.format == text_types.POINT]
        styled = [name for name, found in typed.items() if found.format in text_types.NUMBER_STYLES]
        styled = [name for name in styled if typed[name].format != text_types.POINT]
        if plain:
            grid = self._reader.load(self._index, first_row, dtypes="float")
            for name in plain:
                exact = grid.column(places[name]).filter(rows).fill_null(typed[name].values)
                typed[name] = replace(typed[name], values=text_types.positive_zero(exact))
        if styled:
            grid = self._reader.load(self._index, first_row, dtypes="boolean")  # gives nothing for text
            for name in styled:
                if grid.column(places[name]).filter(rows).is_not_null().any():
                    text = f"{quoted(name)} mixes numbers and numbers written as text; it is kept as text."
                    cells = self._reader.load_text(self._index, first_row).column(places[name]).filter(rows)
                    note = Note(kind="mixed column", text=text, column=name)
                    typed[name] = Typed(type="mixed", values=text_types.clean(cells), notes=(note,))

    def _is_spoiled(self, position: int, grid: Grid) -> bool:
        """Whether typing lost something: a value, or that it was no number (true becomes 1)."""
        assert grid.filled is not None, "filled in before columns are typed"
        cells = grid.column(position)
        lost = grid.filled.to_series(position - grid.offset) & cells.is_null()
        return position in grid.unlike or bool(lost.any()) or (cells.dtype.is_numeric() and position in grid.words)

    def _sheet_notes(self, hidden: bool, found: layout.Layout) -> list[Note]:
        notes: list[Note] = []
        if hidden:
            notes.append(Note(kind="hidden sheet", text=f"The sheet {quoted(self._name)} is hidden in the workbook."))
        notes += layout.title_notes(found)
        merged = sum(row > found.first_row for row in self._seen.merged_to)
        if merged:
            text = f"{plural(merged, 'merged range')} in the data: only the first cell of each holds its value."
            notes.append(Note(kind="merged cells", text=text, count=merged))
        return notes

    def _cell_notes(self, names: dict[int, str]) -> list[Note]:
        """Errors and formulas without a stored value, by column."""
        notes: list[Note] = []
        for position, errors in sorted(self._seen.errors.items()):
            name = names.get(position)
            found = f"{plural(errors.total(), 'error cell')} in {_called(position, name)}"
            text = f"{found} ({', '.join(sorted(errors))}): counted as missing."
            notes.append(Note(kind="error cells", text=text, column=name, count=errors.total()))
        for position, cells in sorted(self._seen.unvalued.items()):
            name = names.get(position)
            found = f"{plural(len(cells), 'formula')} without a stored value in {_called(position, name)}"
            first = f", first in {cells[0]}" if cells[0] else ""
            text = f"{found}{first}: counted as missing. Save the file once in Excel to store the values."
            notes.append(Note(kind="formula without value", text=text, column=name, count=len(cells)))
        return notes


def _give_memory_back() -> None:
    """Return freed memory to the system, which glibc keeps otherwise: 80 MB after 200,000 rows of 12 columns."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _check_limits(name: str, reader: XlsxReader, scans: list[SheetScan]) -> None:
    if len(scans) > MAX_SHEETS:
        raise InputError(f"{quoted(name)} has {len(scans)} sheets, and at most {MAX_SHEETS} can be read. Split it.")
    if len(scans) != len(reader.names):
        raise InputError(f"The list of sheets in {quoted(name)} is damaged. Open it in Excel and save it again.")
    for sheet, seen in zip(reader.names, scans, strict=True):
        check_size(f"The sheet {quoted(sheet)}", seen.rows, seen.columns)
    check_cells(f"The workbook {quoted(name)}", sum(seen.rows * seen.columns for seen in scans))


def _guarded(call: Callable[[], T]) -> T:
    """Call into the library; whatever it cannot make sense of is an InputError."""
    try:
        return call()
    except fastexcel.UnsupportedColumnTypeCombinationError:
        raise
    except fastexcel.FastExcelError as error:
        raise _unreadable(error) from None
    except BaseException as error:
        if (
            type(error).__name__ == "PanicException"
        ):  # Rust gave up; it is no Exception, so that nobody catches it unaware
            raise _unreadable(error) from None
        raise


def _unreadable(error: BaseException) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"The workbook cannot be read ({quoted(reason, 120)}). Open it in Excel and save it again.")


def _from_cells(name: str, cells: pl.Series) -> Typed:
    """The type of a column whose cells already have one."""
    if cells.dtype == pl.Boolean:
        return Typed(type="boolean", values=cells)
    if cells.dtype == pl.Duration:
        text = f"The lengths of time in {quoted(name)} are given in hours."
        hours = text_types.positive_zero(text_types.divided(cells.dt.total_milliseconds(), 3_600_000))
        return Typed(type="number", values=hours, format="hours", notes=(Note(kind="hours", text=text, column=name),))
    if cells.dtype.is_numeric():
        return _numbers(cells)
    moments = cells.cast(pl.Datetime("us"))
    if only_times(moments):
        return Typed(type="text", values=moments.dt.strftime("%H:%M:%S"), format="HH:MM:SS")
    if text_types.only_dates(moments):
        return Typed(type="date", values=moments.dt.date())
    return Typed(type="datetime", values=moments)


def _numbers(cells: pl.Series) -> Typed:
    """Integers when all are whole and exact: the file itself knows but one kind of number."""
    values = cells.cast(pl.Float64)
    if bool(((values == values.round()) & (values.abs() <= EXACT_INTEGERS)).all()):
        return Typed(type="integer", values=values.cast(pl.Int64))
    return Typed(type="number", values=text_types.positive_zero(values))


def _say_converted(name: str, typed: Typed) -> Typed:
    """Add a note when text cells were read as numbers or dates."""
    if typed.format is None:
        return typed
    what = "dates" if typed.type in ("date", "datetime") else "numbers"
    text = f"{quoted(name)} holds {what} stored as text; they are read as {what} ({typed.format})."
    return replace(typed, notes=(*typed.notes, Note(kind="stored as text", text=text, column=name)))


def _blank(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.String:
        return (cells.str.strip_chars() == "").fill_null(True)
    return cells.is_null()


def _called(position: int, name: str | None) -> str:
    if position == NOWHERE:
        return "columns that the file does not name"
    letters = column_letters(position)
    return f"{quoted(name)} (column {letters})" if name else f"column {letters}"


def _empty_note(sheet: str) -> Note:
    return Note(kind="empty sheet", text=f"The sheet {quoted(sheet)} holds no table and is left out.", count=0)
