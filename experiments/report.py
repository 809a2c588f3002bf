"""What a reader sees in the terminal: one table of groups, the mutants, what was wrong with its story, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TextIO

from experiments.evidence import Evidence
from experiments.plan import GROUPS
from experiments.results import Outcome, Results, to_json
from experiments.story import ACCEPTED, CRASH, REUSE, STOP, Process

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
MOST_STORIES = 3
FEW = 10
EXAMPLE = "deliver: after effect"


# --- the story ------------------------------------------------------------------------------------------------------


def story(case: Evidence) -> Iterator[str]:
    """The lines of a case's processes under a heading each."""
    for number, process in enumerate(case.processes):
        yield f"# {ordinal(number)} process{_errand(case, number)}"
        yield from folded(process)
    for process in case.services:
        if process.crash or process.stop:
            yield "# the ledger"
            yield from (line for line in process.lines if not line.startswith("END "))
    for process in case.clients:
        yield "# somebody else"
        yield from folded(process)


def ordinal(number: int) -> str:
    """`first` for 0."""
    return ORDINALS[number] if number < len(ORDINALS) else f"{number + 1}th"


def _errand(case: Evidence, number: int) -> str:
    if number == len(case.processes) - 1:
        return ", resumes the finished run"
    return "" if number == 0 else ", resumes by the same thread_id"


def folded(process: Process) -> Iterator[str]:
    """The lines of one process; the same line several times in a row is one line with a count."""
    shown = [line for line in process.lines if not line.startswith("END ")]
    for line, same in groupby(shown):
        times = len(list(same))
        yield line if times == 1 else f"{line} ({times} times)"
    if not shown:
        yield "(executes nothing)"
    if process.end is None and process.crash is None:
        yield f"(ended with {process.exit_code}: {process.last_words or 'without a word'})"


def nodes(process: Process) -> str:
    """The nodes that a process executed: `plan analyze×2 write_draft`."""
    if not process.executed:
        return "-"
    named = [(name, len(list(same))) for name, same in groupby(process.executed)]
    return " ".join(name if times == 1 else f"{name}×{times}" for name, times in named)


# --- the table ------------------------------------------------------------------------------------------------------

COLUMNS = ("what was done", "cases", "ok", "wrong", "unknown", "did not fire", "duplicates", "lost", "nodes repeated")


def rows(results: Results) -> Iterator[tuple[str, ...]]:
    """A row for each group, and one for the control."""
    for name, outcomes in results.groups():
        yield row(GROUPS[name], outcomes)
    if results.control:
        yield row("the control: plain LangGraph killed at every boundary", results.control, control=True)


def row(title: str, outcomes: tuple[Outcome, ...], *, control: bool = False) -> tuple[str, ...]:
    """The figures of one group. The control has no rule to break; its duplicates are what it is there for."""
    words = [outcome.word for outcome in outcomes]
    figures = [len(outcomes), words.count("ok"), words.count("wrong"), words.count("unknown"), words.count("invalid")]
    figures += [sum(o.case.duplicates for o in outcomes), sum(o.case.lost for o in outcomes)]
    figures.append(sum(outcome.reexecuted for outcome in outcomes))
    shown = [str(figure) for figure in figures]
    if control:
        repeating = sum(outcome.case.duplicates > 0 for outcome in outcomes)
        shown[1:3] = [str(len(outcomes) - repeating - words.count("invalid")), str(repeating)]
    return (title, *shown)


