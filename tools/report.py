"""The report's files, as a pure function of draft, profile and results: no clock, no run id, no epoch.

report.html   a page that stands alone: its style and its charts are inside, it has no script, and its content
              policy forbids every request
report.md     the same words and tables, for places where a page cannot go
draft.json    the draft itself, from which `test` reads what the report claims
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import rfc8785
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tools import markdown
from tools.draft_types import Document, Profile, Results
from tools.markdown import Markdown
from tools.report_view import Block, Inline, Table, view

TEMPLATES: Final = Path(__file__).parent / "templates"


def render(doc: Document, profile: Profile, results: Results) -> dict[str, bytes]:
    """The report's files by name. The same arguments give the same bytes, in any process on any machine."""
    shown = view(doc, profile, results)
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    page = _html().get_template("report.html.j2").render(view=shown, style=style, policy=policy)
    text = _markdown().get_template("report.md.j2").render(view=shown)
    return {
        "draft.json": json.dumps(doc, ensure_ascii=False, sort_keys=True, indent=1).encode("utf-8", "replace"),
        "report.html": page.encode("utf-8"),
        "report.md": text.encode("utf-8"),
    }


def report_digest(objects: Sequence[Mapping[str, Any]]) -> str:
    """The digest that stands for a report: SHA-256, in hex, of the canonical list of its files.

    Of each object {"name", "digest", "size", "media_type"} count, in the order of the names, as RFC 8785 JSON.
    """
    files = [{key: o[key] for key in ("name", "digest", "size", "media_type")} for o in objects]
    files.sort(key=lambda file: file["name"])
    return hashlib.sha256(rfc8785.dumps(files)).hexdigest()


def _digest(style: str) -> str:
    """The style's digest as a content policy names it: no other style is applied, whatever a cell holds."""
    return "sha256-" + b64encode(hashlib.sha256(style.encode()).digest()).decode()


@cache
def _html() -> Environment:
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["trusted"] = Markup  # our own style, and charts written by ElementTree, which escapes
    return environment


@cache
def _markdown() -> Environment:
    """Every text is escaped on its way into the template, unless it is `Markdown` already."""
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(  # noqa: S701 - HTML escaping is not what Markdown needs
        loader=loader,
        finalize=markdown.escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(line=_line, blocks=_blocks, table=_table, sql=_sql)
    return environment


def _line(line: Sequence[Inline]) -> Markdown:
    return Markdown("".join(map(_piece, line)))


def _piece(piece: Inline) -> str:
    """One piece; its outer spaces stay outside of the marks, where Markdown wants them."""
    core = piece.text.strip(" ")
    before, _, after = piece.text.partition(core) if core else (piece.text, "", "")
    shown: str = markdown.code_span(core) if piece.kind == "name" else markdown.escape(core)
    shown = f"“{shown}”" if piece.kind == "quote" else shown
    return f"{before}**{shown}**{after}" if piece.strong and core else f"{before}{shown}{after}"


def _blocks(blocks: Sequence[Block]) -> Markdown:
    parts: list[str] = []
    for block in blocks:
        lines = [_line(line) for line in block.lines]
        parts += (
            ["\n".join(f"- {line}" for line in lines)] if block.kind == "list" else map(markdown.at_line_start, lines)
        )
    return Markdown("\n\n".join(parts))


def _table(shown: Table) -> Markdown:
    return markdown.table(shown.columns, shown.rows)


def _sql(text: str) -> Markdown:
    return markdown.code_block(text, "sql")
