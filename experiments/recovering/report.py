"""The table: for a terminal, and for docs/benchmarks.md between markers of its own."""

from __future__ import annotations

from collections.abc import Generator
from typing import TextIO

from experiments.benchmarks.document import DOCUMENT
from experiments.errors import NotRun
from experiments.recovering.results import Column, Results, Times

BEGIN = "<!-- written by experiments/recovery.py --write-docs -->"
END = "<!-- end of what the program of recovery wrote -->"

HEAD = (
    *("system", "kills", "claim", "claim to record", "first on record", "step begins", "step done", "end"),
    *("duplicates", "lost", "unknown", "stuck", "steps again"),
)
NOTHING = "–"
# A step sleeps for a tenth of a second. One of twenty that takes so much longer shows that the machine is busy.
SLOW_STEP_SECONDS = 0.12


def rows(results: Results) -> list[list[str]]:
    """A line for each system, seconds as p50 / p95 / max; behind ours one for each kind of kill."""
    found: list[list[str]] = []
    for column in results.columns:
        if column.not_run is not None and not column.cases:
            found.append([column.name, "not run", *[NOTHING] * (len(HEAD) - 2)])
            continue
        found.append(_row(column))
        if column.ours:
            found += [_part(column, target) for target, cases in column.by_target.items() if cases]
    return found


def _row(column: Column) -> list[str]:
    counts = column.counts
    shown = (counts[name] for name in ("duplicates", "lost", "unknown", "stuck", "executed_again"))
    return [column.name, str(counts["kills"]), *_times(column, None), *map(str, shown)]


def _part(column: Column, target: str) -> list[str]:
    cases = column.by_target[target]
    return [f"{column.name}: {target}s killed", str(len(cases)), *_times(column, target), *[""] * 5]


def _times(column: Column, target: str | None) -> list[str]:
    cases = column.struck if target is None else column.by_target[target]
    return [seconds(column.times(name, cases)) for name in ("claim", "work", "recorded", "begins", "done", "ended")]


def seconds(times: Times | None) -> str:
    """p50 / p95 / max in seconds."""
    if times is None:
        return NOTHING
    return " / ".join(f"{value:.2f}" for value in (times.p50, times.p95, times.max))


def reading(results: Results) -> Generator[str]:
    """What the table says, in sentences."""
    yield (
        "Seconds from SIGKILL, as p50 / p95 / max over the kills after which it happened: detection is the time to the "
        "claim, work what comes between it and the record. For Onward they are the event `claimed` and the first "
        "checkpoint or receipt of the new epoch; peers have no such records, so there they are the beginning and the "
        "end of the first step in another process, which the columns behind show for all alike."
    )
    for aim in results.aims:
        word = "met" if aim.met else "missed"
        yield f"{aim.system}: {aim.says} {aim.value_seconds:.3f} s, aimed at {aim.aim_seconds:g} s: {word}."
    for column in results.columns:
        if column.step_times is not None and column.step_times.p95 > SLOW_STEP_SECONDS:
            yield (
                f"{column.name}: a step of 0.1 s took {seconds(column.step_times)} s: other work had the machine too, "
                "and the times of this line are longer than on a quiet one."
            )
        if column.not_run is not None:
            yield f"{column.name} was not run to its end: {column.not_run}"
        if column.ours:
            yield from (f"{column.name}, {line}" for line in column.broken)
    yield _verdict(results)


def _verdict(results: Results) -> str:
    ours = [column.counts for column in results.ours]
    total = {name: sum(counts[name] for counts in ours) for name in ("kills", "duplicates", "lost", "unknown", "stuck")}
    bound = results.wrong_at_most
    said = (
        f"{results.verdict}: {total['duplicates']} duplicates, {total['lost']} lost, {total['unknown']} unknown, "
        f"{total['stuck']} stuck in {total['kills']} runs of ours that were hit"
    )
    said += f" (wrong at most {bound:.2%} of such runs, at 95 %)" if bound is not None else ""
    if results.control:
        return f"{said}; the same kills made {results.control_duplicates} duplicates among the peers."
    return f"{said}; without peers there is no control."


def settings(results: Results) -> Generator[str]:
    """How each system was set up."""
    for column in results.columns:
        packages = ", ".join(f"{name} {version}" for name, version in column.versions.items())
        yield f"{column.name} ({packages or 'not installed'}): {column.settings}"


def where(results: Results) -> str:
    """The machine, the plan."""
    machine, server = results.machine, results.server
    facts = ", ".join(f"{name} {value}" for name, value in server.items() if name != "postgres")
    return (
        f"{machine.system}, {machine.cores} cores, load {machine.load:g} at the start, Python "
        f"{results.versions['python']}, Postgres {server['postgres']} ({facts}). Seed {results.seed}, {results.kills} "
        f"kills for each column of ours, {results.peer_kills} for each peer (they take long), {results.seconds:.0f} s."
    )


def print_results(results: Results, stream: TextIO) -> None:
    """A table for people, how to read it, and the verdict."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 200)
    table = Table(box=None, pad_edge=False)
    for name in HEAD:
        table.add_column(name, overflow="fold", justify="left" if name == HEAD[0] else "right")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)
    for line in (*settings(results), where(results), *reading(results)):
        console.print(line)


def write_document(results: Results) -> None:
    """Replace what stands between the markers. NotRun when they are not there once each."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise NotRun(f"{DOCUMENT} does not have both markers once: {BEGIN} and {END}.")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{page(results)}\n{END}{after}", encoding="utf-8")


def page(results: Results) -> str:
    """The same in Markdown."""
    lines = [f"| {' | '.join(line)} |" for line in (list(HEAD), ["---"] * len(HEAD), *rows(results))]
    lines += ["", *(f"* {line}." for line in settings(results)), "", where(results)]
    if results.machine.warning is not None:
        lines += ["", results.machine.warning]
    for line in reading(results):
        lines += ["", line]
    return "\n".join(lines) + "\n"
