"""What a reader sees: one table in the terminal, the same as JSON, and every sample as a line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from experiments.benchmarks.figures import Figure
from experiments.benchmarks.machine import PACKAGES
from experiments.benchmarks.suite import Results


def number(value: float) -> str:
    """As many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def shown(figure: Figure) -> dict[str, str]:
    """One row of the table, for the terminal and for the documents alike."""
    unit = figure.declared.unit
    suffix = "" if unit == "ratio" else f" {unit}"
    ours = f"{number(figure.ours.p10)} … {number(figure.ours.p90)}"
    return {
        "figure": figure.declared.key,
        "value": f"{number(figure.value)}{suffix}",
        "95 % interval": _between(figure.low, figure.high),
        "noise": _between(*figure.noise) if figure.noise else "",
        "p10 … p90": "" if unit == "ratio" else ours,
        "samples": str(figure.ours.samples),
        "target": _target(figure),
        "what it is": figure.declared.says,
    }


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{number(low)} … {number(high)}"


def _target(figure: Figure) -> str:
    if figure.met is None:
        return ""
    word = "met" if figure.met else "missed"
    sign = "≥" if figure.declared.least else "≤"
    return f"{sign} {figure.declared.target:g}: {word}" + ("" if figure.clear else ", not clearly")


def print_results(results: Results, stream: TextIO) -> None:
    """The table and what is needed to read it."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 180)
    table = Table(box=None, pad_edge=False)
    rows = [(shown(figure), figure.met) for figure in results.figures]
    for name in rows[0][0]:
        table.add_column(name, overflow="fold", justify="right" if name in ("value", "samples") else "left")
    for row, met in rows:
        table.add_row(*row.values(), style={None: None, True: "green", False: "red"}[met])
    console.print(table)
    for line in reading(results):
        console.print(line)


def reading(results: Results) -> list[str]:
    """How the table is to be read, and on which machine it was measured."""
    lines = [
        "Ratios are of medians of interleaved rounds; the interval is a bootstrap over the rounds. Noise is the floor "
        "measured against itself in the same rounds: a ratio inside it says nothing.",
        f"{facts(results)} {results.rounds} rounds, {results.seconds:.0f} s.",
    ]
    if results.machine.warning is not None:
        lines.append(results.machine.warning)
    if results.missed:
        keys = ", ".join(figure.declared.key for figure in results.missed)
        lines.append(f"Missed: {keys}. `--profile` of bench.py shows where the time goes.")
    return lines


def facts(results: Results) -> str:
    """The machine in a sentence."""
    machine, server = results.machine, results.server
    settings = ", ".join(f"{name} {value}" for name, value in server.items() if name != "postgres")
    others = (name for name in results.versions if name not in ("python", *PACKAGES))
    packages = ", ".join(f"{name} {results.versions[name]}" for name in ("langgraph", *others))
    return (
        f"{machine.system}, {machine.cores} cores, load {machine.load:g} at the start, "
        f"Python {results.versions['python']}, Postgres {server['postgres']} ({settings}), "
        f"{packages}."
    )


def to_json(results: Results) -> dict[str, Any]:
    """Every figure by its key, ratios with `_low` and `_high`; then the details of each, and where it was measured."""
    plain: dict[str, Any] = {}
    for figure in results.figures:
        key = figure.declared.key
        plain[key] = round(figure.value, 4)
        if figure.low is not None and figure.high is not None:
            plain |= {f"{key}_low": round(figure.low, 4), f"{key}_high": round(figure.high, 4)}
    return {
        **plain,
        "missed": [figure.declared.key for figure in results.missed],
        "figures": {figure.declared.key: _details(figure) for figure in results.figures},
        "rows_by_table": _rows_by_table(results),
        "rounds": results.rounds,
        "seconds": round(results.seconds, 1),
        "machine": results.machine.to_json() | dict(results.server),
        "warning": results.machine.warning,
        "versions": dict(results.versions),
    }


def _details(figure: Figure) -> dict[str, Any]:
    return {
        "unit": figure.declared.unit,
        "says": figure.declared.says,
        "value": figure.value,
        "target": figure.declared.target,
        "met": figure.met,
        "low": figure.low,
        "high": figure.high,
        "noise": list(figure.noise) if figure.noise else None,
        "ours": asdict(figure.ours),
        "floor": asdict(figure.floor) if figure.floor else None,
    }


def _rows_by_table(results: Results) -> dict[str, float]:
    volume = results.measured.get("volume")
    found = volume.samples if volume is not None else {}
    return {name: sorted(taken)[len(taken) // 2] for name, taken in found.items() if ", rows of " in name}


def keep(results: Results, folder: Path) -> None:
    """`results.json`, and `samples.jsonl` with one line per sample."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(to_json(results), indent=2) + "\n", encoding="utf-8")
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:
        for measurement, measured in results.measured.items():
            for subject, taken in measured.samples.items():
                for place, value in enumerate(taken, 1):
                    line = {"measurement": measurement, "subject": subject, "round": place, "value": value}
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
