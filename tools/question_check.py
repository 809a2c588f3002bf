"""Does a question fit its workbook? Asked of every question before anything is computed, whoever wrote it.

`validate` takes a JSON value from a language model, a plan or a test and gives a complete question, or raises a
`QuestionError` with one plain sentence that says what does not fit and what there is instead.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any, Final, cast

from tools.errors import QuestionError
from tools.question_types import (
    AGGREGATES,
    BYS,
    CHARTS,
    OPS,
    Aggregate,
    Chart,
    Filter,
    GroupKey,
    Op,
    Order,
    Question,
    SqlQuestion,
    TypedQuestion,
)
from tools.sheet import quoted

MAX_KEYS: Final = 3
MAX_FILTERS: Final = 20
MAX_LIST: Final = 1_000
MAX_LIMIT: Final = 10_000
MAX_TEXT: Final = 2_000
MAX_SQL: Final = 20_000

_TYPED_FIELDS: Final = frozenset(TypedQuestion.__annotations__)
_SQL_FIELDS: Final = frozenset(SqlQuestion.__annotations__)
_NUMBERS: Final = ("integer", "number")
_DATES: Final = ("date", "datetime")
_BEARS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("sum", "mean", "median", "outliers"), _NUMBERS),
    **dict.fromkeys(("min", "max"), (*_NUMBERS, *_DATES)),
}
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")

Columns = dict[str, dict[str, Any]]


def validate(question: object, profile: dict[str, Any]) -> Question:
    """The question, complete and in order, or QuestionError."""
    if not isinstance(question, dict):
        raise QuestionError("A question must be a JSON object with at least id, text and either sheet or sql.")
    raw = cast(dict[str, Any], question)
    fields = _SQL_FIELDS if "sql" in raw else _TYPED_FIELDS
    unknown = sorted(str(field) for field in raw if field not in fields)
    if unknown:
        raise QuestionError(
            f"A question has no field {quoted(unknown[0])}. Its fields are {', '.join(sorted(fields))}."
        )
    return _sql_question(raw) if "sql" in raw else _typed_question(raw, profile)


def _sql_question(raw: dict[str, Any]) -> SqlQuestion:
    return {
        "id": _id(raw),
        "text": _string(raw, "text", MAX_TEXT),
        "sql": _string(raw, "sql", MAX_SQL),
        "chart": _chart(raw),
    }


def _typed_question(raw: dict[str, Any], profile: dict[str, Any]) -> TypedQuestion:
    sheet = _string(raw, "sheet", MAX_TEXT)
    sheets = {s["name"]: s for s in profile["sheets"]}
    if sheet not in sheets:
        raise QuestionError(f"There is no sheet {quoted(sheet)}. The sheets are {_listed(sheets)}.")
    columns: Columns = {c["name"]: c for c in sheets[sheet]["columns"]}
    aggregate = cast(Aggregate, _choice(raw, "aggregate", AGGREGATES))
    group = _group(raw, aggregate, columns)
    chart = _chart(raw)
    return {
        "id": _id(raw),
        "text": _string(raw, "text", MAX_TEXT),
        "sheet": sheet,
        "aggregate": aggregate,
        "measure": _measure(raw, aggregate, columns),
        "group": group,
        "filter": _filters(raw, columns),
        "order": _order(raw, group),
        "limit": _limit(raw),
        "chart": chart if group and aggregate != "outliers" else "none",
    }


def _measure(raw: dict[str, Any], aggregate: Aggregate, columns: Columns) -> str | None:
    measure = raw.get("measure")
    if measure is None:
        if aggregate in ("count", "missing"):
            return None
        raise QuestionError(f"{quoted(aggregate)} needs a measure. The columns are {_listed(columns)}.")
    column = _column(measure, columns)
    allowed = _BEARS.get(aggregate)
    if allowed and column["type"] not in allowed:
        raise QuestionError(
            f"The {aggregate} of {quoted(measure)} cannot be computed, because the column holds {_holds(column)}. "
            f"Columns for it: {_listed([n for n, c in columns.items() if c['type'] in allowed])}."
        )
    return measure


def _group(raw: dict[str, Any], aggregate: Aggregate, columns: Columns) -> list[GroupKey]:
    keys = _list(raw, "group", MAX_KEYS)
    if keys and aggregate == "missing":
        raise QuestionError("Missing values are counted per column and cannot be grouped. Leave the group empty.")
    group = [_group_key(key, columns) for key in keys]
    if len({(key["column"], key["by"]) for key in group}) < len(group):
        raise QuestionError("The same group key is given twice. Leave one out.")
    if aggregate == "outliers" and any(key["by"] != "value" for key in group):
        raise QuestionError("The columns shown with outliers are shown by value. Use by = value.")
    return group


def _group_key(key: object, columns: Columns) -> GroupKey:
    fields = _object(key, "group", ("column", "by"))
    column = _column(fields.get("column"), columns)
    by = fields.get("by", "value")
    if by not in BYS:
        raise QuestionError(f"A group cannot be made by {quoted(str(by))}. It can be by {', '.join(BYS)}.")
    if by != "value" and column["type"] not in _DATES:
        raise QuestionError(
            f"{quoted(column['name'])} cannot be grouped by {by}, because the column holds {_holds(column)}. "
            f"Columns for it: {_listed([n for n, c in columns.items() if c['type'] in _DATES])}."
        )
    return {"column": column["name"], "by": by}


def _filters(raw: dict[str, Any], columns: Columns) -> list[Filter]:
    return [_filter(condition, columns) for condition in _list(raw, "filter", MAX_FILTERS)]


def _filter(condition: object, columns: Columns) -> Filter:
    fields = _object(condition, "filter", ("column", "op", "value"))
    column = _column(fields.get("column"), columns)
    op, value = cast(Op, _choice(fields, "op", OPS)), fields.get("value")
    if op in ("is_null", "is_not_null"):
        if value is not None:
            raise QuestionError(f"The filter {op} on {quoted(column['name'])} takes no value. Leave it out.")
    elif op == "in":
        _check_list(value, column)
    else:
        _check_operator(op, column)
        _check_value(value, column, op)
    return {"column": column["name"], "op": op, "value": value}


def _check_operator(op: str, column: dict[str, Any]) -> None:
    if op in ("<", "<=", ">", ">=") and column["type"] not in (*_NUMBERS, *_DATES):
        raise QuestionError(f"{quoted(column['name'])} cannot be compared with {op}: it holds {_holds(column)}.")
    if op == "contains" and column["type"] not in ("text", "mixed", "empty"):
        raise QuestionError(f"Only text can contain something; {quoted(column['name'])} holds {_holds(column)}.")


def _check_list(value: object, column: dict[str, Any]) -> None:
    if not isinstance(value, list) or not 1 <= len(cast(list[object], value)) <= MAX_LIST:
        raise QuestionError(f"The filter in on {quoted(column['name'])} takes a list of 1 to {MAX_LIST:,} values.")
    for entry in cast(list[object], value):
        _check_value(entry, column, "in")


def _check_value(value: object, column: dict[str, Any], op: str) -> None:
    kind = column["type"]
    if kind in _NUMBERS:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300
    elif kind == "boolean":
        fits = isinstance(value, bool)
    elif kind in _DATES:
        fits = isinstance(value, str) and _is_moment(value, kind)
    else:
        fits = isinstance(value, str)
    if not fits:
        wanted = {"boolean": "true or false", "date": "a date like 2025-01-31"}.get(kind)
        wanted = wanted or {"datetime": "a time like 2025-01-31T12:00:00"}.get(kind)
        wanted = wanted or ("a number" if kind in _NUMBERS else "text")
        shown = quoted(str(value))
        raise QuestionError(f"{quoted(column['name'])} {op} {shown} does not fit: the column takes {wanted}.")


def _is_moment(value: str, kind: str) -> bool:
    if not _MOMENT.fullmatch(value) or (kind == "date" and len(value) > 10):
        return False
    try:
        date.fromisoformat(value) if kind == "date" else datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _order(raw: dict[str, Any], group: list[GroupKey]) -> Order:
    """As given; else time goes forward and everything else begins with the largest value."""
    given = raw.get("order")
    if given is None:
        timeline = bool(group) and group[0]["by"] != "value"
        return {"by": "group", "direction": "asc"} if timeline else {"by": "value", "direction": "desc"}
    fields = _object(given, "order", ("by", "direction"))
    by, direction = fields.get("by", "value"), fields.get("direction", "desc")
    if by not in ("value", "group") or direction not in ("asc", "desc"):
        raise QuestionError('The order is by "value" or "group", with direction "asc" or "desc".')
    return {"by": by, "direction": direction}


def _limit(raw: dict[str, Any]) -> int | None:
    limit = raw.get("limit")
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise QuestionError(f"The limit must be a whole number from 1 to {MAX_LIMIT:,}, or null for all rows.")
    return limit


def _chart(raw: dict[str, Any]) -> Chart:
    return cast(Chart, _choice({"chart": raw.get("chart") or "none"}, "chart", CHARTS))


def _id(raw: dict[str, Any]) -> str:
    value = raw.get("id")
    if not isinstance(value, str) or not re.fullmatch(r"q[1-9]\d{0,3}", value):
        raise QuestionError('Each question needs an id like "q1".')
    return value


def _choice(raw: dict[str, Any], field: str, allowed: tuple[str, ...]) -> str:
    value = raw.get(field)
    if value not in allowed:
        raise QuestionError(f"The {field} cannot be {quoted(str(value))}. It is one of {', '.join(allowed)}.")
    return value


def _string(raw: dict[str, Any], field: str, most: int) -> str:
    value = raw.get(field)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise QuestionError(f"The {field} of a question must be text of 1 to {most:,} characters.")
    return value


def _list(raw: dict[str, Any], field: str, most: int) -> list[object]:
    value = raw.get(field) or []
    if not isinstance(value, list) or len(cast(list[object], value)) > most:
        raise QuestionError(f"The {field} of a question must be a list of at most {most} entries.")
    return cast(list[object], value)


def _object(value: object, where: str, fields: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or not set(cast(dict[str, Any], value)) <= set(fields):
        raise QuestionError(f"The {where} of a question is made of objects with {' and '.join(fields)}.")
    return cast(dict[str, Any], value)


def _column(name: object, columns: Columns) -> dict[str, Any]:
    if not isinstance(name, str) or name not in columns:
        raise QuestionError(f"There is no column {quoted(str(name))}. The columns are {_listed(columns)}.")
    return columns[name]


def _holds(column: dict[str, Any]) -> str:
    return {
        "mixed": "text among other values",
        "boolean": "true and false",
        "empty": "nothing",
        "number": "numbers",
    }.get(column["type"], f"{column['type']}s" if column["type"] != "text" else "text")


def _listed(names: Any, most: int = 12) -> str:
    shown = [quoted(name) for name in list(names)[:most]]
    return (", ".join(shown) + (" …" if len(list(names)) > most else "")) or "none"
