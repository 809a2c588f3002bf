"""A typed question as one SELECT in DuckDB's SQL. What each part means is written in `tools.questions`.

The inner SELECT renames what is needed to k0, k1 … (keys) and v (measure), so that a column called like an alias, a
keyword or a piece of SQL can do nothing; only there do names from the file appear, quoted.
"""

from __future__ import annotations

from typing import Any, Final

from tools.question_types import OUTLIER_ROWS, Filter, GroupKey, OutputColumn, Question, Scalar, TypedQuestion
from tools.sheet import unique_names

_IN_WORDS: Final = {"min": "minimum", "max": "maximum", "count_distinct": "distinct count"}
_SIMPLE: Final = {
    "median": "quantile_cont(CAST(t.v AS DOUBLE), 0.5)",
    "min": "min(t.v)",
    "max": "max(t.v)",
    "count_distinct": "count(DISTINCT t.v)",
}
_DATE_PARTS: Final = {
    "year": "printf('%04d', year({0}))",
    "quarter": "printf('%04d-Q%d', year({0}), quarter({0}))",
    "month": "printf('%04d-%02d', year({0}), month({0}))",
    "week": "printf('%04d-W%02d', isoyear({0}), week({0}))",
}

_OUTLIERS: Final = """\
WITH {picked} AS MATERIALIZED (
  SELECT t.* FROM (
    SELECT row_number() OVER () AS place, {keys}{measure} AS v, {keep} AS keep FROM {sheet} AS s
  ) AS t WHERE t.keep
), {bounds} AS (
  SELECT u.n, u.q1 - 1.5 * (u.q3 - u.q1) AS low, u.q3 + 1.5 * (u.q3 - u.q1) AS high FROM (
    SELECT q.n,
      q.x[floor(q.h1)::BIGINT + 1]
        + (q.x[ceil(q.h1)::BIGINT + 1] - q.x[floor(q.h1)::BIGINT + 1]) * (q.h1 - floor(q.h1)) AS q1,
      q.x[floor(q.h3)::BIGINT + 1]
        + (q.x[ceil(q.h3)::BIGINT + 1] - q.x[floor(q.h3)::BIGINT + 1]) * (q.h3 - floor(q.h3)) AS q3
    FROM (
      SELECT count(p.v) AS n, (count(p.v) - 1) * 0.25::DOUBLE AS h1, (count(p.v) - 1) * 0.75::DOUBLE AS h3,
        list_sort(list(p.v::DOUBLE) FILTER (WHERE p.v IS NOT NULL)) AS x
      FROM {picked} AS p
    ) AS q
  ) AS u
)
SELECT count(p.place) OVER () AS "outliers", count(p.place) OVER () / nullif(b.n, 0) AS "share",
  b.low AS "lower bound", b.high AS "upper bound", p.place AS "row"{shown}, p.v AS {value}
FROM {bounds} AS b LEFT JOIN {picked} AS p ON p.v < b.low OR p.v > b.high
ORDER BY greatest(b.low - p.v, p.v - b.high) DESC NULLS LAST, p.place ASC
LIMIT {limit}"""


def columns_of(question: Question) -> list[str]:
    """The names of the answer's columns, in order; empty for free SQL, where only the answer tells."""
    if "sql" in question:
        return []
    if question["aggregate"] == "missing":
        return ["column", "missing", "rows", "share"]
    keys = [_key_name(key) for key in question["group"]]
    if question["aggregate"] == "outliers":
        bounds = ["outliers", "share", "lower bound", "upper bound", "row"]
        return unique_names([*bounds, *keys, str(question["measure"])])
    return unique_names([*keys, value_name(question)])


def value_name(question: TypedQuestion) -> str:
    """What the value of a question is called: "sum of revenue", "count of rows"."""
    aggregate = question["aggregate"]
    return f"{_IN_WORDS.get(aggregate, aggregate)} of {question['measure'] or 'rows'}"


def output_columns(question: TypedQuestion, profile: dict[str, Any]) -> list[OutputColumn]:
    """The names and types of the answer's columns, in order."""
    types = _column_types(question, profile)
    return [{"name": n, "type": t} for n, t in zip(columns_of(question), types, strict=True)]


