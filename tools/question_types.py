"""The shape of a question: JSON values, as they stand in the plan and in a checkpoint.

What a question means is written in `tools.questions`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, TypedDict, get_args

Aggregate = Literal["sum", "mean", "median", "min", "max", "count", "count_distinct", "missing", "outliers"]
By = Literal["value", "year", "quarter", "month", "week", "day"]
Op = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "is_null", "is_not_null", "in"]
Direction = Literal["asc", "desc"]
Chart = Literal["line", "bar", "none"]
Scalar: TypeAlias = str | int | float | bool

AGGREGATES: Final = get_args(Aggregate)
BYS: Final = get_args(By)
OPS: Final = get_args(Op)
CHARTS: Final = get_args(Chart)
OUTLIER_ROWS: Final = 5  # how many of the most extreme rows are listed when a question sets no limit


class GroupKey(TypedDict):
    """One column to group by, and how: by its value, or by a part of its date."""

    column: str
    by: By


class Filter(TypedDict):
    """One condition on a column. `value` is null for is_null and is_not_null, and a list for in."""

    column: str
    op: Op
    value: Scalar | list[Scalar] | None


class Order(TypedDict):
    """What the rows of the answer are ordered by."""

    by: Literal["value", "group"]
    direction: Direction


class TypedQuestion(TypedDict):
    """A question that can be computed in two independent ways."""

    id: str
    text: str
    sheet: str
    aggregate: Aggregate
    measure: str | None
    group: list[GroupKey]
    filter: list[Filter]
    order: Order
    limit: int | None
    chart: Chart


class SqlQuestion(TypedDict):
    """A question a language model wrote as one SELECT over the sheets. It can only be executed again."""

    id: str
    text: str
    sql: str
    chart: Chart


Question: TypeAlias = TypedQuestion | SqlQuestion


class OutputColumn(TypedDict):
    """Name and type of one column of an answer."""

    name: str
    type: str
