"""The results of a soak in words."""

from __future__ import annotations

from typing import TextIO

from experiments.soaking.results import Results

MOST_SHOWN = 20


def print_results(results: Results, to: TextIO) -> None:
    """A page of plain text."""
    told = results.to_json()
    kills = ", ".join(f"{count} of {kind}" for kind, count in sorted(told["kills"].items())) or "none"
    lines = [
        f"{told['runs']} runs over {results.workers} workers, seed {results.seed}; kills: {kills}",
        f"runs: {_counts(told['runs_by_status'])}; {told['runs_hit']} were hit, {told['takeovers']} take-overs",
        f"effects in the API's log: {told['effects']}; {told['duplicates']} duplicates, {told['lost']} lost",
        f"effects that were UNKNOWN at some time: {told['unknown_ever']}; "
        f"settled by a person: {len(told['settled_by_a_person'])}",
        f"at 95 % confidence at most {told['wrong_at_most']['of_those_hit']:.3%} of runs that are hit are wrong, "
        f"and {told['wrong_at_most']['of_all']:.3%} of all (Clopper-Pearson)",
        f"steps executed again: {told['steps_repeated']}; from queued to the end: "
        f"p50 {told['queued_to_end_seconds']['p50']} s, p95 {told['queued_to_end_seconds']['p95']} s, "
        f"max {told['queued_to_end_seconds']['max']} s",
    ]
    for role, seen in told["memory"].items():
        if seen["lives"]:
            longest = seen["longest"]
            lines.append(
                f"{role}: {seen['lives']} watched; growth p50 {seen['rss_kib_per_minute']['p50']} KiB a minute; the "
                f"longest ({longest['seconds']:.0f} s) {longest['rss_kib'][0]} → {longest['rss_kib'][1]} KiB, "
                f"{longest['files'][0]} → {longest['files'][1]} open files"
            )
    largest = list(told["tables"].items())[:6]
    lines.append("largest tables: " + ", ".join(f"{name} {one['bytes'] / 1024**2:.1f} MiB" for name, one in largest))
    lines += [f"  {what}" for what in (*told["broken"], *told["invalid"])[:MOST_SHOWN]]
    lines.append(f"verdict: {told['verdict']}" + (" (interrupted)" if told["interrupted"] else ""))
    to.write("\n".join(lines) + "\n")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
