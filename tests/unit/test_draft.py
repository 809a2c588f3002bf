"""Prose is parsed without inventing anything, and no number passes the check without a reference."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_sample import HOSTILE_SHEET, plan, profile, results
from tools.compose import compose_offline
from tools.draft import check_draft, find_cell, numbers_in, parse_prose

ASKS = ["Top 3 products"]


def document():
    return compose_offline(plan(), profile(), results())


def problems_of(paragraph, **changes):
    doc = {**document(), "summary": [paragraph], **changes}
    return [str(p) for p in check_draft(doc, profile(), results(), ASKS)]


# ---- parse_prose -----------------------------------------------------------------------------------------------


def test_references_and_names_become_segments():
    assert parse_prose("Total of `revenue` is **[[q1:0:sum of revenue]]**, *so far*.", profile()) == [
        [
            {"text": "Total of "},
            {"name": "revenue"},
            {"text": " is "},
            {"ref": ["q1", 0, "sum of revenue"], "strong": True},
            {"text": ", so far."},
        ]
    ]


def test_lists_and_headings():
    assert parse_prose("# Findings\n\n1. one\n2. two\n   still two\n\nend", profile()) == [
        [{"text": "Findings", "strong": True}],
        [{"mark": "bullet"}, {"text": "one"}],
        [{"mark": "bullet"}, {"text": "two still two"}],
        [{"text": "end"}],
    ]


@pytest.mark.parametrize(
    ("written", "column"),
    [("[[q1:0:a:b]]", "a:b"), ("[[q1:0:a]b]]", "a]b"), ("[[q1:0:a]]]", "a]"), ("[[q1:0:**x** `y`]]", "**x** `y`")],
)
def test_a_column_may_hold_what_is_markup_elsewhere(written, column):
    assert parse_prose(written, profile()) == [[{"ref": ["q1", 0, column]}]]


def test_a_name_is_taken_to_the_letter_where_the_difference_is_only_case_or_space():
    assert parse_prose("`REVENUE` ` Orders ` `revenu`", profile()) == [
        [{"name": "revenue"}, {"text": " "}, {"name": "Orders"}, {"text": " "}, {"name": "revenu"}]
    ]


@pytest.mark.parametrize(
    "text", ["<b>x</b>", "[a](http://b)", "&amp;", "| a | b |", "[[q1:x:y]]", "[[q1]]", "![i](j)", "> q"]
)
def test_everything_else_stays_the_text_it_is(text):
    assert parse_prose(text, profile()) == [[{"text": text}]]


@given(st.text(alphabet="aé中 5７½*_#-`\\<&|:>\n+~!"))
def test_no_digit_is_lost_in_parsing(text):
    """So none can hide from the check: each ends in a text or a name ("." and ")" would make numbered lists)."""
    segments = [segment for paragraph in parse_prose(text, profile()) for segment in paragraph]
    kept = " ".join(segment.get("text", "") + segment.get("name", "") for segment in segments)
    assert "".join(numbers_in(kept)) == "".join(numbers_in(text))


# ---- check_draft -----------------------------------------------------------------------------------------------


def test_the_composed_draft_has_no_problem():
    assert check_draft(document(), profile(), results(), ASKS) == []


@pytest.mark.parametrize("number", ["40", "７", "٣", "Ⅶ", "½", "²", "①", "𝟗", "3rd"])
def test_a_number_in_prose_is_refused_whatever_its_script(number):
    (problem,) = problems_of([{"text": f"about {number} of them"}])
    assert problem.startswith(f'Summary, paragraph 1: the number "{numbers_in(number)[0]}" stands in the text')


@pytest.mark.parametrize("words", ["three of them", "三分之一", "threefold", "IV"])
def test_words_are_not_numbers(words):
    assert problems_of([{"text": words}]) == []


def test_a_name_with_digits_is_fine_as_a_name_and_pointed_out_as_text():
    assert problems_of([{"name": "目标 2025"}]) == []
    (problem,) = problems_of([{"text": "the 目标 2025 column"}])
    assert problem.endswith('If you mean the name "目标 2025", put it in backticks.')


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        (["q9", 0, "sum of revenue"], 'there is no result "q9"; the results are "q1", "q2"'),
        (["q1", 1, "sum of revenue"], 'result "q1" has the rows 0 to 0, so it has no row 1'),
        (["q1", -1, "sum of revenue"], "it has no row -1"),
        (["q1", 0, "revenue"], 'result "q1" has no column "revenue"; its columns are "sum of revenue"'),
        (["q1", "0", "sum of revenue"], "not of the form [question, row, column]"),
        (["q1", True, "sum of revenue"], "not of the form [question, row, column]"),
        ("q1", "not of the form [question, row, column]"),
    ],
)
def test_a_reference_must_point_at_a_cell(ref, why):
    (problem,) = problems_of([{"ref": ref}])
    assert why in problem
    assert problems_of([{"ref": ["q1", 0, "sum of revenue"]}]) == []


def test_a_name_must_exist_and_near_ones_are_offered():
    (problem,) = problems_of([{"name": "revenu"}])
    assert problem.endswith('is not the exact name of the file, a sheet or a column. Did you mean "revenue", "region"?')
    assert problems_of([{"name": HOSTILE_SHEET}, {"name": "销售 sales-2025.xlsx"}]) == []


def test_a_failed_reference_is_not_prose():
    (problem,) = problems_of(parse_prose("It is [[q1:first:sum]].", profile())[0])
    assert "is not a reference" in problem


@pytest.mark.parametrize("segment", [{"html": "x"}, {"text": 5}, {"quote": ASKS[0]}, "text", 7, None, {"mark": "star"}])
def test_what_is_no_segment_is_refused_in_prose(segment):
    (problem,) = problems_of([{"text": "so "}, segment])
    assert "is no segment that may stand here" in problem


def test_a_paragraph_that_is_no_list_is_refused():
    assert len(problems_of({"text": "a"})) == 0  # one segment is taken for a paragraph of one
    assert len(problems_of(5)) == 1


def heading_problems(heading):
    doc = document()
    doc["sections"][3]["heading"] = heading
    return [str(p) for p in check_draft(doc, profile(), results(), ASKS)]


def test_a_heading_may_hold_the_numbers_of_its_own_sql_and_no_others():
    assert heading_problems([{"text": "The best 3"}]) == []
    (problem,) = heading_problems([{"text": "Grew by 50 percent"}])
    assert problem.startswith('Section q4, heading: the number "50"')


def test_a_heading_may_quote_what_was_asked_and_nothing_else():
    assert heading_problems([{"quote": "Top 3 products"}]) == []
    (problem,) = heading_problems([{"quote": "Sales grew by 50 percent"}])
    assert problem == 'Section q4, heading: "Sales grew by 50 percent" is quoted, but nobody asked it.'


def test_a_title_may_hold_the_numbers_of_names():
    assert problems_of([{"text": "x"}], title="Sales 2025") == []
    (problem,) = problems_of([{"text": "x"}], title="Sales up 40 percent in 2025")
    assert problem.startswith('Title: the number "40"')


def test_a_reason_may_hold_the_numbers_of_its_ask():
    entry = {"ask": "Why 2031?", "reason": "There is nothing about 2031.", "columns": []}
    assert problems_of([{"text": "x"}], unanswered=[entry]) == []
    (problem,) = problems_of([{"text": "x"}], unanswered=[{**entry, "reason": "It fell by 12 percent."}])
    assert 'the number "12"' in problem


def test_no_answer_is_left_out_and_none_is_shown_twice():
    doc = document()
    dropped = doc["sections"].pop(2)
    assert [str(p) for p in check_draft(doc, profile(), results())] == [
        'Sections: result "q3" has no section; every answer must be shown.'
    ]
    doc["sections"] += [dropped, copy.deepcopy(dropped)]
    assert [str(p) for p in check_draft(doc, profile(), results())] == ['Sections: "q3" has more than one section.']


def test_a_section_and_its_table_need_a_result():
    doc = document()
    doc["sections"][0]["question_id"] = "q0"
    doc["sections"][1]["table"]["result"] = "nowhere"
    found = [str(p) for p in check_draft(doc, profile(), results())]
    assert any(p.startswith("Section q0: there is no such result") for p in found)
    assert 'Section q2: its table shows "nowhere", which is no result.' in found


def test_an_empty_summary_and_title_are_problems():
    doc = {**document(), "title": " ", "summary": []}
    assert [p.where for p in check_draft(doc, profile(), results())] == ["Title", "Summary"]


def test_key_figures_are_checked_too():
    doc = document()
    doc["key_figures"][0]["note"] = [{"text": "up 12"}]
    doc["key_figures"][1]["value"] = {"ref": ["q2", 99, "sum of revenue"]}
    assert [p.where for p in check_draft(doc, profile(), results())] == ["Key figure 1", "Key figure 2"]


def test_find_cell_gives_column_and_value():
    assert find_cell(["q3", 5, "region"], results()) == ({"name": "region", "type": "text"}, None)
