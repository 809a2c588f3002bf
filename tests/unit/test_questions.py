"""Questions: what is refused and why, and that the SQL gives the figures one finds by hand, whatever names are."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from tools.errors import QuestionError
from tools.profile import profile
from tools.questions import columns_of, compile_sql, output_columns, validate
from tools.sheet import DTYPES, Column, Sheet, Source, Workbook

SHEET = 'Sales "2025"; DROP TABLE x --'
ROWS = [
    # region, units, price, day, moment, paid, note
    ("North", 1, 0.1, date(2025, 1, 1), datetime(2025, 1, 1, 8), True, "n/a"),
    ("North", 2, 0.2, date(2025, 1, 31), datetime(2025, 1, 31, 9), False, "50% off"),
    ("South", 3, -0.3, date(2025, 3, 5), datetime(2025, 3, 5, 0), True, "it's"),
    (None, 4, 10.0, date(2024, 12, 30), datetime(2024, 12, 30, 23, 59), None, None),
    ("south", None, None, None, None, True, "a_b"),
    ("East", 2**53, 1000.0, date(2025, 3, 6), datetime(2025, 3, 6, 1), True, "x"),
]
TYPES = {
    'the "region"': "text",
    "k0": "integer",
    "v": "number",
    "select": "date",
    "mo\nment": "datetime",
    "paid": "boolean",
    "note {0}'": "mixed",
}
REGION, UNITS, PRICE, DAY, MOMENT, PAID, NOTE = TYPES


def workbook(rows: list[tuple[Any, ...]]) -> Workbook:
    table = pl.DataFrame(
        [pl.Series(name, [row[n] for row in rows], DTYPES[kind]) for n, (name, kind) in enumerate(TYPES.items())]
    )
    columns = tuple(Column(name=name, type=kind, position=n) for n, (name, kind) in enumerate(TYPES.items()))
    sheet = Sheet(name=SHEET, table=table, columns=columns, notes=(), source=Source(index=0, first_row=1))
    return Workbook(name="t", kind="xlsx", sheets=(sheet,))


PROFILE = profile(workbook(ROWS))


def question(aggregate: str, measure: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "q1", "text": "any", "sheet": SHEET, "aggregate": aggregate, "measure": measure, **fields}


def by(*keys: str | tuple[str, str]) -> list[dict[str, str]]:
    return [
        {"column": key, "by": "value"} if isinstance(key, str) else {"column": key[0], "by": key[1]} for key in keys
    ]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("tables") / "t.parquet"
    with duckdb.connect(config={"threads": 1}) as connection:

        def run(rows: list[tuple[Any, ...]], given: dict[str, Any]) -> list[tuple[Any, ...]]:
            book = workbook(rows)
            described = profile(book)
            book.sheets[0].table.write_parquet(path)
            name = SHEET.replace('"', '""')
            connection.execute(f"CREATE OR REPLACE TABLE \"{name}\" AS FROM read_parquet('{path}')")
            whole = validate(given, described)
            answer = connection.execute(compile_sql(whole, described))
            assert [column[0] for column in answer.description or []] == columns_of(whole)
            assert len(output_columns(whole, described)) == len(columns_of(whole))
            return answer.fetchall()

        yield run


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (question("sum", UNITS), [(2**53 + 10,)]),
        (question("sum", PRICE), [(1010.0,)]),
        (question("mean", UNITS), [((2**53 + 10) / 5,)]),
        (question("mean", PRICE), [(202.0,)]),
        (question("median", PRICE), [(0.2,)]),
        (question("min", DAY), [(date(2024, 12, 30),)]),
        (question("max", MOMENT), [(datetime(2025, 3, 6, 1),)]),
        (question("count"), [(6,)]),
        (question("count", PRICE), [(5,)]),
        (question("count_distinct", REGION), [(4,)]),
        (question("count_distinct", PAID), [(2,)]),
    ],
)
def test_one_figure(ask, given, expected):
    assert ask(ROWS, given) == expected


def test_sums_that_cancel_out_are_exactly_nothing(ask):
    rows = [("a", 1, value, None, None, None, None) for value in (0.1, 0.2, -0.3)]
    assert ask(rows, question("sum", PRICE)) == [(0.0,)]
    assert sum((0.1, 0.2, -0.3)) != 0.0  # which is what adding doubles would give


def test_over_no_rows_sums_are_null_and_counts_are_zero(ask):
    nothing = [{"column": REGION, "op": "=", "value": "nowhere"}]
    assert ask(ROWS, question("sum", UNITS, filter=nothing)) == [(None,)]
    assert ask(ROWS, question("mean", PRICE, filter=nothing)) == [(None,)]
    assert ask(ROWS, question("count", filter=nothing)) == [(0,)]
    assert ask(ROWS, question("count", group=by(REGION), filter=nothing)) == []
    assert ask([], question("median", UNITS)) == [(None,)]


def test_groups_keep_null_keys_and_case_and_come_in_full_order(ask):
    assert ask(ROWS, question("count", group=by(REGION))) == [
        ("North", 2),
        ("East", 1),
        ("South", 1),
        ("south", 1),
        (None, 1),
    ]
    order = {"by": "group", "direction": "desc"}
    assert [row[0] for row in ask(ROWS, question("count", group=by(REGION), order=order))] == [
        "south",
        "South",
        "North",
        "East",
        None,
    ]
    order = {"by": "value", "direction": "asc"}
    assert ask(ROWS, question("sum", UNITS, group=by(REGION), order=order, limit=3)) == [
        ("North", 3),
        ("South", 3),
        (None, 4),
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("year", [("2024", 4), ("2025", 2**53 + 6), (None, None)]),
        ("quarter", [("2024-Q4", 4), ("2025-Q1", 2**53 + 6), (None, None)]),
        ("month", [("2024-12", 4), ("2025-01", 3), ("2025-03", 2**53 + 3), (None, None)]),
        ("week", [("2025-W01", 5), ("2025-W05", 2), ("2025-W10", 2**53 + 3), (None, None)]),
    ],
)
@pytest.mark.parametrize("column", [DAY, MOMENT])
def test_parts_of_dates(ask, column, part, expected):
    assert ask(ROWS, question("sum", UNITS, group=by((column, part)))) == expected
    assert columns_of(validate(question("sum", UNITS, group=by((column, part))), PROFILE))[0] == f"{column} ({part})"


def test_days_of_moments_are_dates(ask):
    assert ask(ROWS, question("count", group=by((MOMENT, "day"))))[0] == (date(2024, 12, 30), 1)


@pytest.mark.parametrize(
    ("column", "op", "value", "rows"),
    [
        (REGION, "=", "North", 2),
        (REGION, "!=", "North", 4),  # a missing region is not North
        (REGION, "in", ["South", "East"], 2),
        (REGION, "is_null", None, 1),
        (REGION, "is_not_null", None, 5),
        (REGION, "contains", "o", 4),
        (NOTE, "contains", "%", 1),
        (NOTE, "contains", "_", 1),
        (NOTE, "=", "it's", 1),
        (NOTE, "=", "' OR 1=1 --", 0),
        (UNITS, ">", 2.5, 3),
        (UNITS, "=", 2**53, 1),
        (UNITS, "!=", 1, 5),
        (PRICE, "<=", 0.1, 2),
        (PRICE, "=", 0.3, 0),
        (DAY, ">=", "2025-01-31", 3),
        (DAY, "in", ["2025-01-01", "2024-12-30"], 2),
        (MOMENT, "<", "2025-01-01", 1),
        (MOMENT, "=", "2025-01-01T08:00:00", 1),
        (MOMENT, ">", "2025-03-05T00:00:00.5", 1),
        (PAID, "=", True, 4),
        (PAID, "!=", True, 2),
    ],
)
def test_filters(ask, column, op, value, rows):
    assert ask(ROWS, question("count", filter=[{"column": column, "op": op, "value": value}])) == [(rows,)]


def test_missing_values_by_column_and_of_one(ask):
    answer = ask(ROWS, question("missing"))
    assert answer[0] == (REGION, 1, 6, 1 / 6)
    assert [(row[0], row[1]) for row in answer] == [(name, 1) for name in TYPES]  # as many each: sheet order
    assert ask(ROWS, question("missing", PRICE, filter=[{"column": PAID, "op": "=", "value": True}])) == [
        (PRICE, 1, 4, 0.25)
    ]
    order = {"by": "group", "direction": "desc"}
    assert [row[0] for row in ask(ROWS, question("missing", order=order, limit=2))] == [NOTE, PAID]
    assert ask([], question("missing", PRICE)) == [(PRICE, 0, 0, None)]


def outlier_rows(*values: float | None) -> list[tuple[Any, ...]]:
    return [(f"r{n}", n, value, None, None, None, None) for n, value in enumerate(values)]


def test_outliers_by_hand(ask):
    """Sorted 1 2 3 4 100: quartiles 2 and 4, so the bounds are -1 and 7."""
    rows = outlier_rows(100.0, 1.0, None, 3.0, 2.0, 4.0)
    assert ask(rows, question("outliers", PRICE, group=by(REGION, UNITS))) == [(1, 0.2, -1.0, 7.0, 1, "r0", 0, 100.0)]
    whole = validate(question("outliers", PRICE, group=by(REGION, UNITS)), PROFILE)
    assert columns_of(whole) == ["outliers", "share", "lower bound", "upper bound", "row", REGION, UNITS, PRICE]


def test_outliers_interpolate_and_list_the_most_extreme_first(ask):
    """Sorted -50 1 2 3 4 5 6 60: quartiles 1.75 and 5.25, bounds -3.5 and 10.5; 53.5 below and 49.5 above."""
    rows = outlier_rows(1.0, 60.0, 2.0, 3.0, -57.0, 4.0, 5.0, 6.0)
    answer = ask(rows, question("outliers", PRICE))
    assert answer == [(2, 0.25, -3.5, 10.5, 5, -57.0), (2, 0.25, -3.5, 10.5, 2, 60.0)]
    assert ask(rows, question("outliers", PRICE, limit=1)) == answer[:1]
    rows = outlier_rows(1.0, 60.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    kept = [{"column": UNITS, "op": ">", "value": 0}]
    assert ask(rows, question("outliers", PRICE, filter=kept))[0][4] == 2  # the row in the sheet, not among the kept


def test_without_outliers_there_is_one_row_with_the_bounds(ask):
    assert ask(outlier_rows(1.0, 2.0, 3.0), question("outliers", PRICE)) == [(0, 0.0, 0.0, 4.0, None, None)]
    assert ask(outlier_rows(None), question("outliers", PRICE)) == [(0, None, None, None, None, None)]
    assert ask([], question("outliers", UNITS)) == [(0, None, None, None, None, None)]


def test_names_of_answers_do_not_collide():
    sheet = {"name": "S", "columns": [{"name": n, "type": "integer"} for n in ("Count of rows", "share", "row")]}
    described = {"sheets": [sheet]}
    given = {"id": "q1", "text": "x", "sheet": "S", "aggregate": "count", "group": by("Count of rows")}
    assert columns_of(validate(given, described)) == ["Count of rows", "count of rows (2)"]
    given = {"id": "q1", "text": "x", "sheet": "S", "aggregate": "outliers", "measure": "share", "group": by("row")}
    assert columns_of(validate(given, described))[4:] == ["row", "row (2)", "share (2)"]


def test_sheets_called_like_parts_of_the_query_are_safe(tmp_path: Path):
    with duckdb.connect() as connection:
        for name in ("picked", "bounds"):
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM (VALUES (1), (2), (3), (90)) AS t(x)')
        columns = [{"name": "x", "type": "integer"}]
        described = {"sheets": [{"name": n, "columns": columns} for n in ("picked", "bounds")]}
        for name in ("picked", "bounds"):
            given = {"id": "q1", "text": "x", "sheet": name, "aggregate": "outliers", "measure": "x"}
            whole = validate(given, described)
            assert connection.execute(compile_sql(whole, described)).fetchall()[0][0] == 1


def test_free_sql_stays_as_it_is():
    given = {"id": "q2", "text": "x", "sql": "SELECT 1", "chart": "bar"}
    assert compile_sql(validate(given, PROFILE), PROFILE) == "SELECT 1"
    assert columns_of(validate(given, PROFILE)) == []


def test_a_question_is_completed():
    assert validate(question("sum", UNITS, group=by((DAY, "month")), chart="line"), PROFILE) == {
        **question("sum", UNITS, group=by((DAY, "month")), chart="line"),
        "filter": [],
        "order": {"by": "group", "direction": "asc"},
        "limit": None,
    }
    assert validate(question("count", chart="bar"), PROFILE)["chart"] == "none"
    assert validate(question("count", group=by(REGION)), PROFILE)["order"] == {"by": "value", "direction": "desc"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a text", "must be a JSON object"),
        ({**question("count"), "extra": 1}, 'no field "extra"'),
        ({**question("count"), "sheet": "Nope"}, 'no sheet "Nope"'),
        ({**question("count"), "id": "1"}, 'an id like "q1"'),
        ({**question("count"), "text": " "}, "The text of a question"),
        ({**question("count"), "text": None}, "The text of a question"),
        (question("variance", UNITS), "aggregate cannot be"),
        (question("sum"), "needs a measure"),
        (question("sum", "nope"), 'no column "nope"'),
        (question("sum", REGION), "holds text. Columns for it"),
        (question("mean", NOTE), "text among other values"),
        (question("max", REGION), "cannot be computed"),
        (question("outliers", DAY), "cannot be computed"),
        (question("missing", group=by(REGION)), "cannot be grouped"),
        (question("count", group=by((REGION, "month"))), "cannot be grouped by month"),
        (question("count", group=by((DAY, "decade"))), 'by "decade"'),
        (question("count", group=by(REGION, REGION)), "given twice"),
        (question("count", group=by(REGION, UNITS, PRICE, DAY)), "at most 3"),
        (question("outliers", UNITS, group=by((DAY, "month"))), "by value"),
        (question("count", group="region"), "must be a list"),
        (question("count", group=["region"]), "made of objects"),
        (question("count", filter=[{"column": REGION, "op": "like", "value": "x"}]), "op cannot be"),
        (question("count", filter=[{"column": REGION, "op": "<", "value": "x"}]), "cannot be compared"),
        (question("count", filter=[{"column": UNITS, "op": "contains", "value": "1"}]), "Only text can contain"),
        (question("count", filter=[{"column": UNITS, "op": "=", "value": "1"}]), "takes a number"),
        (question("count", filter=[{"column": UNITS, "op": "=", "value": True}]), "takes a number"),
        (question("count", filter=[{"column": PRICE, "op": ">", "value": float("nan")}]), "takes a number"),
        (question("count", filter=[{"column": REGION, "op": "=", "value": 5}]), "takes text"),
        (question("count", filter=[{"column": PAID, "op": "=", "value": "true"}]), "true or false"),
        (question("count", filter=[{"column": DAY, "op": "=", "value": "2025-02-30"}]), "a date like"),
        (question("count", filter=[{"column": DAY, "op": "=", "value": "2025-02-03T10:00:00"}]), "a date like"),
        (question("count", filter=[{"column": MOMENT, "op": "=", "value": "now()"}]), "a time like"),
        (question("count", filter=[{"column": REGION, "op": "in", "value": []}]), "a list of 1"),
        (question("count", filter=[{"column": REGION, "op": "is_null", "value": 1}]), "takes no value"),
        (question("count", order={"by": "name"}), "The order is"),
        (question("count", limit=0), "whole number from 1"),
        (question("count", limit=True), "whole number from 1"),
        (question("count", chart="pie"), "chart cannot be"),
        ({"id": "q1", "text": "x", "sql": ""}, "The sql of a question"),
        ({"id": "q1", "text": "x", "sql": "SELECT 1", "sheet": SHEET}, 'no field "sheet"'),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(given, words):
    with pytest.raises(QuestionError) as caught:
        validate(given, PROFILE)
    assert words in caught.value.message
    assert "\n" not in caught.value.message