def print_results(results: Results, stream: TextIO) -> None:
    """Table, mutants, stories of what was wrong, and the verdict, for a reader."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 160)
    table = Table(title=f"\nOnward on {results.store}", title_justify="left", box=None)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
    for cells in rows(results):
        table.add_row(*cells, style="dim" if cells[0].startswith("the control") else None)
    console.print(table)
    for line in _mutants(results):
        console.print(line)
    for line, style in _stories(results):
        console.print(line, style=style)
    for line in summary(results):
        console.print(line)


def _mutants(results: Results) -> Iterator[str]:
    if not results.hunted:
        return
    yield "\nMutants: the protocol with one rule taken out. Each must be caught."
    for hunted in results.hunted:
        caught = hunted.caught
        seen = "NOT CAUGHT" if caught is None else f"caught at {caught.case.name!r}: {caught.violations[0].seen}"
        yield f"  {hunted.mutant.name:<16} {hunted.mutant.what}\n{'':<19}{seen}"


def _stories(results: Results) -> Iterator[tuple[str, str | None]]:
    """The stories of the first cases that are not as they should be; where all are, one that shows how it goes.

    Of a few cases that were asked for, every one.
    """
    bad = [outcome for outcome in results.outcomes if outcome.word in ("wrong", "invalid")]
    few = results.outcomes if len(results.outcomes) <= FEW else ()
    for outcome in bad[:MOST_STORIES] or few or _example(results):
        yield from _told(outcome)
    if len(bad) > MOST_STORIES:
        yield f"\n{len(bad) - MOST_STORIES} more are in results.json and on the page, with --out DIR.", None


def _example(results: Results) -> tuple[Outcome, ...]:
    """The window that checkpoints alone cannot close."""
    return tuple(o for o in results.outcomes if o.case.plan.group == "points" and o.case.name == EXAMPLE)


def _told(outcome: Outcome) -> Iterator[tuple[str, str | None]]:
    case = outcome.case
    yield f"\n== {outcome.word.upper()}: {GROUPS[case.plan.group]}: {case.name}", "bold"
    for violation in (*outcome.violations, *outcome.invalid):
        yield f"   {violation}", "red"
    for line in story(case):
        yield line, _style(line)
    yield from _world(case)


def _world(case: Evidence) -> Iterator[tuple[str, str | None]]:
    after = case.after
    yield "# what stands afterwards", "dim"
    yield f"run {after.status}; epochs {' '.join(map(str, after.epochs)) or 'none'}", None
    for effect in after.effects:
        again = ", which changed nothing" if effect.again else ""
        yield f"oracle line {effect.entry}: {effect.kind} {effect.digest[:12]}{again}", None
    for record in after.records:
        yield f"ledger: {record.step} {record.kind} {record.status} {str(record.receipt_digest)[:12]}", None


def _style(line: str) -> str | None:
    if line.startswith("#"):
        return "dim"
    if line.startswith((CRASH, STOP, ACCEPTED)):
        return "red"
    return "green" if line.startswith(REUSE) else None


def summary(results: Results) -> Iterator[str]:
    """The figures that count, and the verdict."""
    figures = to_json(results)
    yield ""
    for reason in results.reasons[:20]:
        yield f"- {reason}"
    for what in results.not_run:
        yield f"Not run: {what}."
    if results.planted:
        yield f"A defect was planted on purpose: {results.planted}."
    reached = ", ".join(f"{what} in {times} cases" for what, times in results.reached.items() if times)
    yield f"{figures['killed']} faulted runs, {figures['boundaries']} recorded boundaries."
    yield (
        f"Duplicates {figures['duplicates']}, lost {figures['lost']}, wrong {figures['wrong']}, "
        f"UNKNOWN {figures['unknown']}, not fired {figures['not_fired']}."
    )
    if figures["wrong_at_most"] is not None:
        yield f"At 95 % confidence at most {figures['wrong_at_most']:.3%} of such cases are wrong (Clopper-Pearson)."
    if figures["control_cases"]:
        yield (
            f"The control repeats effects in {figures['control_wrong']} of {figures['control_cases']} cases. "
            f"{figures['mutants_caught']} of {figures['mutants']} mutants are caught."
        )
    if reached:
        yield f"Reached: {reached}."
    recovery = figures["median_recovery_ms"]
    again = f"From a death to the next claim {recovery:.0f} ms (median); " if recovery is not None else ""
    yield f"{again}{figures['seconds']:.0f} s in all."
    yield f"Verdict: {results.verdict}."
