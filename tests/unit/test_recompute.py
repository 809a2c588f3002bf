"""A typed question computed without SQL: each sentence of its definition has a figure worked out by hand here."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl
import pytest

from tools.recompute import recompute

SALES = pl.DataFrame(
    {
        "region": ["N", "S", "N", None, "s", "N"],
        "revenue": [10.5, 0.1, None, 0.2, -3.0, 2.0],
        "pieces": [1, 2, 3, None, 5, 2],
        "day": [
            date(2024, 12, 30),
            date(2025, 1, 1),
            date(2025, 3, 31),
            None,
            date(2025, 4, 1),
            date(2025, 1, 31),
        ],
        "at": [datetime(2024, 12, 30, 23, 59, 59, 5), None, None, None, datetime(2025, 1, 1), datetime(2025, 1, 1, 12)],
        "paid": [True, False, None, True, True, False],
        "note": ["50%", "a_b", "A", None, "100", "5"],
        "nothing": pl.Series([None] * 6, dtype=pl.String),
    }
)


def ask(aggregate, measure=None, *, table=SALES, **parts):
    question = {
        "id": "q1",
        "text": "",
        "sheet": "Sales",
        "aggregate": aggregate,
        "measure": measure,
        "group": [{"column": column, "by": by} for column, by in parts.pop("group", [])],
        "filter": [{"column": column, "op": op, "value": value} for column, op, value in parts.pop("filter", [])],
        "order": {"by": parts.pop("by", "group"), "direction": parts.pop("direction", "asc")},
        "limit": parts.pop("limit", None),
        "chart": "none",
    }
    assert not parts
    return recompute(question, {"Sales": table, "Other": pl.DataFrame({"x": [1]})})


def rows(*arguments, **parts):
    answer = ask(*arguments, **parts)
    return answer["rows"][: answer["limit"]]


def columns(*arguments, **parts):
    return [(column["name"], column["type"]) for column in ask(*arguments, **parts)["columns"]]


@pytest.mark.parametrize(
    ("aggregate", "measure", "value", "name", "kind"),
    [
        ("sum", "revenue", 9.8, "sum of revenue", "number"),
        ("sum", "pieces", 13, "sum of pieces", "integer"),
        ("mean", "revenue", 9.8 / 5, "mean of revenue", "number"),
        ("mean", "pieces", 13 / 5, "mean of pieces", "number"),
        ("median", "revenue", 0.2, "median of revenue", "number"),
        ("median", "pieces", 2.0, "median of pieces", "number"),
        ("min", "revenue", -3.0, "minimum of revenue", "number"),
        ("max", "pieces", 5, "maximum of pieces", "integer"),
        ("min", "day", "2024-12-30", "minimum of day", "date"),
        ("max", "at", "2025-01-01T12:00:00", "maximum of at", "datetime"),
        ("min", "at", "2024-12-30T23:59:59.000005", "minimum of at", "datetime"),
        ("count", None, 6, "count of rows", "integer"),
        ("count", "region", 5, "count of region", "integer"),
        ("count_distinct", "region", 3, "distinct count of region", "integer"),
        ("count_distinct", "paid", 2, "distinct count of paid", "integer"),
        ("count", "nothing", 0, "count of nothing", "integer"),
        ("count_distinct", "nothing", 0, "distinct count of nothing", "integer"),
    ],
)
def test_one_value_over_all_rows(aggregate, measure, value, name, kind):
    assert rows(aggregate, measure) == [[value]]
    assert columns(aggregate, measure) == [(name, kind)]


@pytest.mark.parametrize(
    ("aggregate", "measure", "value"),
    [
        ("sum", "revenue", None),
        ("mean", "pieces", None),
        ("median", "revenue", None),
        ("min", "day", None),
        ("count", None, 0),
        ("count", "region", 0),
        ("count_distinct", "region", 0),
    ],
)
def test_no_rows_give_one_row_without_keys_and_none_with_them(aggregate, measure, value):
    nowhere = [("region", "=", "nowhere")]
    assert rows(aggregate, measure, filter=nowhere) == [[value]]
    assert rows(aggregate, measure, filter=nowhere, group=[("region", "value")]) == []


def test_a_sum_is_that_of_the_decimals_rounded_once():
    tenths = pl.DataFrame({"x": [0.1] * 10 + [1e16, -1e16]})
    assert rows("sum", "x", table=tenths) == [[1.0]]
    assert sum([0.1] * 10) != 1.0  # as doubles, one after the other
    assert rows("sum", "x", table=pl.DataFrame({"x": [1e308, 1e308, -1e308]})) == [[1e308]]
    assert rows("sum", "x", table=pl.DataFrame({"x": [5e-324, 5e-324, 1e308, -1e308]})) == [[1e-323]]


def test_integers_of_any_size_are_exact():
    large = pl.DataFrame({"g": ["a", "a", "b"], "x": [2**63 - 1, 2**63 - 1, 1]})
    assert rows("sum", "x", table=large, group=[("g", "value")]) == [["a", "18446744073709551614"], ["b", "1"]]
    assert columns("sum", "x", table=large) == [("sum of x", "bigint")]
    assert rows("max", "x", table=large) == [["9223372036854775807"]]
    assert rows("mean", "x", table=large, filter=[("g", "=", "a")]) == [[float(2**63)]]


def test_the_median_of_an_even_number_of_values_lies_between():
    assert rows("median", "x", table=pl.DataFrame({"x": [4, 1, 3, 2, None]})) == [[2.5]]


# ── groups ──


def test_null_keys_are_a_group_that_comes_last():
    answer = [["N", 3], ["S", 1], ["s", 1], [None, 1]]
    assert rows("count", group=[("region", "value")]) == answer
    assert columns("count", group=[("region", "value")]) == [("region", "text"), ("count of rows", "integer")]
    assert rows("count", group=[("region", "value")], direction="desc") == [*reversed(answer[:3]), answer[3]]


def test_a_group_without_values_has_no_sum():
    assert rows("sum", "revenue", group=[("pieces", "value")], filter=[("pieces", "=", 3)]) == [[3, None]]


@pytest.mark.parametrize(
    ("column", "by", "keys", "kind"),
    [
        ("day", "year", ["2024", "2025", None], "text"),
        ("day", "quarter", ["2024-Q4", "2025-Q1", "2025-Q2", None], "text"),
        ("day", "month", ["2024-12", "2025-01", "2025-03", "2025-04", None], "text"),
        ("day", "week", ["2025-W01", "2025-W05", "2025-W14", None], "text"),
        ("at", "day", ["2024-12-30", "2025-01-01", None], "date"),
        ("at", "year", ["2024", "2025", None], "text"),
        ("at", "value", ["2024-12-30T23:59:59.000005", "2025-01-01T00:00:00", "2025-01-01T12:00:00", None], "datetime"),
        ("paid", "value", [False, True, None], "boolean"),
        ("nothing", "value", [None], "text"),
    ],
)
def test_group_keys(column, by, keys, kind):
    assert [row[0] for row in rows("count", group=[(column, by)])] == keys
    name = column if by == "value" else f"{column} ({by})"
    assert columns("count", group=[(column, by)])[0] == (name, kind)


def test_years_have_four_digits_and_weeks_the_year_they_belong_to():
    old = pl.DataFrame({"d": [date(987, 1, 1), date(2021, 1, 3), date(2020, 12, 31)]})
    assert [row[0] for row in rows("count", table=old, group=[("d", "month")])] == ["0987-01", "2020-12", "2021-01"]
    assert rows("count", table=old, group=[("d", "week")], filter=[("d", ">", "2000-01-01")]) == [["2020-W53", 2]]


def test_several_keys_are_ordered_from_left_to_right():
    both = [("paid", "value"), ("region", "value")]
    assert rows("count", group=both) == [
        [False, "N", 1],
        [False, "S", 1],
        [True, "N", 1],
        [True, "s", 1],
        [True, None, 1],
        [None, "N", 1],
    ]
    assert rows("count", group=both, direction="desc")[:2] == [[True, "s", 1], [True, "N", 1]]


def test_a_name_that_is_taken_gets_a_number():
    table = pl.DataFrame({"Sum of x": ["a"], "x": [1], "d": [date(2025, 1, 1)]})
    keys = [("Sum of x", "value"), ("d", "year"), ("d", "year")]
    assert [name for name, _ in columns("sum", "x", table=table, group=keys)] == [
        "Sum of x",
        "d (year)",
        "d (year) (2)",
        "sum of x (2)",
    ]


# ── order and limit ──


def test_by_value_nulls_come_last_and_ties_follow_the_keys():
    table = pl.DataFrame({"g": ["d", "c", "b", "a", None], "x": [1, 2, 1, None, 1]})
    assert rows("sum", "x", table=table, group=[("g", "value")], by="value") == [
        ["b", 1],
        ["d", 1],
        [None, 1],
        ["c", 2],
        ["a", None],
    ]
    assert rows("sum", "x", table=table, group=[("g", "value")], by="value", direction="desc") == [
        ["c", 2],
        ["b", 1],
        ["d", 1],
        [None, 1],
        ["a", None],
    ]


def test_text_is_ordered_by_code_point():
    table = pl.DataFrame({"g": ["é", "z", "Z", "字", "😀", "\uffff", "a "], "x": [1] * 7})
    keys = [row[0] for row in rows("count", table=table, group=[("g", "value")])]
    assert keys == ["Z", "a ", "z", "é", "字", "\uffff", "😀"]


def test_the_limit_cuts_after_ordering_and_keeps_the_rest_for_comparison():
    answer = ask("count", group=[("region", "value")], by="value", direction="desc", limit=1)
    assert answer["limit"] == 1
    assert answer["rows"] == [["N", 3], ["S", 1], ["s", 1], [None, 1]]


# ── filters ──


@pytest.mark.parametrize(
    ("column", "op", "value", "kept"),
    [
        ("region", "=", "N", [1, 3, 6]),
        ("region", "!=", "N", [2, 4, 5]),
        ("region", "in", ["S", "s", "x"], [2, 5]),
        ("region", "is_null", None, [4]),
        ("region", "is_not_null", None, [1, 2, 3, 5, 6]),
        ("revenue", "<", 0.2, [2, 5]),
        ("revenue", "<=", 0.2, [2, 4, 5]),
        ("revenue", ">", 2, [1]),
        ("revenue", ">=", 2, [1, 6]),
        ("revenue", "!=", 2, [1, 2, 3, 4, 5]),
        ("revenue", "in", [2, 0.1], [2, 6]),
        ("pieces", "=", 2.0, [2, 6]),
        ("pieces", "=", 2.5, []),
        ("pieces", "!=", 2.5, [1, 2, 3, 4, 5, 6]),
        ("pieces", "<", 2.5, [1, 2, 6]),
        ("pieces", "<=", 2.5, [1, 2, 6]),
        ("pieces", ">", 2.5, [3, 5]),
        ("pieces", ">=", 2.5, [3, 5]),
        ("pieces", "in", [1, 2.5, 5.0], [1, 5]),
        ("pieces", "<", 1e300, [1, 2, 3, 5, 6]),
        ("pieces", ">=", -(10**40), [1, 2, 3, 5, 6]),
        ("day", "=", "2025-01-31", [6]),
        ("day", ">", "2025-01-01", [3, 5, 6]),
        ("day", "in", ["2025-01-01", "2024-12-30"], [1, 2]),
        ("at", ">", "2025-01-01", [6]),
        ("at", ">=", "2025-01-01", [5, 6]),
        ("at", "=", "2025-01-01T12:00:00", [6]),
        ("at", "<", "2024-12-30T23:59:59.000006", [1]),
        ("paid", "=", True, [1, 4, 5]),
        ("paid", "!=", True, [2, 3, 6]),
        ("note", "contains", "%", [1]),
        ("note", "contains", "_", [2]),
        ("note", "contains", "a", [2]),
        ("note", "contains", "", [1, 2, 3, 5, 6]),
        ("nothing", "=", "x", []),
        ("nothing", "!=", "x", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_filters(column, op, value, kept):
    numbered = SALES.with_row_index("n", offset=1).with_columns(pl.col("n").cast(pl.Int64))
    answer = rows("count", table=numbered, filter=[(column, op, value)], group=[("n", "value")])
    assert [row[0] for row in answer] == kept


def test_large_integers_are_not_taken_for_their_neighbours():
    large = pl.DataFrame({"x": [2**53, 2**53 + 1, 2**53 + 2]})
    assert rows("count", table=large, filter=[("x", "=", 2**53 + 1)]) == [[1]]
    assert rows("count", table=large, filter=[("x", "<", float(2**53 + 2))]) == [[2]]


def test_all_conditions_must_hold():
    assert rows("count", filter=[("region", "=", "N"), ("paid", "=", True), ("pieces", "<", 9)]) == [[1]]


# ── missing ──


def test_missing_counts_the_empty_cells_of_each_column():
    assert columns("missing") == [("column", "text"), ("missing", "integer"), ("rows", "integer"), ("share", "number")]
    counts = {"region": 1, "revenue": 1, "pieces": 1, "day": 1, "at": 3, "paid": 1, "note": 1, "nothing": 6}
    in_sheet_order = [[name, count, 6, count / 6] for name, count in counts.items()]
    assert rows("missing") == in_sheet_order
    assert rows("missing", direction="desc") == in_sheet_order[::-1]
    assert [row[0] for row in rows("missing", by="value", direction="desc")][:3] == ["nothing", "at", "region"]
    assert [row[0] for row in rows("missing", by="value")][-3:] == ["note", "at", "nothing"]
    assert rows("missing", by="value", direction="desc", limit=1) == [["nothing", 6, 6, 1.0]]


def test_missing_of_one_column_or_of_no_rows():
    assert rows("missing", "at", filter=[("region", "=", "N")]) == [["at", 1, 3, 1 / 3]]
    assert rows("missing", "at", filter=[("region", "=", "nowhere")]) == [["at", 0, 0, None]]


# ── outliers ──

VALUES = pl.DataFrame({"row": list("abcdefghij"), "x": [10, 11, None, 12, 11, 10, 12, 100, -50, 11]})


def test_outliers_lie_outside_the_quartiles_by_more_than_half_as_much_again():
    # sorted -50 10 10 11 11 11 12 12 100: quartiles 10 and 12, spread 2, bounds 7 and 15
    same = [2, 2 / 9, 7.0, 15.0]
    assert rows("outliers", "x", table=VALUES) == [[*same, 8, 100], [*same, 9, -50]]
    assert columns("outliers", "x", table=VALUES) == [
        ("outliers", "integer"),
        ("share", "number"),
        ("lower bound", "number"),
        ("upper bound", "number"),
        ("row", "integer"),
        ("x", "integer"),
    ]


def test_outliers_show_the_columns_that_were_asked_for():
    answer = ask("outliers", "x", table=VALUES, group=[("row", "value"), ("x", "value")], limit=1)
    assert answer["rows"][: answer["limit"]] == [[2, 2 / 9, 7.0, 15.0, 8, "h", 100, 100]]
    assert [column["name"] for column in answer["columns"]][4:] == ["row", "row (2)", "x", "x (2)"]


def test_outliers_are_numbered_by_the_rows_of_the_sheet():
    answer = rows("outliers", "x", table=VALUES, filter=[("row", "!=", "b")])
    assert [row[4] for row in answer] == [8, 9]


def test_at_most_five_outliers_are_listed_and_ties_follow_the_sheet():
    table = pl.DataFrame({"x": [1.0] * 40 + [5.0, 9.0, 5.0, -3.0, 5.0, 5.0, 5.0]})
    answer = rows("outliers", "x", table=table)
    assert [(row[4], row[5]) for row in answer] == [(42, 9.0), (41, 5.0), (43, 5.0), (44, -3.0), (45, 5.0)]
    assert {row[0] for row in answer} == {7}
    assert len(rows("outliers", "x", table=table, limit=100)) == 7


def test_without_outliers_there_is_one_row_that_says_so():
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]})
    assert rows("outliers", "x", table=table) == [[0, 0.0, -0.5, 5.5, None, None]]
    one = pl.DataFrame({"x": [7]})
    assert rows("outliers", "x", table=one) == [[0, 0.0, 7.0, 7.0, None, None]]


def test_without_values_there_are_no_bounds():
    table = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Float64)})
    assert rows("outliers", "x", table=table) == [[0, None, None, None, None, None]]