def compile_sql(question: Question, profile: dict[str, Any]) -> str:
    """One SELECT that answers a validated question; free SQL stays as it was written."""
    if "sql" in question:
        return question["sql"]
    if question["aggregate"] == "missing":
        return _missing(question, profile)
    if question["aggregate"] == "outliers":
        return _outliers(question, profile)
    return _grouped(question, profile)


def identifier(name: str) -> str:
    """A name in double quotes, as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Scalar, column_type: str) -> str:
    """A value as SQL of the column's type."""
    if column_type == "boolean":
        return "true" if value else "false"
    if column_type in ("integer", "number"):
        return str(value) if isinstance(value, int) else f"CAST('{value!r}' AS DOUBLE)"
    text = _text(str(value))
    if column_type == "date":
        return f"CAST({text} AS DATE)"
    return f"CAST({text} AS TIMESTAMP)" if column_type == "datetime" else text


def _grouped(question: TypedQuestion, profile: dict[str, Any]) -> str:
    keys = question["group"]
    columns = {c["name"]: c for c in column_profiles(profile, question["sheet"])}
    inner = [f"{_key_sql(key)} AS k{number}" for number, key in enumerate(keys)]
    if question["measure"] is not None:
        inner.append(f"s.{identifier(question['measure'])} AS v")
    names = columns_of(question)
    outer = [f"t.k{number} AS {identifier(names[number])}" for number in range(len(keys))]
    outer.append(f"{_aggregate(question, columns)} AS {identifier(names[-1])}")
    lines = [
        f"SELECT {', '.join(outer)}",
        f"FROM (SELECT {', '.join(inner) or '1'} {_from(question, columns)}) AS t",
    ]
    if keys:
        lines.append(f"GROUP BY {', '.join(f't.k{number}' for number in range(len(keys)))}")
        lines.append(f"ORDER BY {_order(question, len(keys))}")
    return "\n".join(lines + _limit(question["limit"]))


def _aggregate(question: TypedQuestion, columns: dict[str, dict[str, Any]]) -> str:
    aggregate = question["aggregate"]
    if question["measure"] is None:
        return "count(*)"
    if aggregate == "count":
        return "count(t.v)"
    if aggregate in ("sum", "mean"):
        total = _sum(columns[question["measure"]])
        return total if aggregate == "sum" else f"CAST({total} AS DOUBLE) / nullif(count(t.v), 0)"
    return _SIMPLE[aggregate]


def _sum(column: dict[str, Any]) -> str:
    """An exact sum where the column allows: DuckDB adds integers in 128 bits, and so it adds decimals."""
    if column["type"] == "integer":
        return "sum(t.v)"
    if column.get("decimals") is None:
        return "fsum(t.v)"
    return f"CAST(sum(CAST(t.v AS DECIMAL(38, {column['decimals']}))) AS DOUBLE)"


def _key_sql(key: GroupKey) -> str:
    column = f"s.{identifier(key['column'])}"
    if key["by"] == "value":
        return column
    if key["by"] == "day":
        return f"CAST({column} AS DATE)"
    return _DATE_PARTS[key["by"]].format(column)


def _key_name(key: GroupKey) -> str:
    return key["column"] if key["by"] == "value" else f"{key['column']} ({key['by']})"


def _order(question: TypedQuestion, keys: int) -> str:
    direction = question["order"]["direction"].upper()
    if question["order"]["by"] == "group":
        return ", ".join(f"{place} {direction} NULLS LAST" for place in range(1, keys + 1))
    ties = [f"{place} ASC NULLS LAST" for place in range(1, keys + 1)]
    return ", ".join([f"{keys + 1} {direction} NULLS LAST", *ties])


def _limit(limit: int | None) -> list[str]:
    return [] if limit is None else [f"LIMIT {limit}"]


def _from(question: TypedQuestion, columns: dict[str, dict[str, Any]]) -> str:
    conditions = [_condition(f, columns[f["column"]]["type"]) for f in question["filter"]]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"FROM {identifier(question['sheet'])} AS s{where}"


