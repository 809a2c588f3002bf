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

_FIRST_PART: Final = "The table below shows the first part of the answer."

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


def join(items: Sequence[Paragraph], last: str = " and ") -> Paragraph:
    """Items with commas, and "and" before the last."""
    joined: Paragraph = []
    for index, item in enumerate(items):
        if index:
            joined += say(last if index == len(items) - 1 else ", ")
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
        return [segment for i, part in enumerate(parts) for segment in (*(say(" / ") if i else []), *part)]

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
    dated = [row for row in answer.ranked if answer.cell(row, 0) is not None]
    if not dated:
        return _ranking(answer)
    at, unit = _preposition(answer)
    top, bottom = dated[0], dated[-1]
    highest = say(f"{answer.word('desc')} {at}", *answer.key(top), ", at ", answer.value(top))
    lowest = say(f"{answer.word('asc')} {at}", *answer.key(bottom), ", at ", answer.value(bottom))
    known, differ = answer.knows("desc"), answer.amount(bottom) != answer.amount(top)
    ends = [*([highest] if known else []), *([lowest] if answer.knows("asc") and differ else [])]
    told: list[Paragraph] = []
    if not answer.partial and len(dated) > 1:
        told.append(_first_to_last(answer, dated))
    if ends and differ:
        told.append([*say("The ", *answer.measure, " is "), *join(ends, ", and "), *say(".")])
    told += _undated(answer) + answer.condition
    return Told(
        kind="trend",
        finding=say("The ", *answer.measure, " is ", *highest, ".") if known else [],
        prose=told or [say(_FIRST_PART)],
        figure=_top(say(f"{answer.word('desc').capitalize()} {unit}"), answer, top) if known and differ else None,
    )


def _preposition(answer: Answer) -> tuple[str, str]:
    """How to say where on the axis something is, and what one place of the axis is called."""
    by = answer.question["group"][0]["by"]
    if by == "day" or answer.result["columns"][0]["type"] in {"date", "datetime"}:
        return "on ", "day"
    return ("at ", "value") if by == "value" else ("in ", by)


def _first_to_last(answer: Answer, dated: list[int]) -> Paragraph:
    ordered = sorted(dated, key=lambda row: _sortable(answer.cell(row, 0)))
    first, last = ordered[0], ordered[-1]
    span = say("From ", *answer.key(first), " to ", *answer.key(last), ", the ", *answer.measure)
    before, after = answer.amount(first) or 0, answer.amount(last) or 0
    if before == after:
        return [*span, *say(" is the same at both ends: ", answer.value(last), ".")]
    change = (
        (" moved on" if after > before else " moved back") if answer.dates else " rose" if after > before else " fell"
    )
    return [*span, *say(f"{change} from ", answer.value(first), " to ", answer.value(last), ".")]


def _sortable(key: Scalar) -> tuple[float, str]:
    return (0.0, key) if isinstance(key, str) else (float(key or 0), "")


def _undated(answer: Answer) -> list[Paragraph]:
    rows = [row for row in answer.ranked if answer.cell(row, 0) is None]
    return [say("For ", *answer.key(row), " it is ", answer.value(row), ".") for row in rows]


def _top(label: Paragraph, answer: Answer, row: int) -> KeyFigure:
    """A figure that names one end of a ranking, with its value below."""
    return {
        "label": label,
        "value": ref_to(answer.result, row, 0),
        "note": say(*answer.measure, " ", answer.value(row)),
    }


