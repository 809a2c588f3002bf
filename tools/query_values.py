"""DuckDB's values as JSON scalars.

| DuckDB | column type | value |
|---|---|---|
| whole numbers of every width | integer | number; if any is beyond ±(2^53 - 1): type "bigint", all as text |
| FLOAT, DOUBLE | number | number; NaN and infinity become null, counted in a note |
| DECIMAL | number | number when each one is exactly that decimal; else type "decimal", all as text |
| DATE, TIMESTAMP…, TIME… | date, datetime, time | ISO 8601 text without zone; what has a zone is given in UTC |
| BOOLEAN | boolean | true, false |
| VARCHAR, ENUM, UUID, INTERVAL, BIT, NULL | text | text |
| BLOB, LIST, STRUCT, MAP and other nested ones | – | refused: a table of a report cannot show them |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeAlias

from tools.errors import QueryError

JsonScalar: TypeAlias = str | int | float | bool | None

GREATEST_INTEGER: Final = 2**53 - 1  # JSON numbers are doubles to many readers

_SIGNED: Final = frozenset({"tinyint", "smallint", "integer", "bigint", "hugeint", "bignum"})
_INTEGERS: Final = _SIGNED.union({"utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"})
_TIMESTAMPS: Final = frozenset(["timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp_us"])
_TIMES: Final = frozenset(["time", "time_ns", "time with time zone"])
_TEXTS: Final = frozenset(["varchar", "enum", "uuid", "interval", "bit", "null"])
_ZONED: Final = "timestamp with time zone"


def column_type(duckdb_type: str, name: str) -> str:
    """The type of a column by DuckDB's type id. Raises QueryError ("refused") for one that is no scalar."""
    if duckdb_type in _INTEGERS:
        return "integer"
    if duckdb_type in ("float", "double"):
        return "number"
    if duckdb_type in _TIMESTAMPS or duckdb_type == _ZONED:
        return "datetime"
    if duckdb_type in _TIMES:
        return "time"
    if duckdb_type in _TEXTS:
        return "text"
    if duckdb_type in ("decimal", "date", "boolean"):
        return duckdb_type
    raise QueryError(
        "refused", f'The column "{name}" of the answer holds values of type {duckdb_type}, which a table cannot show.'
    )


def expression(position: int, duckdb_type: str) -> str:
    """How to select the column so that its value reaches Python unharmed (Python's dates end at the year 9999)."""
    column = f"#{position}"
    if duckdb_type == _ZONED:
        column = f"timezone('UTC', {column})"
    if duckdb_type in _INTEGERS or duckdb_type in ("float", "double", "decimal", "boolean"):
        return column
    return f"CAST({column} AS VARCHAR)"


def json_column(kind: str, values: Sequence[object], name: str) -> tuple[str, list[JsonScalar], str | None]:
    """Type, values and a note (or none) of one column of the answer, from its type and the values DuckDB gave."""
    if kind == "integer":
        return _integers(values)
    if kind == "number":
        return _numbers(values, name)
    if kind == "decimal":
        return _decimals(values)
    if kind == "datetime":
        return kind, [None if value is None else _iso_datetime(str(value)) for value in values], None
    if kind == "boolean":
        return kind, [None if value is None else bool(value) for value in values], None
    return kind, [None if value is None else str(value) for value in values], None


def _integers(values: Sequence[object]) -> tuple[str, list[JsonScalar], None]:
    numbers = [value if value is None else int(str(value)) for value in values]
    if any(number is not None and abs(number) > GREATEST_INTEGER for number in numbers):
        return "bigint", [None if number is None else str(number) for number in numbers], None
    return "integer", list(numbers), None


def _numbers(values: Sequence[object], name: str) -> tuple[str, list[JsonScalar], str | None]:
    numbers = [float(value) if isinstance(value, float) and math.isfinite(value) else None for value in values]
    lost = sum(value is not None for value in values) - sum(number is not None for number in numbers)
    return "number", list(numbers), _not_finite(lost, name) if lost else None


def _not_finite(lost: int, name: str) -> str:
    if lost == 1:
        return f'One value of "{name}" is not a finite number and is left empty.'
    return f'{lost} values of "{name}" are not finite numbers and are left empty.'


def _decimals(values: Sequence[object]) -> tuple[str, list[JsonScalar], None]:
    decimals = [value if isinstance(value, Decimal) else None for value in values]
    if all(value is None or Decimal(repr(float(value))) == value for value in decimals):
        return "number", [None if value is None else float(value) for value in decimals], None
    return "decimal", [None if value is None else format(value, "f") for value in decimals], None


def _iso_datetime(text: str) -> str:
    """ "2025-01-02 03:04:05.5" as "2025-01-02T03:04:05.500000", the way Python writes it."""
    date, separator, time = text.partition(" ")
    clock, dot, fraction = time.partition(".")
    if not separator or time.startswith("("):  # infinity, or a year before Christ
        return text
    return f"{date}T{clock}{dot}{fraction.ljust(6, '0') if dot else ''}"
