"""The drill for people."""

from __future__ import annotations

from typing import TextIO

from experiments.upgrading.results import EXPECTED, Results, Seen

HEAD = ("runs of version 1 or 2", "runs", "published", "rejected", "duplicates", "lost", "other report", "steps again")


def print_results(results: Results, out: TextIO) -> None:
    """A table, what did not hold, and the verdict."""
    groups = list(dict.fromkeys(run.group for run in results.runs))
    table = [HEAD, *(_row(group, results.group(group), results.digest) for group in groups)]
    widths = [max(len(line[place]) for line in table) for place in range(len(HEAD))]
    for line in table:
        out.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")
    conflicts = sum(word.startswith("conflict") for run in results.runs for word in run.said)
    out.write(f"\n{conflicts} second decisions were refused with the one that stands.\n")
    for text in results.wrong:
        out.write(f"not as promised: {text}\n")
    control = results.control
    what = control.error or ("passes for finished" if control.finished else "goes on")
    out.write(
        f"control: version 1 resumed with the graph of version 2 by plain LangGraph {what}, outcome {control.outcome}\n"
    )
    held = sum(check.held for check in results.checks)
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in results.seconds.items())
    out.write(f"{results.verdict}: {held} of {len(results.checks)} checks held. {seconds}\n")


def _row(group: str, runs: list[Seen], digest: str | None) -> tuple[str, ...]:
    published = [run for run in runs if run.status == "succeeded"]
    rejected = [run for run in runs if run.reason == "rejected"]
    duplicates = sum(max(times - 1, 0) for run in runs for times in run.effects.values())
    lost = sum(kind not in run.effects for run in published for kind in EXPECTED["published"])
    other = sum(run.digest != digest for run in runs)
    again = sum(times - 1 for run in runs for times in run.attempts.values())
    counts = (len(runs), len(published), len(rejected), duplicates, lost, other, again)
    return (group, *map(str, counts))
