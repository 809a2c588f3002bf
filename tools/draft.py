"""The draft's text: read from a language model's Markdown, and checked. Its shape is written in `tools.draft_types`."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from tools.draft_types import Document, Paragraph, Profile, ResultColumn, Results, Scalar, Section, Segment


@dataclass(frozen=True, kw_only=True)
class BadReference:
    """A reference that points at no cell, and a sentence that says why."""

    why: str


def is_digit(char: str) -> bool:
    """Whether Unicode counts the character among the numbers."""
    return (char.isascii() and char.isdigit()) or unicodedata.category(char) in {"Nd", "Nl", "No"}


def numbers_in(text: str) -> list[str]:
    """The runs of digits in a text, in order."""
    return "".join(c if is_digit(c) else " " for c in text).split()


def names_of(profile: Profile) -> list[str]:
    """The names a draft may use: of the file, of its sheets, of their columns; without repetition."""
    found: dict[str, None] = {profile["name"]: None}
    for sheet in profile["sheets"]:
        found[sheet["name"]] = None
        found.update((column["name"], None) for column in sheet["columns"])
    return list(found)


def segments_of(paragraph: object) -> list[Any]:
    """The segments of what should be a paragraph: a language model may have given something else."""
    return cast(list[Any], paragraph) if isinstance(paragraph, list) else [paragraph]


def find_cell(ref: object, results: Results) -> tuple[ResultColumn, Scalar] | BadReference:
    """The column and the value that a reference points at."""
    match ref:
        case [str(question), int(row), str(column)] if not isinstance(row, bool):
            pass
        case _:
            return BadReference(why=f"the reference {ref!r} is not of the form [question, row, column]")
    result = results.get(question)
    if result is None:
        return BadReference(why=f'there is no result "{question}"; the results are {listed(results)}')
    if not 0 <= row < len(result["rows"]):
        return BadReference(why=f'result "{question}" has {_rows(len(result["rows"]))}, so it has no row {row}')
    for index, known in enumerate(result["columns"]):
        if known["name"] == column:
            return known, result["rows"][row][index]
    columns = listed(c["name"] for c in result["columns"])
    return BadReference(why=f'result "{question}" has no column "{column}"; its columns are {columns}')


def _rows(count: int) -> str:
    return f"the rows 0 to {count - 1}" if count else "no rows"


def listed(names: Iterable[str]) -> str:
    """Names in quotation marks, with commas."""
    return ", ".join(f'"{name}"' for name in names) or "none"


# The column may hold single brackets and colons; the reference ends at the first "]]" that no third bracket follows.
_REFERENCE = re.compile(r"\[\[([^\[\]:\n]+):([0-9]{1,9}):(.+?)\]\](?!\])")


def parse_prose(markdown: str, profile: Profile) -> list[Paragraph]:
    """Paragraphs from a small part of Markdown, as a language model writes it.

    Understood: paragraphs, headings (become a strong paragraph), lists (numbered ones too; become bullets),
    **strong**, *emphasis* (becomes plain), `names`, and references [[question:row:column]]. Everything else, such as
    HTML, links, tables and references of another form, stays the text it is. A name that differs from exactly one
    name of the profile only in case or outer space becomes that name. Nothing is refused here: see `check_draft`.
    """
    names = names_of(profile)
    paragraphs: list[Paragraph] = []
    bullet = strong = False
    for token in _parser().parse(markdown):
        if token.type == "list_item_open":
            bullet = True
        elif token.type == "heading_open":
            strong = True
        elif token.type == "inline":
            segments = list(_segments(token.children or [], names, strong=strong))
            if segments:
                paragraphs.append([{"mark": "bullet"}, *segments] if bullet else segments)
            bullet = strong = False
    return paragraphs


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("zero").enable(["heading", "list", "emphasis", "backticks", "escape"])
    parser.inline.ruler.before("escape", "reference", _reference)
    return parser


def _reference(state: StateInline, silent: bool) -> bool:
    """Markdown rule: [[question:row:column]] is one token, so that nothing inside it is taken for markup."""
    found = _REFERENCE.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        token = state.push("reference", "", 0)
        token.meta = {"ref": [found[1].strip(), int(found[2]), found[3]]}
    state.pos = found.end()
    return True


def _segments(tokens: list[Token], names: list[str], *, strong: bool) -> Iterator[Segment]:
    words, depth = "", int(strong)
    for token in tokens:
        if token.type == "text":
            words += re.sub(r"\s+", " ", token.content)
            continue
        segment: Segment | None = None
        if token.type == "reference":
            segment = {"ref": token.meta["ref"]}
        elif token.type == "code_inline":
            segment = {"name": _known_name(token.content, names)}
        if segment is not None or token.type in {"strong_open", "strong_close"}:
            if words:
                yield _weigh({"text": words}, depth)
            words = ""
        if segment is not None:
            yield _weigh(segment, depth)
        depth += {"strong_open": 1, "strong_close": -1}.get(token.type, 0)
    if words:
        yield _weigh({"text": words}, depth)


def _weigh(segment: Segment, depth: int) -> Segment:
    return {**segment, "strong": True} if depth else segment  # pyright: ignore[reportReturnType] - TypedDict spread


def _known_name(written: str, names: list[str]) -> str:
    if written in names:
        return written
    alike = [name for name in names if name.strip().casefold() == written.strip().casefold()]
    return alike[0] if len(alike) == 1 else written


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong with a draft, and where, as plain sentences that tell a writer (or a model) what to change."""

    where: str
    what: str

    def __str__(self) -> str:
        """Where and what, in one line."""
        return f"{self.where}: {self.what}"


