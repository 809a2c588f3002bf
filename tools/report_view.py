"""What the two pages show, as text that is ready to be put in: formats applied, references looked up, nothing escaped.

A reference that points nowhere and a segment of an unknown form are shown as what they are, so that a draft can be
looked at before `check_draft` has passed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tools.charts import Chart, draw
from tools.draft import BadReference, find_cell, segments_of
from tools.draft_types import Document, Paragraph, Profile, Result, Results, Scalar, Section
from tools.formatting import ColumnFormat, column_formats, one_line, readable, text_width
from tools.profile import MAX_DISTINCT

LONGEST_SHOWN = 120  # characters of a cell; the rest of a longer text is left to the file
COLUMN_TABLE = (
    ("Column", "left"), ("Type", "left"), ("Values", "right"), ("Empty", "right"), ("Different", "right"),
    ("Lowest", "left"), ("Highest", "left"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Inline:
    """A piece of a line. A figure may have a link to its table row, and says where it comes from."""

    kind: Literal["text", "figure", "name", "quote", "bad"]
    text: str
    strong: bool = False
    link: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A paragraph (of one line) or a list of lines."""

    kind: Literal["paragraph", "list"]
    lines: list[list[Inline]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; columns are (name, "left" or "right")."""

    columns: Sequence[tuple[str, str]]
    rows: list[list[str]]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A key figure."""

    label: list[Inline]
    value: list[Inline]
    note: list[Inline]

    @property
    def long(self) -> bool:
        """Whether the value needs smaller letters to stay on one line."""
        return sum(text_width(piece.text) for piece in self.value) > 10


@dataclass(frozen=True, kw_only=True)
class SectionView:
    """One question."""

    id: str
    heading: list[Inline]
    blocks: list[Block]
    chart: Chart | None
    table: Table | None
    notes: list[str]
    sql: str


@dataclass(frozen=True, kw_only=True)
class SheetView:
    """One sheet of the file: its size, what a reader should know of it, its columns."""

    name: str
    rows: str
    column_count: str
    notes: list[str]
    columns: Table


@dataclass(frozen=True, kw_only=True)
class View:
    """The whole report."""

    title: str
    file: str
    size: str
    cards: list[Card]
    summary: list[Block]
    sections: list[SectionView]
    unanswered: list[dict[str, str]]
    sheets: list[SheetView]
    file_notes: list[str]
    data_notes: list[Block]
    method: list[str]


class _Viewer:
    """Holds what every part of a view needs: the results, their formats, and which row of a page shows which cell."""

    def __init__(self, doc: Document, profile: Profile, results: Results) -> None:
        self.doc, self.profile, self.results = doc, profile, results
        self.formats = {question: column_formats(result) for question, result in results.items()}
        self.section_ids = {s["question_id"]: f"s{n}" for n, s in enumerate(doc["sections"], 1)}
        self.tables = {s["question_id"]: self.table(s) for s in doc["sections"]}

    def view(self) -> View:
        sheets = [_sheet(sheet) for sheet in self.profile["sheets"]]
        return View(
            title=one_line(self.doc["title"]),
            file=one_line(self.profile["name"]),
            size=_size(self.profile["sheets"]),
            cards=[
                Card(label=self.line(f["label"]), value=self.line([f["value"]]), note=self.line(f["note"]))
                for f in self.doc.get("key_figures", [])
            ],
            summary=self.blocks(self.doc["summary"]),
            sections=[self.section(section) for section in self.doc["sections"]],
            unanswered=[
                {"ask": one_line(u["ask"]), "reason": one_line(u["reason"]), "columns": _list(u["columns"])}
                for u in self.doc["unanswered"]
            ],
            sheets=sheets,
            file_notes=[_note(note) for note in self.profile.get("notes", [])],
            data_notes=self.blocks(self.doc["data_notes"]),
            method=_method(self.doc),
        )

    def section(self, section: Section) -> SectionView:
        result = self.results.get(section["question_id"])
        heading = self.line(section["heading"])
        label = "".join(piece.text for piece in heading)
        return SectionView(
            id=self.section_ids[section["question_id"]],
            heading=heading,
            blocks=self.blocks(section["prose"]),
            chart=draw(result, section["chart"], label) if result else None,
            table=self.tables[section["question_id"]],
            notes=[one_line(note) for note in result.get("notes", [])] if result else [],
            sql=readable(result["sql"]) if result else "",
        )

    def table(self, section: Section) -> Table | None:
        result, spec = self.results.get(section["question_id"]), section["table"]
        return _table(result, self.formats[section["question_id"]], spec["max_rows"]) if result and spec else None

    def blocks(self, paragraphs: list[Paragraph]) -> list[Block]:
        """Paragraphs, with neighbouring bullets gathered into one list."""
        blocks: list[Block] = []
        for paragraph in paragraphs:
            bullet = {"mark": "bullet"} in segments_of(paragraph)[:1]
            if bullet and blocks and blocks[-1].kind == "list":
                blocks[-1].lines.append(self.line(paragraph))
            else:
                blocks.append(Block(kind="list" if bullet else "paragraph", lines=[self.line(paragraph)]))
        return blocks

    def line(self, paragraph: object) -> list[Inline]:
        return [self.inline(s) for s in segments_of(paragraph) if s != {"mark": "bullet"}]

    def inline(self, segment: object) -> Inline:
        match segment:
            case {"text": str(text), **rest}:
                return Inline(kind="text", text=_words(text), strong=bool(rest.get("strong")))
            case {"name": str(name), **rest}:
                return Inline(kind="name", text=one_line(name), strong=bool(rest.get("strong")))
            case {"quote": str(quote)}:
                return Inline(kind="quote", text=one_line(quote))
            case {"ref": ref, **rest}:
                return self.figure(ref, strong=bool(rest.get("strong")))
            case _:
                return Inline(kind="bad", text=one_line(f"[not readable: {segment!r}]"))

    def figure(self, ref: Any, *, strong: bool) -> Inline:
        cell = find_cell(ref, self.results)
        if isinstance(cell, BadReference):
            return Inline(kind="bad", text=one_line(f"[no figure: {cell.why}]"))
        question, row, name = ref
        column, value = cell
        text = "no value" if value is None else _short(self.formats[question][column["name"]].show(value))
        section, table = self.section_ids.get(question), self.tables.get(question)
        link = "" if section is None else f"{section}-r{row}" if table and row < len(table.rows) else section
        source = one_line(f"Result {question}, row {row + 1}, {name}")
        return Inline(kind="figure", text=text, strong=strong, link=link, source=source)


def view(doc: Document, profile: Profile, results: Results) -> View:
    """The report as its pages show it."""
    return _Viewer(doc, profile, results).view()


def _words(text: str) -> str:
    """Words between other segments: their outer spaces count."""
    line = one_line(text)
    return f"{' ' if text[:1].isspace() else ''}{line}{' ' if line and text[-1:].isspace() else ''}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1].rstrip() + "…"


def _table(result: Result, formats: dict[str, ColumnFormat], most: int) -> Table | None:
    """The first rows. One cell makes no table: it stands in the text."""
    if len(result["columns"]) == 1 and result["total_rows"] == 1:
        return None
    shows = [formats[c["name"]].show for c in result["columns"]]
    rows = [[_short(show(cell)) for show, cell in zip(shows, row, strict=True)] for row in result["rows"][:most]]
    same = _same_in_all(rows)
    kept = [i for i in range(len(shows)) if i not in same]
    names = [one_line(c["name"]) for c in result["columns"]]
    notes = [f"In every row: {', '.join(f'{names[i]} {rows[0][i]}' for i in same)}."] if same else []
    return Table(
        columns=[(names[i], formats[result["columns"][i]["name"]].align) for i in kept],
        rows=[[row[i] for i in kept] for row in rows],
        note=" ".join([*notes, *_left_out(result, len(rows))]),
    )


def _same_in_all(rows: list[list[str]]) -> list[int]:
    """The columns, but never the last, that repeat one value in several rows: they are said once, below the table."""
    if len(rows) < 2:
        return []
    return [i for i in range(len(rows[0]) - 1) if len({row[i] for row in rows}) == 1]


def _left_out(result: Result, shown: int) -> list[str]:
    if result["truncated"]:
        return [f"The first {shown:,} rows are shown; the answer was cut off at {len(result['rows']):,}."]
    return [f"The first {shown:,} of {result['total_rows']:,} rows are shown."] if shown < result["total_rows"] else []


def _method(doc: Document) -> list[str]:
    """How the report came to be, in sentences."""
    model = doc["language_model"]
    made = (
        f"The language model {one_line(model)} chose the questions and wrote the text. It cannot write a figure of its "
        "own: each one in the text is taken from a result below."
        if model
        else "No language model was used. The questions and the text were made by fixed rules."
    )
    checked = (
        "Before a report is published, all results are computed again from the file in a second way; a query that a "
        "language model wrote is run again instead."
    )
    remarks = [f"A reviewer asked for changes: “{one_line(remark)}”" for remark in doc.get("remarks", [])]
    return [made, checked, *remarks]


# ---- The file --------------------------------------------------------------------------------------------------


def _size(sheets: Sequence[Any]) -> str:
    rows = sum(sheet["rows"] for sheet in sheets)
    return f"{_count(len(sheets), 'sheet')}, {_count(rows, 'row')}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _sheet(sheet: Any) -> SheetView:
    return SheetView(
        name=one_line(sheet["name"]),
        rows=_count(sheet["rows"], "row"),
        column_count=_count(len(sheet["columns"]), "column"),
        notes=[*map(_note, sheet["notes"]), *_gaps(sheet["columns"])],
        columns=Table(columns=COLUMN_TABLE, rows=[_column(column) for column in sheet["columns"]]),
    )


def _note(note: Any) -> str:
    return one_line(note["text"])


def _gaps(columns: Sequence[Any]) -> list[str]:
    """One sentence that names every column with empty cells: what is missing is never passed over."""
    gaps = [f"{one_line(c['name'])} ({c['nulls']:,})" for c in columns if c["nulls"]]
    return [f"Empty cells, by column: {', '.join(gaps)}."] if gaps else []


def _column(column: Any) -> list[str]:
    kind = "integer" if column["type"] == "integer" else column["type"]
    ends: list[Scalar] = [column.get("min"), column.get("max")]
    one: Result = {
        "question_id": "",
        "columns": [{"name": column["name"], "type": kind}],
        "rows": [[end] for end in ends],
        "total_rows": 2,
        "truncated": False,
        "sql": "",
    }
    show = column_formats(one)[column["name"]].show
    counts = [f"{column['non_null']:,}", f"{column['nulls']:,}", _distinct(column["distinct"])]
    return [one_line(column["name"]), kind, *counts, *(_short(show(end)) for end in ends)]


def _distinct(count: int) -> str:
    return f"{count:,}" if count < MAX_DISTINCT else f"{count:,} or more"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names))
