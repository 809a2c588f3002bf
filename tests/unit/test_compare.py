"""Two answers compared: a planted wrong figure is found, and rounding is not taken for one."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tools.compare import Difference, compare

COLUMNS = [
    {"name": "region", "type": "text"},
    {"name": "orders", "type": "integer"},
    {"name": "sum of revenue", "type": "number"},
]
ROWS = [["N", 3, 1234.5], ["S", 2, 0.0], [None, 1, None]]


def result(rows=ROWS, columns=COLUMNS, total_rows=None, truncated=False):
    total = len(rows) if total_rows is None else total_rows
    return {"columns": deepcopy(columns), "rows": deepcopy(rows), "total_rows": total, "truncated": truncated}


def recomputed(rows=ROWS, columns=COLUMNS, limit=None, floors=None, by_value=False):
    floors = [0.0] * len(rows) if floors is None else floors
    return {
        "columns": deepcopy(columns),
        "rows": deepcopy(rows),
        "limit": limit,
        "floors": floors,
        "by_value": by_value,
    }


def test_equal_answers_agree():
    assert compare(result(), recomputed()) == []
    assert compare(result(), result()) == []


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (0, 0, "n"),
        (0, 0, None),
        (2, 0, ""),
        (0, 1, 4),
        (0, 1, 3.5),
        (0, 1, "three"),
        (2, 1, True),
        (0, 2, 1234.51),
        (0, 2, 1234.5 * (1 + 2e-9)),
        (0, 2, None),
        (0, 2, "1234.6"),
        (0, 2, "much"),
        (1, 2, 1e-300),
        (2, 2, 0.0),
    ],
)
@pytest.mark.parametrize("again", [recomputed(), recomputed(by_value=True), result()], ids=["group", "value", "again"])
def test_a_planted_wrong_figure_is_found(row, column, value, again):
    wrong = result()
    right, wrong["rows"][row][column] = wrong["rows"][row][column], value
    differences = compare(wrong, again)
    assert Difference(row=row, column=COLUMNS[column]["name"], first=value, second=right) in differences


def test_rounding_is_no_difference():
    rounded = result([["N", 3, 1234.5 * (1 + 5e-10)], ["S", 2, -0.0], [None, 1, None]])
    assert compare(rounded, recomputed()) == []
    assert len(compare(rounded, recomputed(), rel_tol=1e-12)) == 1


def test_what_is_left_of_a_cancelled_sum_is_compared_with_a_floor():
    wrong = result([["N", 3, 1e-3]])
    exact = [["N", 3, 0.0]]
    assert len(compare(wrong, recomputed(exact))) == 1
    assert compare(wrong, recomputed(exact, floors=[1e-15 * 2e12])) == []
    assert len(compare(wrong, recomputed(exact, floors=[1e-15 * 2e11]))) == 1


def test_large_integers_and_long_decimals_are_compared_by_value():
    large = [{"name": "n", "type": "bigint"}]
    small = [{"name": "n", "type": "integer"}]
    assert compare(result([["7"]], large), recomputed([[7]], small)) == []
    assert len(compare(result([["9007199254740993"]], large), recomputed([["9007199254740992"]], large))) == 1
    decimal = [{"name": "n", "type": "decimal"}]
    assert compare(result([["0.10"]], decimal), recomputed([[0.1]], [{"name": "n", "type": "number"}])) == []


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (result(columns=COLUMNS[:2]), "The answer has 2 columns, computed again it has 3 columns."),
        (
            result(columns=[*COLUMNS[:2], {"name": "sum of cost", "type": "number"}]),
            '"sum of cost" is "sum of cost (number)", computed again it is "sum of revenue (number)".',
        ),
        (result(ROWS[:2]), "The answer has 2 rows, computed again it has 3 rows."),
        (result([*ROWS, ["x", 1, 1.0]]), "The answer has 4 rows, computed again it has 3 rows."),
        (result(total_rows=4, truncated=True), "The answer has 4 rows, computed again it has 3 rows."),
        (result(ROWS[:2], total_rows=3), "The answer has 2 rows, computed again it has a count of 3."),
        (result([["N", 3, 1.0], *ROWS[1:]]), '"sum of revenue" in row 1 is 1.0, computed again it is 1234.5.'),
        (result([*ROWS[:2], [None, 1, 2.0]]), '"sum of revenue" in row 3 is 2.0, computed again it is empty.'),
    ],
)
def test_a_difference_is_told_in_a_sentence(first, text):
    assert text in [str(difference) for difference in compare(first, recomputed())]


def test_of_a_truncated_answer_the_kept_rows_are_compared():
    assert compare(result(ROWS[:1], total_rows=3, truncated=True), recomputed()) == []
    assert len(compare(result([["N", 4, 1234.5]], total_rows=3, truncated=True), recomputed())) == 1


def test_the_limit_of_the_question_counts():
    assert compare(result(ROWS[:2]), recomputed(limit=2)) == []
    assert len(compare(result(ROWS), recomputed(limit=2))) == 1
    assert compare(result(ROWS), recomputed(limit=10)) == []


def test_the_order_of_rows_counts():
    assert len(compare(result([ROWS[1], ROWS[0], ROWS[2]]), recomputed())) > 1
    assert len(compare(result([ROWS[1], ROWS[0], ROWS[2]]), recomputed(by_value=True))) > 1


def test_rows_with_nearly_equal_values_may_change_places_when_ordered_by_value():
    third = 1 / 3
    exact = [["a", 1, third], ["b", 1, third], ["c", 1, third], ["d", 1, 0.1]]
    mixed = [["b", 1, third * (1 + 1e-16)], ["c", 1, third], ["a", 1, third], ["d", 1, 0.1]]
    floors = [1e-15 * third] * 4
    assert compare(result(mixed), recomputed(exact, floors=floors, by_value=True)) == []
    assert compare(result(mixed), recomputed(exact, floors=floors)) != []
    assert compare(result(mixed), recomputed(exact, by_value=True)) != []  # exact values do not need it
    # also over the limit of the question
    assert compare(result([mixed[1]]), recomputed(exact, limit=1, floors=floors, by_value=True)) == []
    assert compare(result([exact[3]]), recomputed(exact, limit=1, floors=floors, by_value=True)) != []
    # but one row cannot stand for two
    twice = [mixed[0], mixed[0], mixed[2], mixed[3]]
    assert compare(result(twice), recomputed(exact, floors=floors, by_value=True)) != []
