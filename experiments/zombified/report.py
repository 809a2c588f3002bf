"""What a reader sees: what was stopped where, what came of it, the verdict; and the same as JSON with every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from experiments.benchmarks.spread import quantile
from experiments.results import versions
from experiments.zombified.campaign import Judged, Results
from experiments.zombified.case import Zombie
from experiments.zombified.controls import CONTROLS
from experiments.zombified.long_steps import HOLDS, LongStep
from experiments.zombified.places import KINDS

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "writes", "runs", "events", "leases")
# Of the ledger's database; every other table that changed counts under its own name.
MOST_REASONS = 20

HEAD = ("stopped", "zombies", "held something open", "taken over", "ended", "forks", "late writes", "wrong")
TITLES = {
    "open": "inside an open pipeline or transaction",
    "write node": "inside a node that changes the world",
    "super-step": "between two super-steps",
    "elsewhere": "everywhere else",
}


def figures(results: Results) -> dict[str, Any]:
    """Everything, JSON values only. Times are milliseconds."""
    zombies = results.zombies
    return {
        "verdict": results.verdict,
        "contradictions": list(results.contradictions),
        "doubts": list(results.doubts),
        "store": results.options.store,
        "lease_seconds": results.options.lease_seconds,
        "only": results.options.only,
        "every": results.options.every,
        "wakes": list(results.options.wakes),
        "moments_recorded": results.recorded,
        "moments_by_kind": results.places,
        "moments_asked": results.asked,
        "zombies": len(zombies),
        "never_stopped": len(results.judged) - len(zombies),
        "held_something_open": sum(z.held for z in zombies),
        "taken_over": sum(z.taken for z in zombies),
        "further_take_overs": sum(z.further for z in zombies),
        "nothing_left_to_take": sum(z.nothing_left for z in zombies),
        "sessions_terminated": sum(z.terminated for z in zombies),
        "processes_ended_by_take_over": sum(z.killed for z in zombies),
        "ended_by_themselves": sum(z.exit_code is not None and not z.killed for z in zombies),
        "exit_codes": dict(Counter(str(z.exit_code) for z in zombies)),
        "forks": sum(z.forks for z in zombies),
        "late_writes": _late(zombies),
        "duplicates": sum(z.evidence.duplicates for z in zombies),
        "lost": sum(z.evidence.lost for z in zombies),
        "unknown": sum(z.evidence.after.unknown for z in zombies),
        "stale_epochs_refused_by_ledger": sum("stale-epoch" in z.evidence.refusals for z in zombies),
        "take_over_ms": spread([z.take_over_ms for z in zombies if z.lease]),
        "claim_ms": spread([z.claim_ms for z in zombies]),
        "end_ms": spread([z.end_ms for z in zombies]),
        "controls": {name: _control(results, name) for name in CONTROLS} if results.options.controls else None,
        "long_steps": [_long_step(step) for step in results.long_steps],
        "cases": [_case(each) for each in results.judged],
        "versions": versions(),
        "seconds": round(results.seconds, 1),
    }


def spread(samples: Sequence[float | None]) -> dict[str, float] | None:
    """p50, p95 and the largest."""
    known = [sample for sample in samples if sample is not None]
    if not known:
        return None
    return {
        "p50": round(quantile(known, 0.5), 1),
        "p95": round(quantile(known, 0.95), 1),
        "max": round(max(known), 1),
        "samples": len(known),
    }


def _late(zombies: Sequence[Zombie]) -> dict[str, int]:
    """Late writes by table; those that matter stand there also with 0."""
    counted: Counter[str] = Counter(dict.fromkeys(TABLES, 0))
    for zombie in zombies:
        changed = {change.table: change.made + change.gone for change in zombie.changed}
        for table, count in zombie.late:
            changed[table] = max(count, changed.get(table, 0))
        counted.update(changed)
    return dict(counted)


def _control(results: Results, name: str) -> dict[str, Any]:
    harm = results.harm(name)
    return {
        "zombies": sum(each.stopped for each in harm),
        "harmful": sum(each.harm for each in harm),
        "forked": sum(each.forks > 0 for each in harm),
        "wrote_late": sum(bool(each.late) for each in harm),
        "duplicates": sum(each.duplicates for each in harm),
        "stuck": sum(each.stuck for each in harm),
        "cases": [{"place": each.place, "forks": each.forks, "late": list(each.late)} for each in harm],
    }


def _long_step(step: LongStep) -> dict[str, Any]:
    return {
        "what": HOLDS[step.hold],
        "epochs": list(step.epochs),
        "take_overs": max(len(step.epochs) - 1, 0),
        "rivals_refused": step.refused,
        "exit_code": step.exit_code,
        "status": step.status,
        "effects": list(step.effects),
        "ended_behind_lease_ms": round(step.over_lease_ms, 1),
        "broken": step.broken if step.begun else "the step never began",
    }


def _case(judged: Judged) -> dict[str, Any]:
    zombie = judged.zombie
    return {
        "place": zombie.place,
        "kinds": list(zombie.kinds),
        "woken": zombie.wake,
        "invalid": judged.invalid,
        "violations": [str(violation) for violation in judged.violations],
        "held_something_open": zombie.held,
        "had_lease": zombie.lease,
        "nothing_left_to_take": zombie.nothing_left,
        "take_over_ms": _rounded(zombie.take_over_ms),
        "claim_ms": _rounded(zombie.claim_ms),
        "sessions_terminated": zombie.terminated,
        "ended_by_take_over": zombie.killed,
        "end_ms": _rounded(zombie.end_ms),
        "exit_code": zombie.exit_code,
        "changed": [str(change) for change in zombie.changed],
        "late": dict(zombie.late),
        "epochs": list(zombie.evidence.after.epochs),
        "status": zombie.evidence.after.status,
        "checkpoints": len(zombie.evidence.after.checkpoints),
        "refused_by_ledger": list(zombie.evidence.refusals),
        "processes": [list(process.lines) for process in zombie.evidence.processes],
        "seconds": round(zombie.seconds, 2),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


# --- the table --------------------------------------------------------------------------------------------------------


def rows(results: Results) -> Iterator[tuple[str, ...]]:
    """A row for each kind of place, and one for all; a zombie may count in several."""
    for kind in KINDS:
        of_kind = [each for each in results.judged if kind in each.zombie.kinds]
        if of_kind:
            yield _row(TITLES[kind], of_kind)
    yield _row("all", results.judged)


def _row(title: str, judged: Sequence[Judged]) -> tuple[str, ...]:
    zombies = [each.zombie for each in judged if each.invalid is None]
    numbers = (
        len(zombies),
        sum(z.held for z in zombies),
        sum(z.taken for z in zombies),
        sum(z.killed or z.exit_code is not None for z in zombies),
        sum(z.forks for z in zombies),
        sum(_late(zombies).values()),
        sum(bool(each.violations) for each in judged),
    )
    return (title, *map(str, numbers))


def print_results(results: Results, out: TextIO) -> None:
    """Table, times, controls, long steps, and the verdict with its reasons."""
    table = [HEAD, *rows(results)]
    widths = [max(len(line[place]) for line in table) for place in range(len(HEAD))]
    out.write(f"\nOnward on {results.options.store}: drivers that fell silent, were replaced, and woke\n\n")
    for title, *cells in table:
        shown = [title.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))]
        out.write("  ".join(shown).rstrip() + "\n")
    out.write("\n")
    for line in summary(results):
        out.write(line + "\n")


def summary(results: Results) -> Iterator[str]:
    """The figures that count, one line each."""
    told = figures(results)
    yield f"{results.asked} of {results.recorded} recorded moments, lease {results.options.lease_seconds:g} s."
    yield from _times(told)
    yield (
        f"Sessions terminated {told['sessions_terminated']}, processes ended by a take-over "
        f"{told['processes_ended_by_take_over']}, duplicates {told['duplicates']}, lost {told['lost']}, "
        f"UNKNOWN {told['unknown']}, further take-overs {told['further_take_overs']}; the ledger refused a stale epoch "
        f"in {told['stale_epochs_refused_by_ledger']} cases."
    )
    for name, control in (told["controls"] or {}).items():
        yield (
            f"Control, {name}: {control['harmful']} of {control['zombies']} did damage: {control['forked']} forked, "
            f"{control['wrote_late']} wrote late, {control['stuck']} kept the other waiting, "
            f"{control['duplicates']} duplicates."
        )
    for step in told["long_steps"]:
        yield (
            f"{step['what']}: taken over {step['take_overs']} times, {step['rivals_refused']} rivals refused, "
            f"first driver exit {step['exit_code']}, {step['ended_behind_lease_ms'] / 1000:.1f} s behind its lease."
        )
    for reason in (*results.contradictions, *results.doubts)[:MOST_REASONS]:
        yield f"- {reason}"
    yield f"Verdict: {results.verdict}. {told['seconds']:.0f} s."


def _times(told: dict[str, Any]) -> Iterator[str]:
    for key, name in (
        ("take_over_ms", "From the end of the lease to the claim of the next driver, its start included"),
        ("claim_ms", "The claim alone"),
        ("end_ms", "From waking to the end of the zombie"),
    ):
        if (found := told[key]) is not None:
            yield f"{name}: p50 {found['p50']:.0f} ms, p95 {found['p95']:.0f} ms, max {found['max']:.0f} ms."
