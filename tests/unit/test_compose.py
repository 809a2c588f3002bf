"""The fixed sentences say what the rows prove, never more, and every figure in them is a reference."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_sample import HOSTILE_SHEET, plan, profile, question, result, results
from tools.compose import MOST_KEY_FIGURES, compose_offline, data_notes, key_figures
from tools.draft import check_draft, find_cell
from tools.formatting import column_formats
from tools.sentences import tell

TOTAL = ("sum of revenue", "number")


def words(paragraph, found):
    """A paragraph as a reader sees it."""
    said = ""
    for segment in paragraph:
        match segment:
            case {"text": text} | {"name": text}:
                said += text
            case {"ref": ref}:
                column, value = find_cell(ref, found)
                said += column_formats(found[ref[0]])[column["name"]].show(value)
    return said


def said(asked, answer):
    """The finding and the prose of one answer."""
    told = tell(asked, answer, profile())
    found = {answer["question_id"]: answer}
    return words(told.finding, found), [words(p, found) for p in told.prose]


def grouped(by="value", column="region", **other):
    return question("q1", "x", "sum", "revenue", group=[(column, by)], **other)


def answer(rows, kind="text", key="region", **other):
    return {**result("q1", [(key, kind), TOTAL], rows), **other}


def test_a_total():
    finding, prose = said(question("q1", "x", "sum", "revenue"), result("q1", [TOTAL], [[1234.5]]))
    assert finding == "The total revenue is 1,234.50."
    assert prose == ["Over all rows of the sheet Orders, the total revenue is 1,234.50. Empty cells are left out."]


def test_a_condition_is_said():
    kept = [{"column": "region", "op": "=", "value": "North"}]
    _, prose = said(
        question("q1", "x", "count", None, filter=kept), result("q1", [("count of rows", "integer")], [[7]])
    )
    assert prose == [
        "Over the selected rows of the sheet Orders, the number of rows is 7.",
        "Only the rows that meet the question's conditions are counted.",
    ]


def test_a_trend():
    rows = [["2025-01", 10.0], ["2025-02", 5.0], ["2025-03", 30.0], ["2025-04", 20.0], [None, 1.0]]
    by_group = {"by": "group", "direction": "asc"}
    finding, prose = said(grouped("month", "date", order=by_group), answer(rows, key="date (month)"))
    assert finding == "The total revenue is highest in Mar 2025, at 30."
    assert prose == [
        "From Jan 2025 to Apr 2025, the total revenue rose from 10 to 20.",
        "The total revenue is highest in Mar 2025, at 30, and lowest in Feb 2025, at 5.",
        "For rows without date it is 1.",
    ]


@pytest.mark.parametrize(("last", "words_of_change"), [(20.0, "rose from 10 to 20"), (1.0, "fell from 10 to 1")])
def test_which_way_a_trend_goes_follows_the_dates_not_the_order_of_the_rows(last, words_of_change):
    rows = [["2025-02", last], ["2025-01", 10.0]]
    _, prose = said(grouped("month", "date"), answer(rows, key="date (month)"))
    assert prose[0] == f"From Jan 2025 to Feb 2025, the total revenue {words_of_change}."


def test_a_flat_trend():
    _, prose = said(grouped("year", "date"), answer([["2024", 3.0], ["2025", 3.0]], key="date (year)"))
    assert prose == ["From 2024 to 2025, the total revenue is the same at both ends: 3."]


def test_a_ranking():
    rows = [["a", 40.0], ["b", 30.0], ["c", 20.0], ["d", 10.0], ["e", None]]
    finding, prose = said(grouped(), answer(rows))
    assert finding == "By region, the total revenue is highest for a, at 40."
    assert prose == ["The total revenue is highest for a (40), followed by b (30) and c (20). It is lowest for d (10)."]


def test_of_a_top_five_nothing_is_said_about_the_lowest():
    rows = [["a", 40.0], ["b", 30.0], ["c", 20.0], ["d", 10.0]]
    _, (prose,) = said(grouped(limit=4), answer(rows))
    assert prose == "The total revenue is highest for a (40), followed by b (30) and c (20)."
    _, (bottom,) = said(grouped(limit=4, order={"by": "value", "direction": "asc"}), answer(rows[::-1]))
    assert bottom == "The total revenue is lowest for d (10), followed by c (20) and b (30)."
    nothing, (part,) = said(grouped(limit=4, order={"by": "group", "direction": "asc"}), answer(rows))
    assert (nothing, part) == ("", "The table below shows the first part of the answer.")


@pytest.mark.parametrize("cut", [{"total_rows": 9}, {"truncated": True}])
def test_of_rows_that_were_cut_off_no_end_is_claimed(cut):
    rows = [["2025-01", 10.0], ["2025-02", 5.0]]
    order = {"by": "group", "direction": "asc"}
    finding, prose = said(grouped("month", "date", order=order), answer(rows, key="date (month)", **cut))
    assert (finding, prose) == ("", ["The table below shows the first part of the answer."])


def test_ties_are_shared():
    finding, _ = said(grouped(), answer([["a", 4.0], ["b", 4.0], ["c", 1.0]]))
    assert finding == "By region, the total revenue is highest for a and b, at 4."
    finding, _ = said(grouped(), answer([["a", 4.0], ["b", 4.0]]))
    assert finding == "The total revenue is 4 in every group shown."


def test_latest_and_earliest_for_dates():
    asked = question("q1", "x", "max", "date", group=[("region", "value")])
    rows = [["a", "2025-03-01"], ["b", "2024-01-01"], ["c", "2025-02-01"], ["d", "2024-06-01"]]
    finding, (prose,) = said(asked, result("q1", [("region", "text"), ("maximum of date", "date")], rows))
    assert finding == "By region, the maximum of date is latest for a, on 1 Mar 2025."
    assert prose == (
        "The maximum of date is latest for a (1 Mar 2025), followed by c (1 Feb 2025) and d (1 Jun 2024). "
        "It is earliest for b (1 Jan 2024)."
    )


def test_missing_cells():
    columns = [("column", "text"), ("missing", "integer"), ("rows", "integer"), ("share", "number")]
    rows = [["a", 0, 100, 0.0], ["b", 5, 100, 0.05], ["c", 20, 100, 0.2]]
    finding, prose = said(question("q1", "x", "missing", None), result("q1", columns, rows))
    assert finding == "The column with the most empty cells is c: 20 of 100."
    assert prose[0] == "The column c (20.0%) has the most empty cells, then b (5.0%)."
    finding, _ = said(question("q1", "x", "missing", None), result("q1", columns, rows[:1]))
    assert finding == "No cell of the sheet Orders is empty in the columns looked at."


OUTLIERS = [
    ("outliers", "integer"), ("share", "number"), ("lower bound", "number"), ("upper bound", "number"),
    ("row", "integer"), ("revenue", "number"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "finding", "prose"),
    [
        ([2, 0.02, -5.0, 15.0, 7, 99.0], "2 values of revenue (2.0% of all) lie outside the usual range.",
         "The most extreme is 99, in data row 7."),
        ([1, 0.01, -5.0, 15.0, 7, 99.0], "1 value of revenue (1.0% of all) lies outside the usual range.",
         "Values from -5 to 15 count as usual"),
        ([0, 0.0, -5.0, 15.0, None, None], "No value of revenue lies outside its usual range.", "Values from -5 to 15"),
        ([0, None, None, None, None, None], "", "The column revenue holds no value."),
    ],
)  # fmt: skip
def test_outliers(row, finding, prose):
    found, said_prose = said(question("q1", "x", "outliers", "revenue"), result("q1", OUTLIERS, [row]))
    assert found == finding
    assert any(prose in paragraph for paragraph in said_prose)


def test_no_rows_and_no_values():
    assert said(grouped(), answer([])) == ("", ["No row of the sheet Orders fits this question."])
    nothing = "There is no value from which the total revenue could be computed."
    assert said(grouped(), answer([["a", None]])) == ("", [nothing])


def test_free_sql_is_shown_without_claims():
    asked = {"id": "q1", "text": "x", "sql": "SELECT 1", "chart": "none"}
    assert said(asked, answer([["a", 1.0]])) == ("", ["The table below is the answer of a query written for this."])


# ---- The document ----------------------------------------------------------------------------------------------


def test_the_document_has_a_section_for_each_answer_and_passes_the_check():
    doc = compose_offline(plan(), profile(), results())
    assert [s["question_id"] for s in doc["sections"]] == [f"q{n}" for n in range(1, 8)]
    assert check_draft(doc, profile(), results()) == []
    assert doc == compose_offline(copy.deepcopy(plan()), profile(), results())
    assert doc["unanswered"] == plan()["unanswered"]
    assert doc["language_model"] is None


def test_a_question_without_a_result_has_no_section():
    found = {k: r for k, r in results().items() if k != "q2"}
    doc = compose_offline(plan(), profile(), found)
    assert "q2" not in [s["question_id"] for s in doc["sections"]]
    assert check_draft(doc, profile(), found) == []
    nothing = compose_offline(plan(), profile(), {})
    assert check_draft(nothing, profile(), {}) == []
    assert nothing["summary"] == [[{"text": "No question could be answered from this file."}]]


def test_key_figures_lead_with_the_total_and_are_of_different_kinds():
    figures = key_figures(plan(), profile(), results())
    assert len(figures) == MOST_KEY_FIGURES
    assert [words([f["value"]], results()) for f in figures] == ["4,939,020.70", "Jun 2025", "华东大区", "17"]


def test_sheets_nobody_asked_about_are_named():
    (note,) = data_notes(profile(), plan()["questions"])
    assert words(note, {}) == f"The sheet {HOSTILE_SHEET} was read, but no question was asked of it."
    assert data_notes(profile(), [{"id": "q1", "sql": "SELECT 1"}]) == []


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("Top 3 products", [{"text": "Top 3 products"}]),  # its SQL says LIMIT 3
        ("Q7 products", [{"quote": "Q7 products"}]),
        ("By 目标 2025", [{"text": "By "}, {"name": "目标 2025"}]),
        ("By 目标 20251", [{"quote": "By 目标 20251"}]),
        ("a [[q1:0:x]]", [{"quote": "a [[q1:0:x]]"}]),
    ],
)
def test_a_heading_holds_no_number_that_nobody_can_explain(text, heading):
    changed = plan()
    changed["questions"][3]["text"] = text
    doc = compose_offline(changed, profile(), results())
    assert doc["sections"][3]["heading"] == heading
    assert check_draft(doc, profile(), results(), [text]) == []


KEYS = {"value": "text", "month": "text", "day": "date"}
AMOUNTS = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53))


@st.composite
def answers(draw):
    """A grouped question and rows that fit it."""
    by = draw(st.sampled_from(sorted(KEYS)))
    dates = st.dates().map(lambda d: d.isoformat()[: 7 if by == "month" else 10])
    keys = draw(
        st.lists(st.one_of(st.none(), st.text(max_size=6) if by == "value" else dates), unique=True, max_size=6)
    )
    second = draw(st.booleans())
    group = [("region" if by == "value" else "date", by), *([("order_id", "value")] if second else [])]
    order = {"by": draw(st.sampled_from(["value", "group"])), "direction": draw(st.sampled_from(["asc", "desc"]))}
    aggregate = draw(st.sampled_from(["sum", "mean", "median", "min", "max", "count", "count_distinct"]))
    limit, chart = draw(st.sampled_from([None, 1, 3])), draw(st.sampled_from(["line", "bar", "none"]))
    text = draw(st.sampled_from(["Revenue", "Top 3", "目标 2025"]))
    asked = question("q1", text, aggregate, "revenue", group=group, order=order, limit=limit, chart=chart)
    rows = [[key, *([index] if second else []), draw(AMOUNTS)] for index, key in enumerate(keys)]
    columns = [("key", KEYS[by]), *([("order_id", "integer")] if second else []), ("value", "number")]
    found = result("q1", columns, rows)
    return asked, {**found, "total_rows": len(rows) + draw(st.sampled_from([0, 5])), "truncated": draw(st.booleans())}


@given(answers())
def test_whatever_the_rows_every_number_is_a_reference(pair):
    asked, found = pair
    made = {"title": "Report", "questions": [asked], "unanswered": [], "language_model": None}
    doc = compose_offline(made, profile(), {"q1": found})
    assert check_draft(doc, profile(), {"q1": found}, [asked["text"]]) == []