def _ranking(answer: Answer) -> Told:
    """Begins with the highest, unless only the lowest is known."""
    if not answer.knows("desc") and not answer.knows("asc"):
        return Told(kind="other", finding=[], prose=[say(_FIRST_PART)])
    end = "desc" if answer.knows("desc") else "asc"
    ranked = answer.ranked if end == "desc" else answer.ranked[::-1]
    tied = [row for row in ranked if answer.amount(row) == answer.amount(ranked[0])]
    if len(tied) == len(ranked) > 1:
        finding = say("The ", *answer.measure, " is ", answer.value(tied[0]), " in every group shown.")
        return Told(kind="ranking", finding=finding, prose=[finding, *answer.condition])
    by = join([say(name_of(key["column"])) for key in answer.question["group"]])
    leaders = join([answer.key(row) for row in tied[:LISTED]]) + say(", among others" if len(tied) > LISTED else "")
    finding = say("By ", *by, ", the ", *answer.measure, f" is {answer.word(end)} for ", *leaders)
    finding += say(", on " if answer.dates else ", at ", answer.value(ranked[0]), ".")
    prose = say("The ", *answer.measure, f" is {answer.word(end)} for ", *leaders, " (", answer.value(ranked[0]), ")")
    runners = [say(*answer.key(row), " (", answer.value(row), ")") for row in ranked[len(tied) :][:2]]
    prose += say(", followed by ", *join(runners), ".") if runners else say(".")
    if end == "desc" and answer.knows("asc") and len(ranked) > len(tied) + 2:
        prose += say(f" It is {answer.word('asc')} for ", *answer.key(ranked[-1]), " (", answer.value(ranked[-1]), ").")
    figure = _leader(answer, ranked[0], end) if len(tied) == 1 else None
    return Told(kind="ranking", finding=finding, prose=[prose, *answer.condition], figure=figure)


def _leader(answer: Answer, row: int, end: str) -> KeyFigure | None:
    if len(answer.question["group"]) != 1 or answer.cell(row, 0) is None or len(answer.ranked) < 2:
        return None
    group = name_of(answer.question["group"][0]["column"])
    return _top(say(f"{answer.word(end).capitalize()} by ", group), answer, row)


# ---- Missing cells and outliers --------------------------------------------------------------------------------


def _missing(question: TypedQuestion, result: Result) -> Told:
    """Columns of the answer: column, missing, rows, share."""
    gaps = [row for row, cells in enumerate(result["rows"]) if (as_number(cells[1]) or 0) > 0]
    gaps.sort(key=lambda row: as_number(result["rows"][row][1]) or 0, reverse=True)
    if not gaps:
        none = say("No cell of the sheet ", name_of(question["sheet"]), " is empty in the columns looked at.")
        return Told(kind="missing", finding=none, prose=[none])

    def share(row: int) -> Paragraph:
        return say(ref_to(result, row, 0), " (", ref_to(result, row, 3), ")")

    most, *others = gaps
    missing, rows = ref_to(result, most, 1), ref_to(result, most, 2)
    finding = say("The column with the most empty cells is ", ref_to(result, most, 0), ": ", missing, " of ", rows, ".")
    first = say("The column ", *share(most), " has the most empty cells")
    first += say(", then ", *join([share(row) for row in others[:2]]), ".") if others else say("; no other has any.")
    after = say("Empty cells are left out of totals and averages; they are not taken for zero.")
    return Told(
        kind="missing",
        finding=finding,
        prose=[first, after],
        figure={
            "label": say("Missing in ", ref_to(result, most, 0)),
            "value": ref_to(result, most, 1),
            "note": say(ref_to(result, most, 3), " of its cells"),
        },
    )


def _outliers(question: TypedQuestion, result: Result) -> Told:
    """Columns of the answer: outliers, share, lower bound, upper bound, row, any keys, the measure."""
    column, cells = name_of(question["measure"] or ""), result["rows"][0]
    count, share, lower, upper = (ref_to(result, 0, position) for position in range(4))
    if cells[2] is None:
        none = say("The column ", column, " holds no value.")
        return Told(kind="outliers", finding=[], prose=[none])
    usual = say("Values from ", lower, " to ", upper, " count as usual: the middle half of the values, widened on ")
    usual += say("both sides by one and a half times its span.")
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
