"""Text that stays text in Markdown: whatever a cell, a name or a model holds, none of it becomes markup.

CommonMark lets every ASCII punctuation character be escaped with a backslash; here those are that can begin something:
emphasis, code, links, HTML, entities, tables, and the bare addresses that some readers turn into links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.formatting import one_line


class Markdown(str):
    """Text that is Markdown already. A template writes it as it is, and escapes every other text."""

    __slots__ = ()


def escape(value: object) -> str:
    """Text as Markdown that shows exactly that text, on one line. Markdown is left as it is."""
    if isinstance(value, Markdown):
        return value
    text = re.sub(r"([\\`*_\[\]<>|~&$#])", r"\\\1", one_line(str(value)))
    return re.sub(r":(?=//)|(?<=[wW]{3})\.|@", r"\\\g<0>", text)


def at_line_start(line: str) -> Markdown:
    """An escaped line that can stand where a paragraph begins: it does not begin a list, a rule or a heading."""
    return Markdown(re.sub(r"^([-+=]|\d+(?=[.)]))", lambda m: m[0] + "\\" if m[0].isdigit() else "\\" + m[0], line))


def code_span(text: str) -> Markdown:
    """The text as inline code, within more backticks than it holds."""
    line = one_line(text) or " "
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return Markdown(f"{fence}{space}{line}{space}{fence}")


def code_block(text: str, language: str) -> Markdown:
    """The text as a block of code, within a longer fence than any in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return Markdown(f"{fence}{language}\n{text.rstrip()}\n{fence}")


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> Markdown:
    """A table; columns are (name, "left" or "right")."""
    lines = [_line([escape(name) for name, _ in columns])]
    lines.append(_line(["---:" if align == "right" else "---" for _, align in columns]))
    lines += [_line([escape(cell) for cell in row]) for row in rows]
    return Markdown("\n".join(lines))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
