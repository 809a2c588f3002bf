"""The table of `docs/benchmarks.md`: written by the program that measured it, between two markers."""

from __future__ import annotations

from pathlib import Path

from experiments.benchmarks.report import facts, shown
from experiments.benchmarks.services import ROOT
from experiments.benchmarks.suite import Results
from experiments.errors import NotRun

DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- written by experiments/bench.py --write-docs -->", "<!-- end of what the program wrote -->"
COLUMNS = ("figure", "value", "95 % interval", "noise", "p10 … p90", "target", "what it is")


def write_document(results: Results, path: Path = DOCUMENT) -> None:
    """Replace what stands between the markers. NotRun when they are not there once each."""
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise NotRun(f"{path} does not have both markers once: {BEGIN} and {END}.")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{table(results)}\n{END}{after}", encoding="utf-8")


def table(results: Results) -> str:
    """The figures as a table, and where they were measured."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for figure in results.figures:
        row = shown(figure) | {"figure": f"`{figure.declared.key}`"}
        lines.append(f"| {' | '.join(row[name] for name in COLUMNS)} |")
    lines += ["", f"Measured on {facts(results)} {results.rounds} rounds."]
    if results.machine.warning is not None:
        lines += ["", results.machine.warning]
    return "\n".join(lines) + "\n"
