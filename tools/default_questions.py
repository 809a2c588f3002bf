"""What to ask of a workbook when nobody asked anything: at most five questions, by the roles of its columns.

The sheet with most to tell (a measure, a date, a category, many rows) is asked for its main measure over time, by
category and in all, for missing values and for outliers. Without a measure its rows are counted.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from tools import ask_words
from tools.ask_match import is_among
from tools.question_types import Aggregate, By, Chart, GroupKey, Order, TypedQuestion

MOST_GROUPS: Final = 50  # a category with more different values makes no readable chart
LISTED_GROUPS: Final = 10
_MOST_LABELS: Final = 2  # columns that tell which row an outlier is

Column = dict[str, Any]


def default_questions(profile: dict[str, Any]) -> list[TypedQuestion]:
    """At most five questions to the most telling sheet, with the ids q1, q2 …; none when no sheet has rows."""
    sheet = max(profile["sheets"], key=_worth, default=None)
    if sheet is None or not sheet["rows"]:
        return []
    measure = main_measure(sheet["columns"])
    questions = [_over_time(sheet, measure), _by_category(sheet, measure), _in_all(sheet, measure)]
    questions += [_missing(sheet), _outliers(sheet, measure)]
    asked = [question for question in questions if question is not None]
    for number, question in enumerate(asked, 1):
        question["id"] = f"q{number}"
    return asked


def main_measure(columns: list[Column]) -> Column | None:
    """The measure to look at first: one that is added up, by its name; else one with decimals; else any."""
    measures = [column for column in columns if column["role"] == "measure"]
    ranks = [
        [c for c in measures if is_among(c["name"], word) and not is_among(c["name"], ask_words.NOT_ADDED_UP)]
        for word in ask_words.ADDED_UP.split("|")
    ]
    decimals = [c for c in measures if c["type"] == "number" and not is_among(c["name"], ask_words.NOT_ADDED_UP)]
    others = [c for c in measures if not is_among(c["name"], ask_words.NOT_ADDED_UP)]
    return next((found[0] for found in [*ranks, decimals, others, measures] if found), None)


def time_part(column: Column) -> By:
    """Days, months, quarters or years, so that a column's range makes a line of some fifty points at most."""
    if column["min"] is None:
        return "month"
    first, last = (date.fromisoformat(column[end][:10]) for end in ("min", "max"))
    days = (last - first).days
    if days <= 45:
        return "day"
    return "month" if days <= 4 * 366 else "quarter" if days <= 12 * 366 else "year"


def chart_for(group: list[GroupKey]) -> Chart:
    """A line over time, bars for one other key, no chart otherwise."""
    if len(group) != 1:
        return "none"
    return "bar" if group[0]["by"] == "value" else "line"


def _worth(sheet: dict[str, Any]) -> tuple[bool, int]:
    """How much a sheet has to tell; max() takes the first of equals, so the workbook's order decides."""
    roles = {column["role"] for column in sheet["columns"]}
    return ("measure" in roles, sheet["rows"] * (1 + len(roles & {"measure", "date", "category"})))


def _aggregate(measure: Column | None) -> Aggregate:
    if measure is None:
        return "count"
    return "mean" if is_among(measure["name"], ask_words.NOT_ADDED_UP) else "sum"


def _value_words(measure: Column | None) -> str:
    if measure is None:
        return "Number of rows"
    return f"{'Average' if _aggregate(measure) == 'mean' else 'Total'} {measure['name']}"


def _over_time(sheet: dict[str, Any], measure: Column | None) -> TypedQuestion | None:
    column = next((c for c in sheet["columns"] if c["role"] == "date" and c["distinct"] > 1), None)
    if column is None:
        return None
    by = time_part(column)
    key: GroupKey = {"column": column["name"], "by": by}
    text = f"{_value_words(measure)} by {by} of {column['name']}"
    order: Order = {"by": "group", "direction": "asc"}
    return _question(sheet, text, _aggregate(measure), measure, group=[key], order=order, chart="line")


def _by_category(sheet: dict[str, Any], measure: Column | None) -> TypedQuestion | None:
    categories = [c for c in sheet["columns"] if c["role"] == "category" and 2 <= c["distinct"] <= MOST_GROUPS]
    if not categories:
        return None
    column = next((c for c in categories if c["type"] == "text"), categories[0])
    text = f"{_value_words(measure)} by {column['name']}"
    limit = LISTED_GROUPS if column["distinct"] > LISTED_GROUPS else None
    group: list[GroupKey] = [{"column": column["name"], "by": "value"}]
    return _question(sheet, text, _aggregate(measure), measure, group=group, limit=limit, chart="bar")


def _in_all(sheet: dict[str, Any], measure: Column | None) -> TypedQuestion:
    return _question(sheet, f"{_value_words(measure)} in all", _aggregate(measure), measure)


def _missing(sheet: dict[str, Any]) -> TypedQuestion:
    return _question(sheet, "Missing values by column", "missing", None)


def _outliers(sheet: dict[str, Any], measure: Column | None) -> TypedQuestion | None:
    if measure is None:
        return None
    columns = sheet["columns"]
    labels = [c for role in ("identifier", "date", "category") for c in columns if c["role"] == role][:_MOST_LABELS]
    group: list[GroupKey] = [{"column": c["name"], "by": "value"} for c in labels]
    return _question(sheet, f"Unusual values of {measure['name']}", "outliers", measure, group=group)


def _question(
    sheet: dict[str, Any],
    text: str,
    aggregate: Aggregate,
    measure: Column | None,
    *,
    group: list[GroupKey] | None = None,
    order: Order | None = None,
    limit: int | None = None,
    chart: Chart = "none",
) -> TypedQuestion:
    return {
        "id": "q1",
        "text": text,
        "sheet": sheet["name"],
        "aggregate": aggregate,
        "measure": measure["name"] if measure else None,
        "group": group or [],
        "filter": [],
        "order": order or {"by": "value", "direction": "desc"},
        "limit": limit,
        "chart": chart,
    }
