"""What the experiment saw: for people, and as JSON."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import version
from typing import Any, TextIO

from experiments.cancelled.campaign import Judged, Results

PACKAGES = ("langgraph", "langgraph-checkpoint-postgres", "psycopg", "onward-ledger")


def figures(results: Results) -> dict[str, Any]:
    """Everything as JSON: the verdict, figures by way and world, and a line for each case."""
    return {
        "verdict": results.verdict,
        "store": results.options.store,
        "whole": results.options.whole,
        "seconds": round(results.seconds, 1),
        "recorded": results.recorded,
        "asked": results.asked,
        "rows": _rows(results),
        "reached": results.reached,
        "controls": [vars(control) for control in results.controls],
        "contradictions": list(results.contradictions),
        "doubts": list(results.doubts),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "cases": [_case(judged) for judged in results.judged],
    }


def _case(judged: Judged) -> dict[str, Any]:
    seen = judged.seen
    return {
        "world": judged.world,
        "way": seen.place.way,
        "boundary": str(seen.place.at),
        "status": seen.status,
        "met": seen.met,
        "raced": seen.raced,
        "actions": {f"{a.step}/{a.slot}": str(a.status) for a in seen.actions},
        "taken_back": len(seen.undone),
        "epochs": list(seen.evidence.ended.epochs),
        "violations": list(judged.violations),
        "invalid": judged.invalid,
        "seconds": round(seen.seconds, 2),
    }


def _rows(results: Results) -> list[dict[str, Any]]:
    """One for each world and way."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for judged in results.judged:
        groups.setdefault((judged.world, judged.seen.place.way), []).append(judged)
    return [
        {
            "world": world,
            "way": way,
            "cancels": len(found),
            **_ends(found),
            "raced": sum(j.seen.raced for j in found),
            "taken_back": sum(len(j.seen.undone) for j in found),
            "wrong": sum(bool(j.violations) for j in found),
        }
        for (world, way), found in sorted(groups.items())
    ]


def _ends(found: list[Judged]) -> dict[str, int]:
    ends = Counter(judged.seen.status for judged in found)
    return {"cancelled": ends["cancelled"], "succeeded": ends["succeeded"]}


def print_results(results: Results, out: TextIO) -> None:
    """The table and the verdict."""
    columns = ("world", "way", "cancels", "cancelled", "succeeded", "raced", "taken_back", "wrong")
    lines = [columns, *(tuple(str(row[name]) for name in columns) for row in _rows(results))]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    for line in lines:
        out.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")
    out.write("\nreached: " + ", ".join(f"{name} {count}" for name, count in results.reached.items()) + "\n")
    for control in results.controls:
        told = f"noticed after {control.cases} cases: {control.noticed}" if control.noticed else "not noticed"
        out.write(f"control, {control.name}: {told}\n")
    for title, found in (("contradicts", results.contradictions), ("proves nothing", results.doubts)):
        out.writelines(f"{title}: {line}\n" for line in found[:20])
        if len(found) > 20:
            out.write(f"{title}: {len(found) - 20} more, see --json\n")
    out.write(f"\n{results.verdict}: {_said(results)}\n")


def _said(results: Results) -> str:
    what = f"{len(results.judged)} cancels at {sum(results.recorded.values())} moments of {results.options.store}"
    what += f" in {results.seconds:.0f} s"
    if results.verdict == "pass":
        return f"{what}: each run ended once, as cancelled or as succeeded, with the effects that belong to that."
    return f"{what}; {len(results.contradictions)} contradictions, {len(results.doubts)} doubts."
