"""The draft: a report as JSON values, in which every number is a reference to a cell of a result.

    document    title, language_model, key_figures, summary, sections, data_notes, unanswered, remarks
    section     question_id, heading, prose, table, chart
    paragraph   a list of segments; one that starts with {"mark": "bullet"} is an item of a list
    segment     {"text": …}                    words, without any digit
                {"ref": [question, row, column]}  one cell; rows count from 0
                {"name": …}                    a name of the file, a sheet or a column, exactly as it is
                {"quote": …}                   an ask in the user's own words; in headings only

So a figure cannot be written, only pointed at, and `test` can compute what is pointed at again. Digits are all
characters that Unicode counts among numbers (categories Nd, Nl, No: 7, ７, ٧, Ⅶ, ½). Words are not: "three" and 三 are
ordinary parts of other words ("threefold", 三角), and refusing them would refuse prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Scalar: TypeAlias = str | int | float | bool | None
Profile: TypeAlias = Mapping[str, Any]


class TextSegment(TypedDict):
    """Words."""

    text: str
    strong: NotRequired[bool]


class RefSegment(TypedDict):
    """A cell: question id, row (from 0), column name."""

    ref: list[str | int]
    strong: NotRequired[bool]


class NameSegment(TypedDict):
    """An exact name of the file, a sheet or a column. It may hold digits."""

    name: str
    strong: NotRequired[bool]


class QuoteSegment(TypedDict):
    """An ask in the user's own words, shown in quotation marks. It may hold digits."""

    quote: str


class MarkSegment(TypedDict):
    """Says what its paragraph is."""

    mark: Literal["bullet"]


Segment: TypeAlias = TextSegment | RefSegment | NameSegment | QuoteSegment | MarkSegment
Paragraph: TypeAlias = list[Segment]


class KeyFigure(TypedDict):
    """One figure for the top of the page."""

    label: Paragraph
    value: RefSegment
    note: Paragraph


class TableSpec(TypedDict):
    """Which result to show, and at most how many of its rows."""

    result: str
    max_rows: int


class Section(TypedDict):
    """One question, answered."""

    question_id: str
    heading: Paragraph
    prose: list[Paragraph]
    table: TableSpec | None
    chart: Literal["line", "bar", "none"]


class Unanswered(TypedDict):
    """An ask without an answer, why, and the columns that were looked at."""

    ask: str
    reason: str
    columns: list[str]


class Document(TypedDict):
    """The whole draft. `language_model` is null when fixed rules wrote it."""

    title: str
    language_model: str | None
    key_figures: NotRequired[list[KeyFigure]]
    summary: list[Paragraph]
    sections: list[Section]
    data_notes: list[Paragraph]
    unanswered: list[Unanswered]
    remarks: NotRequired[list[str]]  # what reviewers asked to change, in their own words


class ResultColumn(TypedDict):
    """Name and type of a column of a result."""

    name: str
    type: str


class Result(TypedDict):
    """The answer to one question, as the query gave it."""

    question_id: str
    columns: list[ResultColumn]
    rows: list[list[Scalar]]
    total_rows: int
    truncated: bool
    sql: str
    notes: NotRequired[list[str]]


Results: TypeAlias = Mapping[str, Result]  # by question id
