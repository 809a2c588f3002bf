"""What a reader sees: which node repeats what, where, and what to change; the verdict; the same as JSON."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Iterator
from importlib.metadata import version
from itertools import groupby
from typing import Any, TextIO

from experiments.anygraph import advice
from experiments.anygraph.advice import Finding
from experiments.anygraph.campaign import Results
from experiments.anygraph.case import Case, describe
from experiments.anygraph.stable import shown

WIDTH = 120
PACKAGES = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")
SHOWN_BOUNDARIES = 4  # of a finding, in the terminal; JSON has them all


def findings(results: Results) -> list[Finding]:
    """Units that repeat an effect."""
    told = results.reference.runs[0].ran.told
    functional = bool(told and told.functional)
    return advice.find(results.reference, results.cases, results.target.durability, functional)


def print_results(results: Results, stream: TextIO) -> None:
    """For a person."""
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else WIDTH)
    console.print(f"\n{results.target.file.name}:{results.target.name}, killed at {_killed(results)} boundaries\n")
    found = findings(results)
    if found:
        _table(console, results, found)
    for _, same in groupby(found, key=lambda finding: finding.node):
        _node(console, list(same), _killed(results))
    others = advice.general(results.cases)
    for case in _others(results):
        console.print(f"\n{describe(case.boundary)}: {case.words}", style="red")
    for line in others:
        console.print(textwrap.fill(line, WIDTH, initial_indent="  - ", subsequent_indent="    "))
    for line in _summary(results):
        console.print(line)


def _node(console: Any, found: list[Finding], killed: int) -> None:
    """All that one node repeats, and then once what to change."""
    console.print()
    for finding in found:
        console.print(headline(finding, killed), style="bold")
        for place in finding.repeated_at[:SHOWN_BOUNDARIES]:
            console.print(f"    {place}", style="red")
        if (more := len(finding.repeated_at) - SHOWN_BOUNDARIES) > 0:
            console.print(f"    and {more} more {'place' if more == 1 else 'places'}")
    for line in dict.fromkeys(line for finding in found for line in finding.advice):
        console.print(textwrap.fill(line, WIDTH, initial_indent="  - ", subsequent_indent="    "))


def headline(finding: Finding, killed: int) -> str:
    """`node settle: refunds happened twice when the process died there (12 of 78 kills)`."""
    times = "twice" if finding.most == 1 else f"up to {finding.most + 1} times"
    what = f"{finding.kind} {finding.node}: {finding.effect} happened {times}"
    parts = ["without any kill, when the question was answered"] if finding.without_fault else []
    if finding.repeated_at:
        parts.append(
            f"when the process died after the effect and before its result was stored "
            f"({len(finding.repeated_at)} of {killed} kills)"
        )
    return f"{what} {', and again '.join(parts)}"


def _table(console: Any, results: Results, found: list[Finding]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("node", "effect", "repeated", "without a kill"):
        table.add_column(name)
    for finding in found:
        repeated = f"at {len(finding.repeated_at)} of {_killed(results)}" if finding.repeated_at else "-"
        table.add_row(finding.node, finding.effect, repeated, "yes" if finding.without_fault else "-")
    console.print(table)


def _killed(results: Results) -> int:
    return sum(case.fired for case in results.cases)


def _others(results: Results) -> list[Case]:
    """The first case of each thing that is no repetition."""
    seen: dict[str, Case] = {}
    for case in results.cases:
        if case.fired and (case.lost or case.changed or case.wrong or case.trouble is not None or case.after_end):
            seen.setdefault(case.words, case)
    return list(seen.values())


def _summary(results: Results) -> Iterator[str]:
    yield ""
    for note in results.notes:
        yield f"Note: {note}"
    if results.verdict == "invalid":
        for reason in results.reasons:
            yield f"- {reason}"
    figures = numbers(results)
    yield (
        f"{figures['boundaries']} boundaries, {figures['killed']} kills; duplicates {figures['duplicates']}, lost "
        f"{figures['lost']}, wrong results {figures['wrong']}, stuck {figures['stuck']}; steps executed again "
        f"{figures['reexecuted_steps']}; {results.seconds:.0f} s."
    )
    if results.stories is not None:
        yield f"What each process told, case by case: {results.stories}"
    yield f"Verdict: {results.verdict}."


def numbers(results: Results) -> dict[str, int]:
    """The figures. A case counts once in each, but for the steps that were executed again."""
    fired = [case for case in results.cases if case.fired]
    return {
        "boundaries": results.reference.passed,
        "killed": len(fired),
        "not_fired": len(results.cases) - len(fired),
        "duplicates": sum(bool(case.duplicates) for case in fired),
        "lost": sum(bool(case.lost) for case in fired),
        "wrong": sum(bool(case.wrong or case.changed) for case in fired),
        "stuck": sum(case.trouble is not None for case in fired),
        "executed_after_end": sum(bool(case.after_end) for case in fired),
        "reexecuted_steps": sum(case.reexecuted.total() for case in fired),
    }


def to_json(results: Results) -> dict[str, Any]:
    """The whole campaign as JSON values."""
    reference, killed = results.reference, _killed(results)
    return {
        "verdict": results.verdict,
        "reasons": list(results.reasons),
        "notes": list(results.notes),
        "graph": results.target.graph,
        "store": results.store,
        "durability": results.target.durability,
        "ainvoke": bool(results.target.asynchronous),
        "lanes": results.lanes,
        **numbers(results),
        "nodes": [
            {
                "node": finding.node,
                "kind": finding.kind,
                "effect": finding.effect,
                "repeated_at": list(finding.repeated_at),
                "of": killed,
                "without_fault": finding.without_fault,
                "advice": list(finding.advice),
            }
            for finding in findings(results)
        ],
        "advice": advice.general(results.cases),
        "effects": {name: sum(seen.values()) for name, seen in reference.effects.items()},
        "executed": dict(reference.executed),
        "not_compared": {
            "result": shown(reference.value_paths),
            **{name: shown(paths) for name, paths in reference.effect_paths.items()},
        },
        "not_reproducible": [describe(boundary) for boundary in sorted(reference.unsure)],
        "cases": [_case(case) for case in results.cases],
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "seconds": round(results.seconds, 1),
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "boundary": describe(case.boundary),
        "fired": case.fired,
        "duplicates": case.duplicates,
        "lost": case.lost,
        "changed": case.changed,
        "wrong": list(case.wrong),
        "stuck": case.trouble,
        "executed_again": dict(case.reexecuted),
        "executed_after_end": list(case.after_end),
        "stories": [f"{case.stories}-{number}.txt" for number in (1, 2, 3)],
        "seconds": round(case.seconds, 2),
    }