def check_draft(doc: Document, profile: Profile, results: Results, asks: Sequence[str] = ()) -> list[Problem]:
    """Everything that keeps a draft from being published; an empty list when nothing does.

    Every number is a reference, every reference points at a cell, every name exists, every result has its section.
    In a title or heading the numbers that stand in a name may appear as text, in a heading also those of its
    question's SQL ("Top 5 regions"). Quotes stand in headings only, and must be one of `asks`.
    """
    checker = _Checker(results=results, names=names_of(profile), asks=asks)
    return [*checker.document(doc), *_missing_parts(doc, results)]


def _missing_parts(doc: Document, results: Results) -> Iterator[Problem]:
    if not doc["title"].strip():
        yield Problem(where="Title", what="it is empty.")
    if not doc["summary"]:
        yield Problem(where="Summary", what="it is empty; say what was found in a sentence or two.")
    shown = [section["question_id"] for section in doc["sections"]]
    for question in results:
        if question not in shown:
            yield Problem(where="Sections", what=f'result "{question}" has no section; every answer must be shown.')
    for question in dict.fromkeys(q for q in shown if shown.count(q) > 1):
        yield Problem(where="Sections", what=f'"{question}" has more than one section.')


@dataclass(frozen=True, kw_only=True)
class _Checker:
    results: Results
    names: list[str]
    asks: Sequence[str]

    def document(self, doc: Document) -> Iterator[Problem]:
        known = self._numbers_of_names()
        yield from _unknown_numbers("Title", doc["title"], known)
        for index, figure in enumerate(doc.get("key_figures", []), 1):
            for part in (figure["label"], cast("Paragraph", [figure["value"]]), figure["note"]):
                yield from self._paragraph(f"Key figure {index}", part)
        yield from self._paragraphs("Summary", doc["summary"])
        for section in doc["sections"]:
            yield from self._section(section, known)
        yield from self._paragraphs("Data notes", doc["data_notes"])
        for entry in doc["unanswered"]:
            own = {*known, *numbers_in(entry["ask"]), *numbers_in(" ".join(entry["columns"]))}
            yield from _unknown_numbers(f'Reason for "{entry["ask"]}"', entry["reason"], own)

    def _numbers_of_names(self) -> set[str]:
        return {number for name in self.names for number in numbers_in(name)}

    def _section(self, section: Section, known: set[str]) -> Iterator[Problem]:
        where = f"Section {section['question_id']}"
        result = self.results.get(section["question_id"])
        if result is None:
            yield Problem(where=where, what=f"there is no such result; the results are {listed(self.results)}.")
        elif section["table"] and section["table"]["result"] not in self.results:
            yield Problem(where=where, what=f'its table shows "{section["table"]["result"]}", which is no result.')
        allowed = known | set(numbers_in(result["sql"] if result else ""))
        yield from self._paragraph(f"{where}, heading", section["heading"], heading=allowed)
        yield from self._paragraphs(where, section["prose"])

    def _paragraphs(self, where: str, paragraphs: list[Paragraph]) -> Iterator[Problem]:
        for index, paragraph in enumerate(paragraphs, 1):
            yield from self._paragraph(f"{where}, paragraph {index}", paragraph)

    def _paragraph(self, where: str, paragraph: Paragraph, heading: set[str] | None = None) -> Iterator[Problem]:
        """Problems of one paragraph. `heading` holds the numbers that a heading may show; null elsewhere."""
        for segment in segments_of(paragraph):
            match segment:
                case {"text": str(text)}:
                    yield from self._text(where, text, heading or set())
                case {"ref": ref}:
                    cell = find_cell(ref, self.results)
                    if isinstance(cell, BadReference):
                        yield Problem(where=where, what=f"{cell.why}.")
                case {"name": str(name)}:
                    if name not in self.names:
                        yield Problem(where=where, what=self._unknown_name(name))
                case {"quote": str(quote)} if heading is not None:
                    if " ".join(quote.split()) not in [" ".join(ask.split()) for ask in self.asks]:
                        yield Problem(where=where, what=f'"{quote}" is quoted, but nobody asked it.')
                case {"mark": "bullet"} if segment is paragraph[0]:
                    pass
                case _:
                    yield Problem(where=where, what=f"{segment!r} is no segment that may stand here.")

    def _text(self, where: str, text: str, allowed: set[str]) -> Iterator[Problem]:
        if "[[" in text:
            what = f'"{_excerpt(text, "[[")}" is not a reference; write [[question:row:column]].'
            yield Problem(where=where, what=what)
            return
        for problem in _unknown_numbers(where, text, allowed):
            hint = next((n for n in self.names if numbers_in(n) and n in text), None)
            more = f' If you mean the name "{hint}", put it in backticks.' if hint else ""
            yield Problem(where=where, what=problem.what + more)

    def _unknown_name(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.names, n=3, cutoff=0.5)
        hint = f" Did you mean {listed(near)}?" if near else ""
        return f'"{name}" is not the exact name of the file, a sheet or a column.{hint}'


def _unknown_numbers(where: str, text: str, allowed: set[str]) -> Iterator[Problem]:
    for number in dict.fromkeys(numbers_in(text)):
        if number not in allowed:
            what = (
                f'the number "{number}" stands in the text "{_excerpt(text, number)}". Write every number as a '
                "reference to a cell, like [[q1:0:column]], or say it without the number."
            )
            yield Problem(where=where, what=what)


def _excerpt(text: str, around: str) -> str:
    """Some words of the text around a piece of it."""
    start = max(0, text.index(around) - 30)
    return text[start : start + 60 + len(around)].strip()
