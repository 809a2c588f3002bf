"""The second way to an answer: a typed question computed again, without SQL.

The first way is SQL made by `tools.questions`, run by DuckDB on the first read of the input. This one takes a second
read of it, filters and groups with polars, and does its arithmetic in Python. Both follow the text at the top of
`tools.questions`, neither follows the other, and they share no code: what they agree on is not one mistake made twice.

Free SQL has no second way. It can only be run again on the second read: *re-executed*, not *recomputed*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias, TypedDict, cast

import polars as pl

from tools.compare import Difference, compare
from tools.query import DEFAULT, Limits, QueryServer, TableFile
from tools.query_values import GREATEST_INTEGER, JsonScalar
from tools.question_types import OutputColumn, TypedQuestion
from tools.recompute_rows import group_key, row_mask

__all__ = ["Difference", "Recomputed", "compare", "recompute", "reexecute"]

Cell: TypeAlias = str | int | float | bool | date | datetime | None

LISTED_OUTLIERS: Final = 5
WORDS: Final = {"min": "minimum", "max": "maximum", "count_distinct": "distinct count"}

# Wide enough for the exact sum of any doubles, whose digits lie between 10^308 and 10^-343.
EXACT: Final = Context(prec=800)
# By so much of the sum of absolute values may SQL's sum be wrong when it is not exact, whatever they cancel out to.
COMPENSATED: Final = 1e-15


class Recomputed(TypedDict):
    """An answer, and what comparing another one with it needs (`tools.compare`).

    `rows` are all rows in order; `limit` says how many of them the question asks for. `floors` has one number per row:
    how far its value may be off in absolute terms, because large numbers cancelled out in it. `by_value` says that the
    rows are ordered by their value, the last column.
    """

    columns: list[OutputColumn]
    rows: list[list[JsonScalar]]
    limit: int | None
    floors: list[float]
    by_value: bool


class Answered(TypedDict):
    """One row before it becomes JSON: its cells, and how far its value may be off."""

    cells: list[Cell]
    floor: float


def recompute(question: TypedQuestion, tables: Mapping[str, pl.DataFrame]) -> Recomputed:
    """The answer to a validated question from the tables of the second read, by sheet name."""
    table = tables[question["sheet"]].with_columns(pl.selectors.datetime().dt.cast_time_unit("us"))
    mask = row_mask(question["filter"], table)
    kept = table.filter(mask)
    if question["aggregate"] == "missing":
        return _missing(question, kept)
    if question["aggregate"] == "outliers":
        return _outliers(question, kept, [number + 1 for number in mask.arg_true().to_list()])
    return _grouped(question, kept)


def reexecute(queries: QueryServer, sql: str, tables: Sequence[TableFile], limits: Limits = DEFAULT) -> dict[str, Any]:
    """Run free SQL once more, over the parquet files of the second read; the result as JSON (`QueryResult.to_json`)."""
    return queries.run(tables, sql, limits).to_json()


# ── one value per group ──


def _grouped(question: TypedQuestion, kept: pl.DataFrame) -> Recomputed:
    aggregate = AGGREGATES[question["aggregate"]]
    answered: list[Answered] = []
    for keys, rows, values in _groups(question, kept):
        value = rows if question["measure"] is None else aggregate(values)
        answered.append(Answered(cells=[*keys, value], floor=_floor(question["aggregate"], values)))
    order, count = question["order"], len(question["group"])
    backwards = order["direction"] == "desc"
    if order["by"] == "value":
        answered = _sorted(_sorted(answered, range(count), False), [count], backwards)
    else:
        answered = _sorted(answered, range(count), backwards)
    return _result(_grouped_columns(question, kept), answered, question["limit"], order["by"] == "value")


def _groups(question: TypedQuestion, kept: pl.DataFrame) -> list[tuple[list[Cell], int, list[Cell]]]:
    """Of each group its keys, how many rows it has, and the measure's values without nulls."""
    names = [f"key {position}" for position in range(len(question["group"]))]
    keys = [group_key(key).alias(name) for key, name in zip(question["group"], names, strict=True)]
    measure = pl.lit(None) if question["measure"] is None else pl.col(question["measure"])
    narrow = kept.select(*keys, measure.alias("measure"), pl.repeat(1, pl.len()).alias("row"))
    if not names:
        return [([], narrow.height, narrow["measure"].drop_nulls().to_list())]
    groups = narrow.group_by(names).agg(pl.len().alias("rows"), pl.col("measure").drop_nulls())
    cells = groups.select(names).rows()
    return [
        (list(row), rows, values)
        for row, rows, values in zip(cells, groups["rows"].to_list(), groups["measure"].to_list(), strict=True)
    ]


