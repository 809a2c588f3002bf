"""What a column of text holds: numbers, dates, true and false, or text.

The whole column decides, never a sample. A column is converted only when every value in it can be read in one
style; one value that cannot ("n/a" among numbers) keeps the column as text and makes it *mixed*. Where two styles
would give different values (1,234 or 03/04/2025), the other columns of the file decide; if they do not, the column
stays text and a note says so.

Kept as text on purpose: leading zeros ("00123"), a leading plus ("+49 30 …"), integers of 19 digits and more,
"1E5", which is a part number more often than a number, and "5%", which may mean 5 or 0.05. Of the last two a note
tells. "1.5E+06" and "1E+05", as Excel exports them, are numbers, but not from 1E+300 on, where doubles end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from tools.sheet import ColumnType, Note, quoted

_PERCENTAGE: Final = r"^\s*[+-]?[0-9][0-9.,'’ ]*\s*[%％]\s*$"
_BARE_EXPONENT: Final = r"^\s*-?[0-9]+[eE][0-9]{1,3}\s*$"

_TIME: Final = r"(?:[ T](?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:[.,](?P<f>[0-9]{1,6})[0-9]*)?)?Z?)?"
_YEAR: Final = r"(?P<y>[12][0-9]{3})"
_MONTH: Final = r"(?P<m>0?[1-9]|1[0-2])"
_DAY: Final = r"(?P<d>0?[1-9]|[12][0-9]|3[01])"
_NAME: Final = r"(?P<n>[A-Za-z]{3})[a-z]*"

MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DATE_FORMATS: Final[dict[str, str]] = {
    "YYYY-MM-DD": f"{_YEAR}-{_MONTH}-{_DAY}{_TIME}",
    "YYYY/MM/DD": f"{_YEAR}/{_MONTH}/{_DAY}{_TIME}",
    "YYYY.MM.DD": rf"{_YEAR}\.{_MONTH}\.{_DAY}{_TIME}",
    "YYYY年MM月DD日": f"{_YEAR}年{_MONTH}月{_DAY}日{_TIME}",
    "DD.MM.YYYY": rf"{_DAY}\.{_MONTH}\.{_YEAR}{_TIME}",
    "DD/MM/YYYY": f"{_DAY}/{_MONTH}/{_YEAR}{_TIME}",
    "MM/DD/YYYY": f"{_MONTH}/{_DAY}/{_YEAR}{_TIME}",
    "DD-MM-YYYY": f"{_DAY}-{_MONTH}-{_YEAR}{_TIME}",
    "MM-DD-YYYY": f"{_MONTH}-{_DAY}-{_YEAR}{_TIME}",
    "DD Mon YYYY": f"{_DAY}[ -]{_NAME}[ -]{_YEAR}{_TIME}",
    "Mon DD, YYYY": f"{_NAME} {_DAY}, ?{_YEAR}{_TIME}",
}
_DAY_FIRST: Final = frozenset({"DD/MM/YYYY", "DD-MM-YYYY"})
_MONTH_FIRST: Final = frozenset({"MM/DD/YYYY", "MM-DD-YYYY"})

SPACES: Final = "[ \u00a0\u202f\u2009]"  # plain, no-break, narrow no-break, thin


@dataclass(frozen=True, kw_only=True)
class NumberStyle:
    """How numbers are written: the separator of thousands (a regular expression, "" for none) and the decimal mark."""

    thousands: str
    decimal: str

    @property
    def pattern(self) -> str:
        """A regular expression that a whole value must match."""
        digits = r"(?:0|[1-9][0-9]{0,17})"
        if self.thousands:
            digits = rf"(?:{digits}|[1-9][0-9]{{0,2}}(?:{self.thousands}[0-9]{{3}}){{1,5}})"
        mark = re.escape(self.decimal)
        exponent = rf"[0-9]{{1,8}}(?:{mark}[0-9]+[eE][+-]?|[eE][+-])[0-2]?[0-9]{{1,2}}"
        return rf"-?(?:{digits}(?:{mark}[0-9]*)?|{mark}[0-9]+|{exponent})"


PLAIN: Final = NumberStyle(thousands="", decimal=".")
POINT: Final = "1234.5"
NUMBER_STYLES: Final[dict[str, NumberStyle]] = {
    POINT: PLAIN,
    "1,234.5": NumberStyle(thousands=",", decimal="."),
    "1.234,5": NumberStyle(thousands=r"\.", decimal=","),
    "1 234,5": NumberStyle(thousands=SPACES, decimal=","),
    "1 234.5": NumberStyle(thousands=SPACES, decimal="."),
    "1'234.5": NumberStyle(thousands="['’]", decimal="."),
}


@dataclass(frozen=True, kw_only=True)
class Habits:
    """What the unambiguous columns of a file, and its delimiter, say about the others."""

    delimiter: str | None = None
    decimals: frozenset[str] = frozenset()
    date_orders: frozenset[str] = frozenset()

    def add(self, reading: Reading) -> Habits:
        """These habits and what one more column shows."""
        if len(reading.styles) == 1:
            style = reading.styles[0]
            if style in NUMBER_STYLES and reading.telling:
                return replace(self, decimals=self.decimals | {NUMBER_STYLES[style].decimal})
            if style in _DAY_FIRST | _MONTH_FIRST:
                return replace(self, date_orders=self.date_orders | {"day" if style in _DAY_FIRST else "month"})
        return self


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The ways in which every value of a text column can be read, each giving other values than the rest."""

    styles: tuple[str, ...] = ()
    telling: bool = False  # a single style is no accident: 5 and 03/03/2025 read alike in several


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A column after its type was found."""

    type: ColumnType
    values: pl.Series
    format: str | None = None
    notes: tuple[Note, ...] = ()


def clean(values: pl.Series) -> pl.Series:
    """Make cells that hold nothing but white space null. Nothing else is trimmed."""
    return values.set(values.str.strip_chars() == "", None)


def readings(values: pl.Series) -> Reading:
    """All styles in which every value of this cleaned text column can be read."""
    trimmed = values.drop_nulls().str.strip_chars()
    if trimmed.is_empty():
        return Reading()
    numbers = [name for name, style in NUMBER_STYLES.items() if _all_match(trimmed, style.pattern)]
    if numbers:
        return _number_readings(trimmed, numbers)
    dates = [name for name, pattern in DATE_FORMATS.items() if _all_match(trimmed, pattern)]
    parsed = {name: parse_dates(trimmed, name) for name in dates}
    whole = {name: found for name, found in parsed.items() if found.null_count() == 0}
    styles = _distinct(whole)
    return Reading(styles=styles, telling=len(styles) == len(whole))


def infer_all(columns: dict[str, pl.Series], delimiter: str | None) -> dict[str, Typed]:
    """The types of all cleaned text columns of a sheet, by name; what is certain in one helps with the others."""
    found = {name: readings(values) for name, values in columns.items()}
    habits = Habits(delimiter=delimiter)
    for reading in found.values():
        habits = habits.add(reading)
    return {name: infer(name, values, found[name], habits) for name, values in columns.items()}


def infer(name: str, values: pl.Series, reading: Reading, habits: Habits) -> Typed:
    """The type of a cleaned text column and its values in that type."""
    present = values.drop_nulls()
    if present.is_empty():
        return Typed(type="empty", values=values)
    style, doubt = _choose(reading, habits)
    if style in NUMBER_STYLES:
        return _as_numbers(values, style)
    if style is not None:
        return _as_dates(values, style)
    if doubt:
        text = (
            f"The values of {quoted(name)}, such as {quoted(present[0])}, can be read in two ways ({doubt}), "
            "and nothing in the file tells which; they are kept as text."
        )
        return Typed(type="text", values=values, notes=(Note(kind="ambiguous", text=text, column=name),))
    if present.str.to_lowercase().is_in(["true", "false"]).all():
        return Typed(type="boolean", values=values.str.to_lowercase() == "true")
    return as_text(name, values)


def as_text(name: str, values: pl.Series) -> Typed:
    """Text, or mixed when some of the values are numbers or dates and some are not."""
    present = values.drop_nulls()
    numbers = _matches(present, *(style.pattern for style in NUMBER_STYLES.values()))
    dates = _matches(present, DATE_FORMATS["YYYY-MM-DD"])
    others = present.filter(~numbers & ~dates)
    counts = {"number": int(numbers.sum()), "date": int(dates.sum()), "other value": len(others)}
    codes = counts["date"] == 0 and bool(others.str.contains(r"^\s*[0-9]+\s*$").all())  # 01234 beside 90210
    if codes or sum(count > 0 for count in counts.values()) < 2:
        return Typed(type="text", values=values, notes=_kept_as_text(name, present))
    found = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in counts.items() if count]
    example = f", such as {quoted(others[0])}" if len(others) else ""
    text = f"{quoted(name)} mixes {' and '.join(found)}{example}; it is kept as text and not calculated with."
    note = Note(kind="mixed column", text=text, column=name, count=len(others) or len(present))
    return Typed(type="mixed", values=values, notes=(note,))


def _kept_as_text(name: str, present: pl.Series) -> tuple[Note, ...]:
    """A note when all values look like figures that are not read as such."""
    doubts = {_PERCENTAGE: "percentages are not read as numbers", _BARE_EXPONENT: "they may be numbers or part numbers"}
    for pattern, doubt in doubts.items():
        if len(present) and bool(present.str.contains(pattern).all()):
            example = quoted(present[0])
            text = f"{quoted(name)} is kept as text and not calculated with: values such as {example}; {doubt}."
            return (Note(kind="kept as text", text=text, column=name, count=len(present)),)
    return ()


def parse_numbers(values: pl.Series, style: str) -> pl.Series:
    """Text in one number style as doubles, or as integers when none has a decimal mark or an exponent."""
    form = NUMBER_STYLES[style]
    plain = values.str.strip_chars()
    if form.thousands:
        plain = plain.str.replace_all(form.thousands, "")
    plain = plain.str.replace(form.decimal, ".", literal=True)
    if not plain.str.contains("[.eE]").any():
        return plain.cast(pl.Int64)
    return positive_zero(plain.cast(pl.Float64))


def positive_zero(values: pl.Series) -> pl.Series:
    """Doubles without -0.0, which would be a group of its own beside 0."""
    return values.set(values == 0, 0.0)


def divided(values: pl.Series, by: float) -> pl.Series:
    """Exact division. By a single number polars multiplies with its reciprocal, and 108 / 3.6 is not 30 then."""
    return values.cast(pl.Float64) / pl.repeat(by, len(values), dtype=pl.Float64, eager=True)


def parse_dates(values: pl.Series, form: str) -> pl.Series:
    """Text in one date format as datetimes; null where the day does not exist."""
    groups = values.str.strip_chars().str.extract_groups(f"^{DATE_FORMATS[form]}$").struct
    part = {field: groups.field(field) for field in groups.fields}
    month = part["m"] if "m" in part else _month_numbers(part["n"])
    frame = pl.DataFrame({"y": part["y"], "m": month, "d": part["d"]} | {k: part[k] for k in "HMSf"})
    padded = [pl.col(k).fill_null("0").str.zfill(2) for k in "mdHMS"]
    fraction = pl.col("f").fill_null("0").str.pad_end(6, "0")
    text = pl.format("{}-{}-{} {}:{}:{}.{}", pl.col("y"), *padded, fraction)
    return frame.select(text.str.to_datetime("%Y-%m-%d %H:%M:%S%.6f", strict=False, time_unit="us")).to_series()


def only_dates(values: pl.Series) -> bool:
    """Whether no value of a datetime column has a time of day."""
    return bool((values.dt.date().cast(pl.Datetime("us")) == values.cast(pl.Datetime("us"))).all())


def _as_numbers(values: pl.Series, style: str) -> Typed:
    numbers = parse_numbers(values, style)
    return Typed(type="integer" if numbers.dtype == pl.Int64 else "number", values=numbers, format=style)


def _as_dates(values: pl.Series, form: str) -> Typed:
    moments = parse_dates(values, form)
    if only_dates(moments):
        return Typed(type="date", values=moments.dt.date(), format=form)
    return Typed(type="datetime", values=moments, format=form)


def _number_readings(trimmed: pl.Series, names: list[str]) -> Reading:
    separated = bool(trimmed.str.contains(rf"[.,'’]|{SPACES}").any())
    return Reading(styles=_distinct({name: parse_numbers(trimmed, name) for name in names}), telling=separated)


def _distinct(parsed: dict[str, pl.Series]) -> tuple[str, ...]:
    """Leave out styles that give the same values as one before them."""
    kept: dict[str, pl.Series] = {}
    for name, values in parsed.items():
        if not any(values.cast(other.dtype).equals(other) for other in kept.values()):
            kept[name] = values
    return tuple(kept)


def _choose(reading: Reading, habits: Habits) -> tuple[str | None, str]:
    """The style to read in, or no style and what the doubt is about."""
    styles = reading.styles
    if len(styles) <= 1:
        return (styles[0] if styles else None), ""
    if styles[0] not in NUMBER_STYLES:
        order = next(iter(habits.date_orders)) if len(habits.date_orders) == 1 else None
        wanted = {"day": _DAY_FIRST, "month": _MONTH_FIRST}.get(order or "", frozenset())
        return next((s for s in styles if s in wanted), None), " or ".join(styles)
    decimal = _usual_decimal(styles, habits)
    return next((s for s in styles if NUMBER_STYLES[s].decimal == decimal), None), " or ".join(styles)


def _usual_decimal(styles: tuple[str, ...], habits: Habits) -> str | None:
    """The decimal mark of the file's other columns; else what the delimiter tells.

    With "," between cells a number is written 1,234.5, since 1.234,5 belongs to files with ";". With a tab, "1.234"
    comes from a program and is a decimal number, while "1,234" may be either.
    """
    if len(habits.decimals) == 1:
        return next(iter(habits.decimals))
    if habits.decimals or habits.delimiter == ";":
        return None
    return "." if habits.delimiter == "," or styles[0] == POINT else None


def _month_numbers(names: pl.Series) -> pl.Series:
    numbers = {month: str(number) for number, month in enumerate(MONTHS, 1)}
    return names.str.to_lowercase().replace_strict(numbers, default=None, return_dtype=pl.String)


def _all_match(values: pl.Series, pattern: str) -> bool:
    # Most columns fail on their first value: look at a few before all.
    return all(bool(part.str.contains(f"^(?:{pattern})$").all()) for part in (values.head(5), values))


def _matches(values: pl.Series, *patterns: str) -> pl.Series:
    either = "|".join(f"(?:{re.sub(r'[?]P<[A-Za-z]>', '?:', pattern)})" for pattern in patterns)
    return values.str.strip_chars().str.contains(f"^(?:{either})$")
