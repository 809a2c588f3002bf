"""The table: for a terminal, and for docs/guarantees.md between markers of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from experiments.guaranteed.campaign import Cell, Results
from experiments.guaranteed.faults import FAULTS
from experiments.guaranteed.rows import ROWS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "guarantees.md"
BEGIN, END = "<!-- written by experiments/guarantees.py -->", "<!-- end of what it wrote -->"


def word(cell: Cell | None) -> str:
    """A cell as it is shown: effects, `?` where a person has to look, `!` where it is not as promised."""
    if cell is None:
        return "-"
    if cell.invalid:
        return "not struck"
    return f"{cell.effects}{'?' if cell.person else ''}{'!' if cell.broken else ''}"


def _table(results: Results) -> list[list[str]]:
    found = {(cell.row.name, cell.fault.name): cell for cell in results.cells}
    rows = [row for row in ROWS if any(cell.row is row for cell in results.cells)]
    faults = [fault for fault in FAULTS if any(cell.fault is fault for cell in results.cells)]
    head = ["fault", *(row.name for row in rows)]
    return [head, *([fault.name, *(word(found.get((row.name, fault.name))) for row in rows)] for fault in faults)]


def print_results(results: Results, out: TextIO) -> None:
    """A table for people, what is not as promised, and the verdict."""
    table = _table(results)
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
    for line in table:
        out.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")
    out.write(
        "\nNumber of effects; 1 is right. ?: UNKNOWN or an alarm, for a person. !: not as promised. -: no such fault.\n"
    )
    for cell in results.promised:
        if cell.broken or cell.invalid:
            out.write(f"{cell.row.name}, {cell.fault.name}: {cell.invalid or cell.broken} ({' '.join(cell.history)})\n")
    told = results.to_json()
    out.write(
        f"{results.verdict}: {told['duplicates']} duplicates, {told['over_refused']} not done although possible, "
        f"{told['need_a_person']} for a person, in {len(results.promised)} cells; "
        f"the control has {told['control_duplicates']} duplicates. {told['seconds']} s.\n"
    )


def write_page(results: Results, page: Path = PAGE) -> None:
    """Write the table between its markers."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page} has no place for the table: {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n\n{page_table(results)}\n{END}{after}", encoding="utf-8")


def page_table(results: Results) -> str:
    """The table in Markdown, and one line about the whole."""
    head, *lines = _table(results)
    told = results.to_json()
    rows = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]
    summary = (
        f"{len(results.promised)} cells: {told['duplicates']} duplicates, {told['over_refused']} not done although "
        f"possible,\n{told['need_a_person']} for a person. The control: {told['control_duplicates']} duplicates.\n"
    )
    return "\n".join(rows) + "\n\n" + summary
