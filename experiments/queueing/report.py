"""The measurements in words."""

from __future__ import annotations

from typing import Any, TextIO

from experiments.queueing.results import Results


def print_results(results: Results, to: TextIO) -> None:
    """A page of plain text."""
    told = results.to_json()
    lengths = results.queued
    lines = [
        f"{results.rounds} rounds; each rate over {results.runs} runs of four steps and two effects",
        _row("", (f"{length:,} queued" for length in lengths), "ratio"),
    ]
    for workers in results.workers:
        rates = (told["runs_per_second"][str(length)][str(workers)] for length in lengths)
        ratio = told["rate_ratio_longest_to_shortest"][str(workers)]
        name = f"{workers} worker{'s' if workers > 1 else ''}, runs a second"
        lines.append(
            _row(
                name,
                (f"{one['median']:.1f} ({one['p10']:.1f}-{one['p90']:.1f})" for one in rates),
                f"{ratio['ratio']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})",
            )
        )
    for name, figures in (
        ("slot free to claim, ms", told["slot_free_to_claim_ms"]),
        ("arrival to claim, others not due, ms", told["arrival_to_claim_ms"]),
        *((f"{name}, ms", told["looks_ms"][name]) for name in results.looks),
    ):
        lines.append(_row(name, (_figure(figures[str(length)]) for length in lengths), _ratio(figures, lengths)))
    lines += [f"  not flat: {what}" for what in results.not_flat]
    lines.append(f"verdict: {results.verdict}")
    to.write("\n".join(lines) + "\n")


def _row(name: str, values: Any, last: str) -> str:
    return f"{name:38}" + "".join(f"{value:>22}" for value in values) + f"{last:>20}"


def _figure(told: dict[str, float] | None) -> str:
    return "-" if told is None else f"{told['p50']:.1f} (p95 {told['p95']:.1f})"


def _ratio(figures: dict[str, Any], lengths: tuple[int, ...]) -> str:
    short, long = figures[str(min(lengths))], figures[str(max(lengths))]
    return "-" if short is None or long is None or not short["p50"] else f"{long['p50'] / short['p50']:.1f}"
