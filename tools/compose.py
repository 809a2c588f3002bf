"""The report's words when no language model writes them: fixed sentences by kind of question.

Deterministic, and subject to the same check as any other draft: every figure is a reference. The sentences stand in
`tools.sentences`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tools.draft import is_digit, names_of, numbers_in
from tools.draft_types import Document, KeyFigure, Paragraph, Profile, Result, Results, Section
from tools.question_types import Question
from tools.sentences import Told, name_of, say, tell

TABLE_ROWS: Final = 24  # two years of months
MOST_KEY_FIGURES: Final = 4  # one row of the page

_NO_FINDING: Final = "The answers stand in the sections below."
_FIGURE_ORDER: Final = ("total", "trend", "ranking", "outliers", "missing", "other")


def compose_offline(plan: Mapping[str, Any], profile: Profile, results: Results) -> Document:
    """The document for a plan and its results, written by fixed rules.

    `plan` is {"title", "questions", "unanswered", "language_model"}; `results` are by question id. A question without
    a result has no section.
    """
    names = names_of(profile)
    told = _told(plan, profile, results)
    sections = [_section(question, words, results[question["id"]], names) for question, words in told]
    findings: list[Paragraph] = [[{"mark": "bullet"}, *words.finding] for _, words in told if words.finding]
    return {
        "title": plan["title"],
        "language_model": plan["language_model"],
        "key_figures": key_figures(plan, profile, results),
        "summary": findings or [say(_NO_FINDING if sections else "No question could be answered from this file.")],
        "sections": sections,
        "data_notes": data_notes(profile, plan["questions"]),
        "unanswered": plan["unanswered"],
    }


def key_figures(plan: Mapping[str, Any], profile: Profile, results: Results) -> list[KeyFigure]:
    """The figures for the top of the page, most general first; a second of a kind only where there is room.

    Also for a draft whose words a language model wrote.
    """
    told = sorted((w for _, w in _told(plan, profile, results)), key=lambda words: _FIGURE_ORDER.index(words.kind))
    figures = [(words.kind, words.figure) for words in told if words.figure]
    first = [i for i, (kind, _) in enumerate(figures) if kind not in [k for k, _ in figures[:i]]]
    chosen = [*first, *(i for i in range(len(figures)) if i not in first)][:MOST_KEY_FIGURES]
    return [figures[i][1] for i in sorted(chosen)]


def data_notes(profile: Profile, questions: Sequence[Mapping[str, Any]]) -> list[Paragraph]:
    """The sheets that were read and of which nothing was asked. (The page lists the profile's own notes by itself.)"""
    if any("sql" in question for question in questions):  # free SQL may look at any sheet
        return []
    asked = {question["sheet"] for question in questions}
    silent = [sheet["name"] for sheet in profile["sheets"] if sheet["name"] not in asked]
    return [say("The sheet ", name_of(sheet), " was read, but no question was asked of it.") for sheet in silent]


def _told(plan: Mapping[str, Any], profile: Profile, results: Results) -> list[tuple[Question, Told]]:
    answered: list[Question] = [question for question in plan["questions"] if question["id"] in results]
    return [(question, tell(question, results[question["id"]], profile)) for question in answered]


def _section(question: Question, told: Told, result: Result, names: Sequence[str]) -> Section:
    return {
        "question_id": question["id"],
        "heading": _heading(question["text"], names, result["sql"]),
        "prose": told.prose,
        "table": {"result": question["id"], "max_rows": TABLE_ROWS},
        "chart": question["chart"],
    }


def _heading(text: str, names: Sequence[str], sql: str) -> Paragraph:
    """A question's text as segments: names with digits as names; as a quote when a number is left unexplained."""
    numbered = sorted((n for n in names if numbers_in(n) or "[[" in n), key=len, reverse=True)
    heading: Paragraph = []
    for piece, is_name in _pieces(text, numbered):
        heading.append({"name": piece} if is_name else {"text": piece})
        if not is_name and ("[[" in piece or not set(numbers_in(piece)) <= set(numbers_in(sql))):
            return [{"quote": text}]
    return heading


def _pieces(text: str, names: Sequence[str]) -> list[tuple[str, bool]]:
    """The text cut at the names in it, each piece with whether it is a name. A name does not begin within a number."""
    if not names:
        return [(text, False)]
    pieces: list[tuple[str, bool]] = []
    end = 0
    for found in re.finditer("|".join(map(re.escape, names)), text):
        around = (text[found.start() - 1 : found.start()], found[0][:1]), (found[0][-1:], text[found.end() :][:1])
        if any(a and b and is_digit(a) and is_digit(b) for a, b in around):
            continue
        pieces += [(text[end : found.start()], False), (found[0], True)]
        end = found.end()
    return [piece for piece in [*pieces, (text[end:], False)] if piece[0]]
