"""How values are shown to a reader: one format per column of a result, the same in prose, table and chart.

A pure function of the column's name, type and values: no locale, no clock. Numbers get thousands separators and one
number of decimals per column, so that a column can be read from top to bottom.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from tools.draft_types import Result, Scalar

Number: TypeAlias = int | float | Decimal

NO_VALUE = "–"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

NUMERIC_TYPES = frozenset(["integer", "bigint", "number", "decimal"])  # bigint and decimal arrive as text
_LARGEST_PLAIN = 1e15  # above it a double no longer holds every integer, so its last digits say nothing
_SHARE_NAME = re.compile(r"\b(share|proportion)\b|占比|比例|份额", re.IGNORECASE)
# Numbers that are names of something: a thousands separator would make "2,025" of a year.
_LABEL_NAME = re.compile(
    r"\b(year|id|no|nr|code|zip|row|key)$|(?-i:[a-z]I[dD]$)|_id$|年$|年份$|年度$|编号$|编码$|号$", re.IGNORECASE
)
_COUNTED = re.compile(r"(sum|count|distinct count) of ")  # how many ids there are is a number again


@dataclass(frozen=True, kw_only=True)
class ColumnFormat:
    """How one column is shown. `show` gives one line of text without control characters."""

    align: Literal["left", "right"]
    show: Callable[[Scalar], str]
    percent: bool = False  # a share of one is shown as a percentage


def column_formats(result: Result) -> dict[str, ColumnFormat]:
    """The format of each column of a result, by column name."""
    return {
        column["name"]: _format(column["name"], column["type"], [row[index] for row in result["rows"]])
        for index, column in enumerate(result["columns"])
    }


def _format(name: str, kind: str, values: Sequence[Scalar]) -> ColumnFormat:
    if kind in NUMERIC_TYPES:
        return _numeric(name, values)
    if kind == "date" or kind == "datetime":
        dates_only = all(value is None or _midnight(str(value)) for value in values)
        return ColumnFormat(align="left", show=_or_no_value(lambda value: _moment(str(value), dates_only)))
    if re.search(r"\((month|quarter|week)\)( \(\d+\))?$", name):
        return ColumnFormat(align="left", show=_or_no_value(lambda value: one_line(period(str(value)))))
    return ColumnFormat(align="left", show=_or_no_value(_text))


def _or_no_value(show: Callable[[Scalar], str]) -> Callable[[Scalar], str]:
    return lambda value: NO_VALUE if value is None else show(value)


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value))


def one_line(text: str) -> str:
    """The text on one line: controls, lone surrogates and direction overrides would change how the page reads."""
    return "".join(_visible(char) for char in " ".join(text.split()))


def readable(text: str) -> str:
    """The text with its lines, and with everything else that `one_line` replaces replaced."""
    return "\n".join("".join(map(_visible, line.expandtabs(4))) for line in text.splitlines())


def _visible(char: str) -> str:
    if unicodedata.category(char) in {"Cc", "Cs"} or char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        return "\ufffd"
    return char


def shorten(text: str, width: int) -> str:
    """At most `width` columns of text, where an East Asian wide character takes two; cut with an ellipsis."""
    if text_width(text) <= width:
        return text
    kept, used = "", 1
    for char in text:
        used += text_width(char)
        if used > width:
            break
        kept += char
    return kept.rstrip() + "…"


def text_width(text: str) -> int:
    """Columns the text takes in a fixed-width font."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


# ---- Numbers ---------------------------------------------------------------------------------------------------


def _numeric(name: str, values: Sequence[Scalar]) -> ColumnFormat:
    numbers = [n for n in map(as_number, values) if n is not None]
    if _SHARE_NAME.search(name) and all(-1 <= n <= 1 for n in numbers):
        return ColumnFormat(align="right", show=lambda value: _percent(as_number(value)), percent=True)
    decimals = _decimals(numbers)
    is_label = _LABEL_NAME.search(name) and not _COUNTED.match(name)
    separator = "" if is_label and not decimals else ","
    return ColumnFormat(align="right", show=lambda value: number(as_number(value), decimals, separator))


def as_number(value: Scalar) -> Number | None:
    """The number in a cell of a numeric column, or null when there is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        if re.fullmatch(r"-?[0-9]{1,400}", value):
            return int(value)
        return Decimal(value) if re.fullmatch(r"-?[0-9]{1,400}\.[0-9]{1,400}", value) else None
    return value if math.isfinite(value) else None


def _decimals(numbers: Sequence[Number]) -> int:
    """Decimals of a column: none for whole numbers, two for most, more when all are small."""
    if all(isinstance(n, int) or n % 1 == 0 for n in numbers):
        return 0
    largest = max(abs(n) for n in numbers)
    if largest >= 1:
        return 2
    most = min(8, 2 - math.floor(math.log10(largest)))
    return next((d for d in range(2, most) if all(round(n, d) == n for n in numbers)), most)


def number(value: Number | None, decimals: int, separator: str = ",") -> str:
    """The number with so many decimals; one that would round to zero keeps two significant digits instead."""
    if value is None:
        return NO_VALUE
    if value == 0:
        value = 0  # -0.0 is no other number to a reader
    if isinstance(value, float) and abs(value) >= _LARGEST_PLAIN:
        return f"{value:.3e}"
    if value and round(value, decimals) == 0:
        return f"{value:.1e}" if abs(value) < 1e-6 else f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"
    if not isinstance(value, int) or (decimals and abs(value) < _LARGEST_PLAIN):
        return f"{value:{separator}.{decimals}f}"
    return f"{value:{separator}d}"


def _percent(share: Number | None) -> str:
    if share is None:
        return NO_VALUE
    shown = f"{share * 100:.1f}%"
    return f"{share * 100:.1g}%" if share and shown.strip("-") == "0.0%" else shown


# ---- Dates -----------------------------------------------------------------------------------------------------


def period(text: str) -> str:
    """A part of a date in words: "2025-01" is "Jan 2025", "2025-Q1" is "Q1 2025". Other texts stay as they are."""
    found = re.fullmatch(r"(\d{4})-(Q[1-4]|W\d{2}|0[1-9]|1[0-2])", text)
    if found is None:
        return text
    year, part = found.groups()
    return f"{MONTHS[int(part) - 1]} {year}" if part.isdigit() else f"{part} {year}"


def _midnight(text: str) -> bool:
    return "T" not in text or re.search(r"T00:00(:00(\.0+)?)?$", text) is not None


def _moment(text: str, date_only: bool) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # a year beyond 9999 or before 1: shown as it came
        return one_line(text)
    day = short_date(moment.date())
    if date_only:
        return day
    return f"{day} {moment:%H:%M:%S}" if moment.second or moment.microsecond else f"{day} {moment:%H:%M}"


def short_date(day: date) -> str:
    """5 Mar 2025."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