def _sum(values: Sequence[Cell]) -> Cell:
    if not values:
        return None
    if all(isinstance(value, int) for value in values):
        return sum(cast("Sequence[int]", values))
    return float(_exact_sum(cast("Sequence[float]", values)))


def _exact_sum(values: Sequence[float]) -> Decimal:
    """The sum of the decimals that the cells show: 0.1 is a tenth here, not the double nearest to it."""
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, Decimal(repr(value)))
    return total


def _mean(values: Sequence[Cell]) -> Cell:
    total = _sum(values)
    return None if total is None else float(cast("float", total)) / len(values)


def _median(values: Sequence[Cell]) -> Cell:
    if not values:
        return None
    low, high = _middle(values)
    return low if low == high else (low + high) / 2


def _middle(values: Sequence[Cell]) -> tuple[float, float]:
    """The two middle values as doubles, which are one and the same when their number is odd."""
    doubles = sorted(float(value) for value in cast("Sequence[float]", values))
    return doubles[(len(doubles) - 1) // 2], doubles[len(doubles) // 2]


def _least(values: Sequence[Cell]) -> Cell:
    return min(cast("Sequence[float]", values), default=None)


def _greatest(values: Sequence[Cell]) -> Cell:
    return max(cast("Sequence[float]", values), default=None)


def _distinct(values: Sequence[Cell]) -> Cell:
    return len(set(values))


AGGREGATES: Final[Mapping[str, Callable[[Sequence[Cell]], Cell]]] = {
    "sum": _sum,
    "mean": _mean,
    "median": _median,
    "min": _least,
    "max": _greatest,
    "count": len,
    "count_distinct": _distinct,
}


def _floor(aggregate: str, values: Sequence[Cell]) -> float:
    """How far SQL's value may be off in absolute terms. Sums, and what is made of them, lose by cancelling out."""
    if aggregate == "median" and values:
        return COMPENSATED * max(map(abs, _middle(values)))
    if aggregate not in ("sum", "mean") or not values or isinstance(values[0], int):
        return 0.0
    floor = sum(COMPENSATED * abs(value) for value in cast("Sequence[float]", values))
    return floor if aggregate == "sum" else floor / len(values)


def _grouped_columns(question: TypedQuestion, kept: pl.DataFrame) -> list[OutputColumn]:
    columns: list[OutputColumn] = []
    for key in question["group"]:
        column, by = key["column"], key["by"]
        name = column if by == "value" else f"{column} ({by})"
        parts = "date" if by == "day" else "text"
        columns.append(OutputColumn(name=name, type=_type(kept, column) if by == "value" else parts))
    aggregate, measure = question["aggregate"], question["measure"]
    name = f"{WORDS.get(aggregate, aggregate)} of {'rows' if measure is None else measure}"
    columns.append(OutputColumn(name=name, type=_value_type(aggregate, kept, measure)))
    return columns


def _value_type(aggregate: str, kept: pl.DataFrame, measure: str | None) -> str:
    if measure is None or aggregate in ("count", "count_distinct"):
        return "integer"
    return "number" if aggregate in ("mean", "median") else _type(kept, measure)


# ── missing ──


def _missing(question: TypedQuestion, kept: pl.DataFrame) -> Recomputed:
    names = kept.columns if question["measure"] is None else [question["measure"]]
    answered: list[Answered] = []
    for name in names:
        missing, rows = kept[name].null_count(), kept.height
        answered.append(Answered(cells=[name, missing, rows, missing / rows if rows else None], floor=0.0))
    backwards = question["order"]["direction"] == "desc"
    if question["order"]["by"] == "value":
        answered = _sorted(answered, [1], backwards)
    elif backwards:
        answered.reverse()
    columns = [
        OutputColumn(name="column", type="text"),
        OutputColumn(name="missing", type="integer"),
        OutputColumn(name="rows", type="integer"),
        OutputColumn(name="share", type="number"),
    ]
    return _result(columns, answered, question["limit"], False)


# ── outliers ──


def _outliers(question: TypedQuestion, kept: pl.DataFrame, numbers: Sequence[int]) -> Recomputed:
    """Rows outside the quartiles by more than 1.5 times their distance; `numbers` are those of the kept rows."""
    measure = cast("str", question["measure"])
    shown = [key["column"] for key in question["group"]]
    values = [None if value is None else float(value) for value in kept[measure].to_list()]
    ordered = sorted(value for value in values if value is not None)
    lower, upper = _bounds(ordered) if ordered else (math.nan, math.nan)
    found = [
        (max(lower - value, value - upper), position)
        for position, value in enumerate(values)
        if value is not None and (value < lower or value > upper)
    ]
    found.sort(key=lambda item: (-item[0], item[1]))
    share = len(found) / len(ordered) if ordered else None
    same: list[Cell] = [len(found), share, *((lower, upper) if ordered else (None, None))]
    details = kept.select(pl.col(name).alias(f"{at}") for at, name in enumerate([*shown, measure]))
    answered = [
        Answered(cells=[*same, numbers[position], *details.row(position)], floor=0.0) for _, position in found
    ] or [Answered(cells=[*same, None, *[None] * details.width], floor=0.0)]
    limit = question["limit"] or LISTED_OUTLIERS
    return _result(_outlier_columns(kept, [*shown, measure]), answered, limit, False)


def _bounds(ordered: Sequence[float]) -> tuple[float, float]:
    low, high = _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    spread = high - low
    return low - 1.5 * spread, high + 1.5 * spread


def _quantile(ordered: Sequence[float], part: float) -> float:
    at = (len(ordered) - 1) * part
    below, above = ordered[math.floor(at)], ordered[math.ceil(at)]
    return below + (above - below) * (at - math.floor(at))


def _outlier_columns(kept: pl.DataFrame, shown: Sequence[str]) -> list[OutputColumn]:
    kinds = {
        "outliers": "integer",
        "share": "number",
        "lower bound": "number",
        "upper bound": "number",
        "row": "integer",
    }
    fixed = [OutputColumn(name=name, type=kind) for name, kind in kinds.items()]
    return [*fixed, *(OutputColumn(name=name, type=_type(kept, name)) for name in shown)]


# ── rows and columns ──


def _sorted(answered: list[Answered], positions: Sequence[int], backwards: bool) -> list[Answered]:
    """Sort by the cells at the positions, the first one first, nulls last in either direction. Stable."""
    for position in reversed(positions):
        present = [row for row in answered if row["cells"][position] is not None]
        absent = [row for row in answered if row["cells"][position] is None]
        # Python keeps equal elements in their order in both directions, which is what "ties by the keys" needs.
        present.sort(key=lambda row, at=position: cast("Any", row["cells"][at]), reverse=backwards)
        answered = present + absent
    return answered


def _result(
    columns: Sequence[OutputColumn], answered: Sequence[Answered], limit: int | None, by_value: bool
) -> Recomputed:
    named = _named_once(columns)
    by_column = [
        _json_column(column, [row["cells"][position] for row in answered]) for position, column in enumerate(named)
    ]
    return Recomputed(
        columns=[column for column, _ in by_column],
        rows=[list(row) for row in zip(*(cells for _, cells in by_column), strict=True)],
        limit=limit,
        floors=[row["floor"] for row in answered],
        by_value=by_value,
    )


def _json_column(column: OutputColumn, cells: Sequence[Cell]) -> tuple[OutputColumn, list[JsonScalar]]:
    """Dates as ISO text; all integers as text ("bigint") when one is too large for JSON; no infinity."""
    if column["type"] == "integer" and any(isinstance(cell, int) and abs(cell) > GREATEST_INTEGER for cell in cells):
        large = OutputColumn(name=column["name"], type="bigint")
        return large, [None if cell is None else str(cell) for cell in cells]
    return column, [_json(cell) for cell in cells]


def _json(cell: Cell) -> JsonScalar:
    if isinstance(cell, date):  # a datetime is one too
        return cell.isoformat()
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell


def _named_once(columns: Sequence[OutputColumn]) -> list[OutputColumn]:
    """A name that is taken, case aside, gets " (2)", " (3)" …, whichever no other column has of its own."""
    given = {column["name"].casefold() for column in columns}
    taken: set[str] = set()
    named: list[OutputColumn] = []
    for column in columns:
        name, number = column["name"], 1
        while name.casefold() in taken or (number > 1 and name.casefold() in given):
            number += 1
            name = f"{column['name']} ({number})"
        taken.add(name.casefold())
        named.append(OutputColumn(name=name, type=column["type"]))
    return named


def _type(table: pl.DataFrame, column: str) -> str:
    """The type of a column in an answer: mixed and empty ones are shown as text."""
    kind = table.schema[column]
    names = {"Int64": "integer", "Float64": "number", "Date": "date", "Datetime": "datetime", "Boolean": "boolean"}
    return names.get(str(kind.base_type()), "text")
