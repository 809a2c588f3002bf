"""What is said of an answer: fixed sentences by kind of question, every figure a reference.

What no result holds (a growth rate, a share of the total) is not said, and a sentence is only written when the rows at
hand prove it: of a "top five" the lowest is not the lowest of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tools.draft_types import KeyFigure, Paragraph, Profile, RefSegment, Result, Scalar, Segment
from tools.formatting import Number, as_number
from tools.question_types import Question, TypedQuestion

LISTED: Final = 5  # items of a list in prose

_MEASURES: Final = {
    "sum": "total ",
    "mean": "average ",
    "median": "median ",
    "min": "minimum of ",
    "max": "maximum of ",
    "count": "number of values of ",
    "count_distinct": "number of different values of ",
}


def say(*parts: str | Segment) -> Paragraph:
    """A paragraph from words and other segments."""
    return [{"text": part} if isinstance(part, str) else part for part in parts]


def name_of(name: str) -> Segment:
    """A name of the file, a sheet or a column."""
    return {"name": name}


def ref_to(result: Result, row: int, column: int) -> RefSegment:
    """A reference to a cell by its position."""
    return {"ref": [result["question_id"], row, result["columns"][column]["name"]]}


def join(items: Sequence[Paragraph]) -> Paragraph:
    """Items with commas, and "and" before the last."""
    joined: Paragraph = []
    for index, item in enumerate(items):
        if index:
            joined += say(" and " if index == len(items) - 1 else ", ")
        joined += item
    return joined


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is said of one answer: a line for the summary, the section's prose, and a figure for the top."""

    kind: str
    finding: Paragraph
    prose: list[Paragraph]
    figure: KeyFigure | None = None


def tell(question: Question, result: Result, profile: Profile) -> Told:
    """What can be said of the answer to a question."""
    if "sql" in question:
        return Told(kind="other", finding=[], prose=[say("The table below is the answer of a query written for this.")])
    if not result["rows"]:
        nothing = say("No row of the sheet ", name_of(question["sheet"]), " fits this question.")
        return Told(kind="other", finding=[], prose=[nothing])
    if question["aggregate"] == "missing":
        return _missing(question, result)
    if question["aggregate"] == "outliers":
        return _outliers(question, result)
    answer = Answer(question=question, result=result)
    if not answer.ranked:
        nothing = say("There is no value from which the ", *answer.measure, " could be computed.")
        return Told(kind="other", finding=[], prose=[nothing])
    if not question["group"]:
        return _total(answer)
    return _trend(answer) if _is_trend(question, profile) else _ranking(answer)


