"""The second, independent read of an input: every cell as text, then cast here, one value at a time.

The first read (`tools.workbook_xlsx`, `tools.workbook_csv`) lets libraries decide and cast whole columns. This one
takes from it only where the table lies and what type and format each column was found to have, which stands in the
profile, and shares no cast with it: an .xlsx is loaded as text, a .csv is cut by an expression of its own. A value
the first read lost, or made something else of, shows as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final

import polars as pl

from tools import input_check
from tools.errors import ReadsDiffer
from tools.sheet import DTYPES, quoted
from tools.text_types import DATE_FORMATS, MONTHS, POINT
from tools.workbook_xlsx import XlsxReader

_BLOCK: Final = 20_000  # rows cast at a time
_ISO: Final = re.compile(DATE_FORMATS["YYYY-MM-DD"])
_DAY_ZERO: Final = datetime(1899, 12, 31)  # what a length of time is counted from when it is written as a date

Cast = Callable[[str], Any]


def read_again(content: bytes, kind: input_check.Kind, profile: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """The tables of the profile's sheets, by name, with the profile's columns and types."""
    if kind == "csv":
        return {sheet["name"]: _table(sheet, _csv_columns(content, sheet), {}) for sheet in profile["sheets"]}
    reader = XlsxReader(content)
    return {sheet["name"]: _xlsx_table(reader, sheet) for sheet in profile["sheets"]}


def _xlsx_table(reader: XlsxReader, sheet: dict[str, Any]) -> pl.DataFrame:
    """As text; but numbers with decimals also as doubles, since their text has nine decimals at most."""
    index, first_row = sheet["source"]["index"], sheet["source"]["first_row"]
    decimal = [c["position"] for c in sheet["columns"] if c["type"] == "number" and c["format"] in (None, POINT)]
    exact: dict[int, pl.Series] = {}
    if decimal:  # before the text, which takes more room
        grid = reader.load(index, first_row, dtypes="float")
        exact = {position: grid.column(position) for position in decimal}
        del grid
    text = reader.load_text(index, first_row)
    return _table(sheet, [text.column(column["position"]) for column in sheet["columns"]], exact)


def _csv_columns(content: bytes, sheet: dict[str, Any]) -> list[pl.Series]:
    source = sheet["source"]
    text = content.decode(source["encoding"])
    records = islice(_split(text, source["delimiter"]), source["first_row"], None)
    wanted = [column["position"] for column in sheet["columns"]]
    parts: list[list[pl.Series]] = []
    while block := list(islice(records, _BLOCK)):
        parts.append(
            [pl.Series([r[place] if place < len(r) else "" for r in block], dtype=pl.String) for place in wanted]
        )
    if not parts:
        return [pl.Series([], dtype=pl.String) for _place in wanted]
    return [pl.concat([part[number] for part in parts]) for number in range(len(wanted))]


def _split(text: str, delimiter: str) -> Iterator[list[str]]:
    """Records of a .csv by one regular expression: a quoted or a bare cell, then a delimiter, a line end or the end."""
    mark = re.escape(delimiter)
    cell = re.compile(rf'(?:"((?:[^"]|"")*)"|([^{mark}\r\n]*))({mark}|\r\n|\r|\n|\Z)')
    start = re.match(r"\ufeff?(?:[sS][eE][pP]=.\r?\n)?", text)
    place = start.end() if start else 0
    record: list[str] = []
    while place < len(text):
        found = cell.match(text, place)
        if found is None:
            return  # damaged; the first read refuses such a file
        quoted, bare, end = found.groups()
        record.append(quoted.replace('""', '"') if quoted is not None else bare)
        place = found.end()
        if end != delimiter:
            yield [] if record == [""] and quoted is None else record
            record = []
    if record:
        yield [*record, ""]


def _table(sheet: dict[str, Any], columns: list[pl.Series], exact: dict[int, pl.Series]) -> pl.DataFrame:
    """Cast the columns and leave out rows that are empty from end to end. `exact` has doubles by position."""
    values = [_cast(cells, column) for cells, column in zip(columns, sheet["columns"], strict=True)]
    for place, column in enumerate(sheet["columns"]):
        if column["position"] in exact:
            doubles = exact[column["position"]].fill_null(values[place])
            values[place] = doubles.set(doubles == 0, 0.0)  # not -0.0
    filled = [cells.fill_null("").str.contains(r"\S") for cells in columns]
    kept = pl.select(pl.any_horizontal(filled)).to_series() if filled else None
    names = [column["name"] for column in sheet["columns"]]
    table = pl.DataFrame([series.alias(name) for series, name in zip(values, names, strict=True)])
    return table if kept is None else table.filter(kept)


def _cast(cells: pl.Series, column: dict[str, Any]) -> pl.Series:
    cast, dtype = _cast_for(column), DTYPES[column["type"]]
    blocks: list[pl.Series] = []
    for start in range(0, len(cells), _BLOCK):
        try:
            values = [cast(cell) if cell and cell.strip() else None for cell in cells.slice(start, _BLOCK)]
        except (ValueError, OverflowError) as error:
            raise ReadsDiffer(
                f"{quoted(column['name'])} was read as {column['type']}, and the second read found a cell in it that "
                f"is none ({quoted(str(error))}). No figure of this column can be relied on."
            ) from None
        blocks.append(pl.Series(values, dtype=dtype))
    return pl.concat(blocks) if blocks else pl.Series([], dtype=dtype)


def _cast_for(column: dict[str, Any]) -> Cast:
    kind, form = column["type"], column["format"]
    special = {"hours": _hours, "HH:MM:SS": _time_of_day}.get(form or "")
    if special:
        return special
    if kind == "integer":
        return partial(_integer, style=form)
    if kind == "number":
        return partial(_number, style=form)
    if kind in ("date", "datetime"):
        pattern = re.compile(DATE_FORMATS[form or "YYYY-MM-DD"])
        return partial(_date if kind == "date" else _moment, pattern=pattern)
    return _boolean if kind == "boolean" else str


def _integer(cell: str, style: str | None) -> int:
    return int(_plain(cell, style))


def _number(cell: str, style: str | None) -> float:
    return float(_plain(cell, style)) or 0.0  # not -0.0


def _plain(cell: str, style: str | None) -> str:
    """A number as Python writes it: without separators of thousands, with a decimal point."""
    if style is None or style == POINT:
        return cell
    decimal = style[-2]
    kept = [character for character in cell.strip() if character.isdigit() or character in f"-+eE{decimal}"]
    return "".join(kept).replace(decimal, ".")


def _date(cell: str, pattern: re.Pattern[str]) -> date:
    moment = _moment(cell, pattern)
    if moment.time() != time.min:
        raise ValueError(cell)
    return moment.date()


def _moment(cell: str, pattern: re.Pattern[str] = _ISO) -> datetime:
    found = pattern.fullmatch(cell.strip())
    if found is None:
        raise ValueError(cell)
    part = found.groupdict()
    month = int(part["m"]) if "m" in part else MONTHS.index(part["n"].lower()) + 1
    hour, minute, second = (int(part[field] or 0) for field in "HMS")
    fraction = int((part["f"] or "0").ljust(6, "0"))
    return datetime(int(part["y"]), month, int(part["d"]), hour, minute, second, fraction)


def _hours(cell: str) -> float:
    return (_moment(cell) - _DAY_ZERO) / timedelta(hours=1)


def _time_of_day(cell: str) -> str:
    return _moment(cell).strftime("%H:%M:%S")


def _boolean(cell: str) -> bool:
    return ("false", "true").index(cell.strip().lower()) == 1