def _condition(condition: Filter, column_type: str) -> str:
    column, op, value = f"s.{identifier(condition['column'])}", condition["op"], condition["value"]
    if op in ("is_null", "is_not_null"):
        return f"{column} {op.replace('_', ' ').upper()}"
    if isinstance(value, list):
        return f"{column} IN ({', '.join(literal(v, column_type) for v in value)})"
    assert value is not None, f"{op} without a value passed validation"
    if op == "contains":
        return f"contains({column}, {literal(value, column_type)})"
    return f"{column} {'IS DISTINCT FROM' if op == '!=' else op} {literal(value, column_type)}"


def _missing(question: TypedQuestion, profile: dict[str, Any]) -> str:
    columns = {c["name"]: c for c in column_profiles(profile, question["sheet"])}
    shown = [question["measure"]] if question["measure"] is not None else list(columns)
    counts = ", ".join(f"count(*) - count(s.{identifier(name)})" for name in shown)
    direction = question["order"]["direction"].upper()
    by_place = question["order"]["by"] == "group"
    lines = [
        'SELECT t.name AS "column", t.missing AS "missing", t.n AS "rows", t.missing / nullif(t.n, 0) AS "share"',
        f"FROM (SELECT unnest([{', '.join(map(_text, shown))}]) AS name, unnest(c.missing) AS missing, c.n AS n,",
        f"unnest(range({len(shown)})) AS place",
        f"FROM (SELECT [{counts}] AS missing, count(*) AS n {_from(question, columns)}) AS c) AS t",
        f"ORDER BY {f't.place {direction}' if by_place else f't.missing {direction}, t.place ASC'}",
    ]
    return "\n".join(lines + _limit(question["limit"]))


def _outliers(question: TypedQuestion, profile: dict[str, Any]) -> str:
    """Quantiles come from the sorted list by the formula of the definition, so that both computations round alike."""
    columns = {c["name"]: c for c in column_profiles(profile, question["sheet"])}
    assert question["measure"] is not None, "outliers without a measure passed validation"
    names = [identifier(name) for name in columns_of(question)]
    keys = [f"s.{identifier(key['column'])} AS k{number}" for number, key in enumerate(question["group"])]
    conditions = [f"coalesce({_condition(f, columns[f['column']]['type'])}, false)" for f in question["filter"]]
    picked, bounds = unique_names([*(s["name"] for s in profile["sheets"]), "picked", "bounds"])[-2:]
    fields = {
        "picked": identifier(picked),
        "bounds": identifier(bounds),
        "sheet": identifier(question["sheet"]),
        "measure": f"s.{identifier(question['measure'])}",
        "keys": "".join(f"{key}, " for key in keys),
        "keep": " AND ".join(conditions) or "true",
        "shown": "".join(f", p.k{number} AS {name}" for number, name in enumerate(names[5:-1])),
        "value": names[-1],
        "limit": question["limit"] or OUTLIER_ROWS,
    }
    return _OUTLIERS.format(**fields)


def column_profiles(profile: dict[str, Any], sheet: str) -> list[dict[str, Any]]:
    """The columns of a sheet as the profile describes them."""
    return next(s["columns"] for s in profile["sheets"] if s["name"] == sheet)


def _column_types(question: TypedQuestion, profile: dict[str, Any]) -> list[str]:
    types = {c["name"]: _output_type(c["type"]) for c in column_profiles(profile, question["sheet"])}
    measure = types.get(question["measure"] or "", "integer")
    if question["aggregate"] == "missing":
        return ["text", "integer", "integer", "number"]
    keys = [_key_type(key, types) for key in question["group"]]
    if question["aggregate"] == "outliers":
        return ["integer", "number", "number", "number", "integer", *keys, measure]
    return [*keys, _value_type(question["aggregate"], measure)]


def _key_type(key: GroupKey, types: dict[str, str]) -> str:
    if key["by"] == "value":
        return types[key["column"]]
    return "date" if key["by"] == "day" else "text"


def _value_type(aggregate: str, measure: str) -> str:
    if aggregate in ("count", "count_distinct"):
        return "integer"
    return "number" if aggregate in ("mean", "median") else measure


def _output_type(column_type: str) -> str:
    return "text" if column_type in ("mixed", "empty") else column_type


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
