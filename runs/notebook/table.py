"""What a cell shows: facts and tables, as HTML where it is rendered, else as text.

File names, questions and reasons come from outside. Everything is escaped, and control characters are made visible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from runs.commands.output import facts_text, table_text, visible, visible_lines

Facts = Sequence[tuple[str, object]]

_LEFT = Markup(' style="text-align:left; vertical-align:top; white-space:pre-wrap"')  # Jupyter centres and right-aligns


class Table(list[dict[str, Any]]):
    """Rows as a list of dicts; shown as a table of `columns`."""

    def __init__(self, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)

    def last(self, count: int) -> Table:
        """The last rows."""
        return Table(self[-count:], self.columns)

    def _cells(self) -> list[list[object]]:
        return [[_short(row.get(column)) for column in self.columns] for row in self]

    def __repr__(self) -> str:
        return table_text(self.columns, self._cells()) if self else "none"

    def _repr_html_(self) -> str:
        return table_html(self.columns, self._cells()) if self else "none"


def _short(value: object) -> object:
    """A digest's beginning, the time of an instant, a dict as `name=value` pairs; everything else as it is."""
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value):
        return f"{value[:12]}…"
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.0-9]*\+00:00", value):
        return f"{value[11:19]} UTC"
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name}={inner}" for name, inner in value.items() if inner is not None)  # pyright: ignore[reportUnknownVariableType]


def table_html(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    """A table with a head; None is shown as a dash."""
    head = _joined(Markup("<th{}>{}</th>").format(_LEFT, visible(column)) for column in columns)
    body = _joined(_row(["-" if cell is None else visible(cell) for cell in row]) for row in rows)
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def facts_html(facts: Facts) -> Markup:
    """Names and values, one fact a row; a fact without a value is left out."""
    shown = [(visible(name), visible_lines(str(value))) for name, value in facts if value is not None]
    return Markup("<table><tbody>{}</tbody></table>").format(_joined(_row(fact) for fact in shown))


def _row(cells: Sequence[str]) -> Markup:
    return Markup("<tr>{}</tr>").format(_joined(Markup("<td{}>{}</td>").format(_LEFT, cell) for cell in cells))


def _joined(parts: Any) -> Markup:
    return Markup("").join(parts)


def sections_html(facts: Facts, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[object]]]]) -> str:
    """Facts, then titled tables."""
    more = (Markup("<b>{}</b>{}").format(visible(title), table_html(columns, rows)) for title, columns, rows in tables)
    return Markup("").join((facts_html(facts), *more))


def sections_text(facts: Facts, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[object]]]]) -> str:
    """The same as lines of text."""
    parts = [facts_text(facts), *(f"{title}\n{table_text(columns, rows)}" for title, columns, rows in tables)]
    return "\n\n".join(parts)