def _is_trend(question: TypedQuestion, profile: Profile) -> bool:
    if len(question["group"]) != 1:
        return False
    key = question["group"][0]
    columns = next((s["columns"] for s in profile["sheets"] if s["name"] == question["sheet"]), [])
    dates = [c["name"] for c in columns if c["type"] in {"date", "datetime"}]
    return key["by"] != "value" or key["column"] in dates or question["chart"] == "line"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The rows of an aggregate: group keys first, the value last."""

    question: TypedQuestion
    result: Result

    @property
    def measure(self) -> Paragraph:
        """What was computed, in words."""
        column = self.question["measure"]
        return say("number of rows") if column is None else say(_MEASURES[self.question["aggregate"]], name_of(column))

    @cached_property
    def ranked(self) -> list[int]:
        """The rows that have a value, highest first; of equal ones the first row first."""
        rows = [row for row in range(len(self.result["rows"])) if self.amount(row) is not None]
        return sorted(rows, key=lambda row: self.amount(row) or 0, reverse=True)

    @property
    def partial(self) -> bool:
        """Whether there are, or may be, groups that are not among the rows."""
        count, limit = len(self.result["rows"]), self.question["limit"]
        return self.result["truncated"] or count < self.result["total_rows"] or (limit is not None and count >= limit)

    def knows(self, end: str) -> bool:
        """Whether the highest ("desc") or lowest ("asc") of the rows is that of all groups."""
        order = self.question["order"]
        return not self.partial or (order["by"] == "value" and order["direction"] == end)

    @property
    def dates(self) -> bool:
        """Whether the values are dates (the minimum or maximum of a date column)."""
        return self.result["columns"][-1]["type"] in {"date", "datetime"}

    def word(self, end: str) -> str:
        """What the first ("desc") or the last ("asc") of the values from high to low is called."""
        return {"desc": "latest", "asc": "earliest"}[end] if self.dates else {"desc": "highest", "asc": "lowest"}[end]

    def amount(self, row: int) -> Number | None:
        """The value of a row as a number that can be compared."""
        value = self.result["rows"][row][-1]
        if self.dates:
            return None if value is None else int("".join(c for c in str(value)[:19] if c.isdigit()).ljust(14, "0"))
        return as_number(value)

    def value(self, row: int) -> RefSegment:
        """A reference to the value of a row."""
        return ref_to(self.result, row, len(self.result["columns"]) - 1)

    def key(self, row: int) -> Paragraph:
        """What a row is called: references to its keys; "rows without region" where there is none."""
        keys = self.question["group"]
        parts = [
            say("rows without ", name_of(key["column"]))
            if self.cell(row, i) is None
            else say(ref_to(self.result, row, i))
            for i, key in enumerate(keys)
        ]
        return [segment for i, part in enumerate(parts) for segment in (*(say(", ") if i else []), *part)]

    def cell(self, row: int, column: int) -> Scalar:
        """One value."""
        return self.result["rows"][row][column]

    @property
    def condition(self) -> list[Paragraph]:
        """A paragraph that says that not all rows are counted, if so."""
        return (
            [say("Only the rows that meet the question's conditions are counted.")] if self.question["filter"] else []
        )


def _total(answer: Answer) -> Told:
    row, question = answer.ranked[0], answer.question
    value, sheet = answer.value(row), name_of(question["sheet"])
    over = "the selected rows" if question["filter"] else "all rows"
    prose = say("Over ", over, " of the sheet ", sheet, ", the ", *answer.measure, " is ", value, ".")
    if question["measure"] is not None:
        prose += say(" Empty cells are left out.")
    return Told(
        kind="total",
        finding=say("The ", *answer.measure, " is ", value, "."),
        prose=[prose, *answer.condition],
        figure={"label": _capital(answer.measure), "value": value, "note": say("sheet ", sheet)},
    )


def _capital(words: Paragraph) -> Paragraph:
    match words:
        case [{"text": str(first)}, *rest]:
            return [{"text": first[:1].upper() + first[1:]}, *rest]
        case _:
            return words


def _trend(answer: Answer) -> Told:
    key = answer.question["group"][0]
    at = {"value": "at ", "day": "on "}.get(key["by"], "in ")
    unit = {"value": "value", "day": "day"}.get(key["by"], key["by"])
    if answer.result["columns"][0]["type"] in {"date", "datetime"}:
        at, unit = "on ", "day"
    dated = [row for row in answer.ranked if answer.cell(row, 0) is not None]
    if not dated:
        return _ranking(answer)
    top, bottom = dated[0], dated[-1]
    highest = say(f"{answer.word('desc')} ", at, *answer.key(top), ", at ", answer.value(top))
    told: list[Paragraph] = []
    if not answer.partial and len(dated) > 1:
        told.append(_first_and_last(answer, dated, at, unit))
    ends = [*([highest] if answer.knows("desc") else [])]
    if answer.knows("asc") and answer.amount(bottom) != answer.amount(top):
        ends.append(say(f"{answer.word('asc')} ", at, *answer.key(bottom), ", at ", answer.value(bottom)))
    if ends:
        told.append([*say("The ", *answer.measure, " was "), *join(ends), *say(".")])
    told += _undated(answer) + answer.condition
    known = answer.knows("desc")
    return Told(
        kind="trend",
        finding=say("The ", *answer.measure, " was ", *highest, ".") if known else [],
        prose=told or [say("The table below shows the first part of the answer.")],
        figure=_top(f"{answer.word('desc').capitalize()} {unit}", answer, top) if known and len(dated) > 1 else None,
    )


def _first_and_last(answer: Answer, dated: list[int], at: str, unit: str) -> Paragraph:
    ordered = sorted(dated, key=lambda row: _sortable(answer.cell(row, 0)))
    first, last = ordered[0], ordered[-1]
    before, after = answer.amount(first) or 0, answer.amount(last) or 0
    change = _change(answer, before, after)
    start = say(f"The first {unit} is ", *answer.key(first), ", with ", answer.value(first), ". ")
    end = say(f"The last {unit} is ", *answer.key(last), ", with ", answer.value(last), f": {change} at the start.")
    return [*start, *end]


def _change(answer: Answer, before: Number, after: Number) -> str:
    more, less = ("later than", "earlier than") if answer.dates else ("more than", "less than")
    return more if after > before else less if after < before else "the same as"


def _sortable(key: Scalar) -> tuple[float, str]:
    return (0.0, key) if isinstance(key, str) else (float(key or 0), "")


def _undated(answer: Answer) -> list[Paragraph]:
    rows = [row for row in answer.ranked if answer.cell(row, 0) is None]
    return [say("For ", *answer.key(row), " it is ", answer.value(row), ".") for row in rows]


def _top(label: str, answer: Answer, row: int) -> KeyFigure:
    """A figure that names the first of a ranking, with its value below."""
    return {
        "label": say(label),
        "value": ref_to(answer.result, row, 0),
        "note": say(*answer.measure, " ", answer.value(row)),
    }


def _ranking(answer: Answer) -> Told:
    ranked, (top, bottom) = answer.ranked, (answer.ranked[0], answer.ranked[-1])
    lowest_first = not answer.knows("desc")
    if lowest_first:
        ranked, top = ranked[::-1], bottom
    word = answer.word("asc" if lowest_first else "desc")
    if lowest_first and not answer.knows("asc"):
        return Told(kind="other", finding=[], prose=[say("The table below shows the first part of the answer.")])
    tied = [row for row in ranked if answer.amount(row) == answer.amount(top)]
    if len(tied) > 1:
        return _tie(answer, tied, ranked, word)
    finding = say(f"The {word} ", *answer.measure, " is that of ", *answer.key(top), ": ", answer.value(top), ".")
    runners = [say(*answer.key(row), " with ", answer.value(row)) for row in ranked[1:3]]
    prose = say(*_capital(answer.key(top)), f" has the {word} ", *answer.measure, ", ", answer.value(top))
    prose += say("; next ", "are " if len(runners) > 1 else "is ", *join(runners), ".") if runners else say(".")
    if len(ranked) > 3 and answer.knows("asc") and not lowest_first:
        prose += say(f" The {answer.word('asc')} is ", *answer.key(bottom), " with ", answer.value(bottom), ".")
    return Told(kind="ranking", finding=finding, prose=[prose, *answer.condition], figure=_leader(answer, top, word))


def _leader(answer: Answer, top: int, word: str) -> KeyFigure | None:
    if len(answer.question["group"]) != 1 or answer.cell(top, 0) is None or len(answer.ranked) < 2:
        return None
    figure = _top("", answer, top)
    return {**figure, "label": say(f"{word.capitalize()} ", name_of(answer.question["group"][0]["column"]))}


def _tie(answer: Answer, tied: list[int], ranked: list[int], word: str) -> Told:
    if len(tied) == len(ranked):
        finding = say("The ", *answer.measure, " is the same in every group shown: ", answer.value(tied[0]), ".")
    else:
        names = join([answer.key(row) for row in tied[:LISTED]])
        more = " and others" if len(tied) > LISTED else ""
        finding = [*names, *say(f"{more} share the {word} ", *answer.measure, ": ", answer.value(tied[0]), ".")]
    return Told(kind="ranking", finding=finding, prose=[finding, *answer.condition])


# ---- Missing cells and outliers --------------------------------------------------------------------------------


def _missing(question: TypedQuestion, result: Result) -> Told:
    """Columns of the answer: column, missing, rows, share."""
    gaps = [row for row, cells in enumerate(result["rows"]) if (as_number(cells[1]) or 0) > 0]
    gaps.sort(key=lambda row: as_number(result["rows"][row][1]) or 0, reverse=True)
    if not gaps:
        none = say("No cell of the sheet ", name_of(question["sheet"]), " is empty in the columns looked at.")
        return Told(kind="missing", finding=none, prose=[none])

    def line(row: int) -> Paragraph:
        missing, rows, share = (ref_to(result, row, column) for column in (1, 2, 3))
        return say(ref_to(result, row, 0), ": ", missing, " of ", rows, " cells (", share, ")")

    lines: list[Paragraph] = [[{"mark": "bullet"}, *line(row)] for row in gaps[:LISTED]]
    intro = "These columns have empty cells:" if len(gaps) <= LISTED else "The columns with the most empty cells:"
    after = say("Empty cells are left out of totals and averages; they are not taken for zero.")
    return Told(
        kind="missing",
        finding=[*say("Most cells are missing in the column "), *line(gaps[0]), *say(".")],
        prose=[say(intro), *lines, after],
        figure={
            "label": say("Missing in ", ref_to(result, gaps[0], 0)),
            "value": ref_to(result, gaps[0], 1),
            "note": say(ref_to(result, gaps[0], 3), " of its cells"),
        },
    )


def _outliers(question: TypedQuestion, result: Result) -> Told:
    """Columns of the answer: outliers, share, lower bound, upper bound, row, any keys, the measure."""
    column, cells = name_of(question["measure"] or ""), result["rows"][0]
    count, share, lower, upper = (ref_to(result, 0, position) for position in range(4))
    if cells[2] is None:
        none = say("The column ", column, " holds no value.")
        return Told(kind="outliers", finding=[], prose=[none])
    usual = say("Usual is here the range from ", lower, " to ", upper)
    usual += say(": the middle half of the values, and one and a half times its width on either side.")
    if not as_number(cells[0]):
        none = say("No value of ", column, " lies outside its usual range.")
        return Told(kind="outliers", finding=none, prose=[none, usual])
    verb = " value of " if cells[0] == 1 else " values of "
    lies = " lies" if cells[0] == 1 else " lie"
    finding = say(count, verb, column, " (", share, " of all)", lies, " outside the usual range.")
    extreme = say(
        "The most extreme is ", ref_to(result, 0, len(cells) - 1), ", in data row ", ref_to(result, 0, 4), ". "
    )
    advice = say("An unusual value need not be wrong; look at these rows before you rely on a total or an average.")
    return Told(
        kind="outliers",
        finding=finding,
        prose=[usual, [*extreme, *advice]],
        figure={"label": say("Unusual values of ", column), "value": count, "note": say(share, " of all values")},
    )
