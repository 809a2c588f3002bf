"""The table of cases, for a terminal."""

from __future__ import annotations

from typing import TextIO

from experiments.hosts.results import Case, Results

HEAD = (
    *("case", "fired", "completed", "duplicates", "lost", "UNKNOWN", "stuck"),
    *("taken over", "alive", "progress s", "ended s", "claimed s", "back s"),
)
LEGEND = """
Taken over: claims behind the first one of a run; alive: those whose driver before lived still (it was cut off, or its
session had ended). Seconds: the first step after the heal of a run that had not ended; the end of the last of them; new
runs on the worker that was hit, alone: the first is claimed, one in each place has ended. -: nothing to measure.
"""


def line_of(case: Case) -> list[str]:
    """One row."""
    if not case.fired:
        return [case.name, "not run" if case.not_run else "no", *["-"] * (len(HEAD) - 2)]
    fired = f"{case.hit} runs" if case.hit else "-"
    counts = (case.duplicates, case.lost, case.unknown, case.stuck, case.takeovers, case.robbed)
    times = [_seconds(value) for value in (case.progress, case.ended, case.claimed, case.back)]
    return [case.name, fired, f"{case.completed}/{case.runs}", *map(str, counts), *times]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def print_results(results: Results, out: TextIO) -> None:
    """The table, what is not as it should be, and the verdict."""
    table = [list(HEAD), *(line_of(case) for case in results.cases)]
    widths = [max(len(line[place]) for line in table) for place in range(len(HEAD))]
    for line in table:
        out.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")
    out.write(LEGEND + "\n")
    for case in results.cases:
        for said in (*(each for each in (case.not_run, case.invalid) if each), *case.broken, *case.notes):
            out.write(f"{case.name}: {said}\n")
    fired = [case for case in results.cases[1:] if case.fired]
    names = ("completed", "runs", "duplicates", "lost", "unknown", "stuck")
    completed, runs, duplicates, lost, unknown, stuck = (sum(getattr(case, name) for case in fired) for name in names)
    out.write(
        f"{results.verdict}: {len(fired)} faults fired, {completed} of {runs} runs completed, {duplicates} duplicates, "
        f"{lost} lost, {unknown} UNKNOWN, {stuck} stuck; {sum(case.not_run is not None for case in results.cases)} "
        f"cases not run. {results.seconds:.0f} s.\n"
    )
