"""The tables of `docs/benchmarks.md`: each written by the program that measured it, between markers of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.benchmarks.report import facts, shown
from experiments.benchmarks.services import ROOT
from experiments.benchmarks.suite import Results
from experiments.errors import NotRun

DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- written by experiments/bench.py --write-docs -->", "<!-- end of what the program wrote -->"
COLUMNS = ("figure", "value", "95 % interval", "noise", "p10 … p90", "target", "what it is")


@dataclass(frozen=True, kw_only=True)
class Section:
    """Where one table stands: its markers, and the head of its first column."""

    begin: str
    end: str
    first: str


RUNS = Section(begin=BEGIN, end=END, first=COLUMNS[0])
LEDGER = Section(
    begin="<!-- written by experiments/bench_ledger.py --write-docs -->",
    end="<!-- end of what the ledger's program wrote -->",
    first="figure of the ledger",
)


def write_document(results: Results, path: Path = DOCUMENT, section: Section = RUNS) -> None:
    """Replace what stands between the markers. NotRun when they are not there once each."""
    begin, end = section.begin, section.end
    text = path.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise NotRun(f"{path} does not have both markers once: {begin} and {end}.")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n\n{table(results, section)}\n{end}{after}", encoding="utf-8")


def table(results: Results, section: Section = RUNS) -> str:
    """The figures as a table, and where they were measured."""
    first, *others = COLUMNS
    lines = [f"| {' | '.join((section.first, *others))} |", f"|{'---|' * len(COLUMNS)}"]
    for figure in results.figures:
        row = shown(figure) | {first: f"`{figure.declared.key}`"}
        lines.append(f"| {' | '.join(row[name] for name in COLUMNS)} |")
    lines += ["", f"Measured on {facts(results)} {results.rounds} rounds."]
    if results.machine.warning is not None:
        lines += ["", results.machine.warning]
    return "\n".join(lines) + "\n"
