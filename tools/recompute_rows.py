"""Which rows of a table a question looks at, and in which groups: filters and group keys as polars expressions.

Part of the second way to an answer (`tools.recompute`); follows the text at the top of `tools.questions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import polars as pl

from tools.question_types import Filter, GroupKey, Op, Scalar

# Beyond every integer of a column and still an integer for polars: a larger value in a filter compares the same.
FARTHEST: Final = 10**30


def row_mask(filters: Sequence[Filter], table: pl.DataFrame) -> pl.Series:
    """For each row whether all conditions hold on it."""
    every_row = pl.repeat(True, table.height, eager=True)
    for condition in filters:
        every_row &= table.select(_condition(condition, table.schema[condition["column"]])).to_series()
    return every_row


def group_key(key: GroupKey) -> pl.Expr:
    """The key of each row: the column's value, or a part of its date as text ("day" as a date)."""
    column = pl.col(key["column"])
    year = column.dt.year().cast(pl.String).str.zfill(4)
    match key["by"]:
        case "value":
            return column
        case "year":
            return year
        case "quarter":
            return pl.format("{}-Q{}", year, column.dt.quarter())
        case "month":
            return pl.format("{}-{}", year, column.dt.month().cast(pl.String).str.zfill(2))
        case "week":
            iso_year = column.dt.iso_year().cast(pl.String).str.zfill(4)
            return pl.format("{}-W{}", iso_year, column.dt.week().cast(pl.String).str.zfill(2))
        case "day":
            return column.dt.date()


def _condition(condition: Filter, kind: pl.DataType) -> pl.Expr:
    """One condition, true or false, never null: on a null cell only is_null and != hold."""
    column, op, value = pl.col(condition["column"]), condition["op"], condition["value"]
    if op == "is_null":
        return column.is_null()
    if op == "is_not_null":
        return column.is_not_null()
    if op == "!=":
        return ~_holds(column, "=", value, kind).fill_null(False)
    return _holds(column, op, value, kind).fill_null(False)


def _holds(column: pl.Expr, op: Op, value: Scalar | list[Scalar] | None, kind: pl.DataType) -> pl.Expr:
    if op == "in":
        options = value if isinstance(value, list) else []
        return pl.any_horizontal(_holds(column, "=", option, kind) for option in options)
    if op == "contains":
        return column.str.contains(str(value), literal=True)
    if kind == pl.Int64 and isinstance(value, int | float):
        return _integer_holds(column.cast(pl.Int128), op, value)
    return _compared(column, op, pl.lit(_like_the_column(value, kind)))


def _integer_holds(column: pl.Expr, op: Op, value: float) -> pl.Expr:
    """Compare integers with any number exactly; as doubles large ones would be taken for their neighbours."""
    if math.isinf(value) or abs(value) > FARTHEST:
        value = FARTHEST if value > 0 else -FARTHEST
    below = math.floor(value)
    if below == value:
        return _compared(column, op, pl.lit(below, dtype=pl.Int128))
    if op == "=":
        return pl.when(column.is_not_null()).then(False)
    if op in ("<", "<="):
        return column <= pl.lit(below, dtype=pl.Int128)
    return column > pl.lit(below, dtype=pl.Int128)


def _compared(column: pl.Expr, op: Op, value: pl.Expr) -> pl.Expr:
    match op:
        case "=":
            return column == value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case ">=":
            return column >= value
        case _:
            raise AssertionError(f"no comparison: {op}")


def _like_the_column(value: Scalar | list[Scalar] | None, kind: pl.DataType) -> float | bool | str | date | datetime:
    """A question's JSON value as the column's own type."""
    if kind == pl.Float64 and isinstance(value, int | float):
        return float(value)
    if kind == pl.Date:
        return date.fromisoformat(str(value))
    if kind == pl.Datetime:
        return datetime.fromisoformat(str(value))
    if kind == pl.Boolean and isinstance(value, bool):
        return value
    return str(value)
