"""What a reader sees in the terminal: one table, how it is read, and what speaks against the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from experiments.peers.columns import COLUMNS
from experiments.peers.results import Results


def print_results(results: Results, stream: TextIO) -> None:
    """The table and the sentences below it."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 150)
    table = Table(box=None, pad_edge=False)
    rows = results.to_json()["table"]
    shown = [column.name for column in COLUMNS if any(column.name in row for row in rows)]
    names = ["system", "provider", *shown, "duplicates", "over_refusals", "for_a_person"]
    for name in names:
        table.add_column(name.replace("_", " "), justify="left" if name in ("system", "provider") else "right")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in names))
    console.print(table)
    for line in _below(results):
        console.print(line)


def _below(results: Results) -> Iterator[str]:
    yield ""
    for column in COLUMNS:
        yield f"{column.name}  {column.says}"
    yield "Charges in the world; 1 is right, in C a refusal. ? the record is not settled: a person has to look."
    for system in results.to_json()["systems"]:
        yield f"{system['name']} {system['version']}: {system['store']}; {system['settings']}."
    for name in results.not_installed:
        yield f"Not installed, so not compared: {name}. `uv run --group peers …` has it."
    yield f"Seed {results.seed}, {results.seconds:.0f} s."
    for reason in results.reasons:
        yield f"- {reason}"
    yield f"Verdict on ours: {results.verdict}."
