"""All kills of somebody's graph, and the verdict.

pass        every fault fired, and no killed run differs from the runs without a fault
disproved   effects repeat or are lost, the result is another one, or a thread does not end
invalid     nothing was tested: nothing was counted, runs without a fault differ, or a fault did not fire
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.anygraph.case import Case, describe, kill_once
from experiments.anygraph.effects import Effect
from experiments.anygraph.errors import GraphError
from experiments.anygraph.lab import Lab
from experiments.anygraph.place import place
from experiments.anygraph.reference import Reference, find_reference
from experiments.anygraph.request import Store, Target
from experiments.boundaries import Boundary
from runs.foreign.sources import packages_of

Verdict = Literal["pass", "disproved", "invalid"]
Tell = Callable[[str], None]
PROGRESS_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Results:
    """A whole campaign. `reasons` say why a verdict is not "pass", one sentence each."""

    target: Target
    store: Store
    reference: Reference
    cases: tuple[Case, ...]
    lanes: int
    verdict: Verdict
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    stories: Path | None = None


def run_campaign(
    target: Target,
    effects: Sequence[Effect],
    store: Store,
    tell: Tell,
    *,
    keep: Path | None = None,
    lanes: int | None = None,
    only: str | None = None,
    longest_seconds: float = 60.0,
) -> Results:
    """Find the boundaries of their graph, kill it once at each, and judge. GraphError, NotRun when that cannot be."""
    began = time.monotonic()
    tell(f"starting {'Postgres' if store == 'postgres' else 'SQLite'} for the checkpoints, and a process to fork from")
    with place(store, packages_of(target.file), keep=keep) as here:
        lab = Lab(here, target, effects, longest_seconds)
        tell(f"running {target.name} without a fault, twice")
        lab, reference = find_reference(lab, tell)
        boundaries = [boundary for boundary in reference.boundaries if only is None or only in describe(boundary)]
        if not boundaries:
            raise GraphError(f"--only {only}: no boundary is called that.")
        side_by_side = (lanes or min(3, os.cpu_count() or 1)) if lab.side_by_side else 1
        cases: list[Case] = []
        if not reference.invalid:
            tell(f"{reference.passed} boundaries, {len(boundaries)} moments to kill at, {side_by_side} at a time")
            cases = _kill_everywhere(lab, reference, boundaries, side_by_side, tell)
        target = lab.target
    verdict, reasons = conclude(reference, cases)
    return Results(
        target=target,
        store=store,
        reference=reference,
        cases=tuple(cases),
        lanes=side_by_side,
        verdict=verdict,
        reasons=tuple(reasons),
        notes=tuple(_notes(target, reference, cases, side_by_side)),
        seconds=time.monotonic() - began,
        stories=keep / "stories" if keep is not None else None,
    )


def _kill_everywhere(
    lab: Lab, reference: Reference, boundaries: Sequence[Boundary], lanes: int, tell: Tell
) -> list[Case]:
    def kill(number: int, boundary: Boundary) -> Case:
        return kill_once(lab, reference, boundary, f"case-{number:03}")

    progress = _Progress(len(boundaries), tell)
    cases: dict[int, Case] = {}
    pool = ThreadPoolExecutor(lanes)
    running = {pool.submit(kill, n, boundary): n for n, boundary in enumerate(boundaries, 1)}
    try:
        for done in as_completed(running):
            cases[running[done]] = done.result()
            progress.tell(done.result())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # whoever ends the experiment ends their processes
    for number, case in sorted(cases.items()):
        if case.trouble is not None and lanes > 1:  # was it the neighbours? a lock held, a limit reached
            cases[number] = kill_once(lab, reference, case.boundary, f"case-{number:03}-alone")
    return [cases[number] for number in sorted(cases)]


class _Progress:
    """A line every two seconds, and one for the first of each thing that goes wrong."""

    def __init__(self, total: int, tell: Tell) -> None:
        self._total = total
        self._tell = tell
        self._began = self._last = time.monotonic()
        self._done = 0
        self._seen: set[str] = set()

    def tell(self, case: Case) -> None:
        self._done += 1
        now = time.monotonic()
        first = not case.is_clean and case.words not in self._seen
        self._seen.add(case.words)
        if first:
            self._tell(f"{describe(case.boundary)}: {case.words}")
        if now - self._last >= PROGRESS_SECONDS or self._done == self._total:
            self._last = now
            each = (now - self._began) / self._done
            left = each * (self._total - self._done)
            self._tell(f"{self._done} of {self._total}, {each:.2f} s each, about {left:.0f} s left")


def conclude(reference: Reference, cases: Sequence[Case]) -> tuple[Verdict, list[str]]:
    """The verdict and why."""
    invalid = list(reference.invalid)
    invalid += [
        f"{describe(case.boundary)}: the fault did not fire"
        for case in cases
        if not case.fired and case.boundary not in reference.unsure
    ]
    if not invalid and not any(case.fired for case in cases):
        invalid.append("no fault was tried")
    wrong = [f"{describe(case.boundary)}: {case.words}" for case in cases if case.fired and not case.is_clean]
    wrong += [
        f"{path}: {name} happens again without any fault, when the question after it is answered"
        for name in reference.effects
        for path in reference.attribution.without_fault(name)
    ]
    if wrong:
        return "disproved", wrong + invalid
    return ("invalid", invalid) if invalid else ("pass", [])


def _some(words: Iterable[str], most: int = 6) -> str:
    found = list(words)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _notes(target: Target, reference: Reference, cases: Sequence[Case], lanes: int) -> list[str]:
    """What a reader has to know to judge the figures."""
    from experiments.anygraph.stable import shown

    notes: list[str] = []
    if reference.value_paths:
        paths = ", ".join(shown(reference.value_paths))
        notes.append(f"Not compared in the result, because two runs without a fault differ in it: {paths}.")
    for name, paths in reference.effect_paths.items():
        if () in paths:
            notes.append(f"{name}: only their number is compared; their texts differ between two runs without a fault.")
        elif paths:
            notes.append(
                f"{name}: not compared, because two runs without a fault differ in it: {', '.join(shown(paths))}."
            )
    if reference.unsure:
        silent = sum(not case.fired for case in cases if case.boundary in reference.unsure)
        were = "boundary was" if len(reference.unsure) == 1 else "boundaries were"
        notes.append(
            f"{len(reference.unsure)} {were} passed by only one of two runs without a fault; "
            f"{silent} of them did not fire: {_some(map(describe, sorted(reference.unsure)))}."
        )
    first, second = (run.ran.executed for run in reference.runs)
    if first != second:
        notes.append(f"Two runs without a fault executed other nodes: {dict(first)} and {dict(second)}.")
    if not reference.attribution.executions:
        notes.append("Effects could not be counted node by node; which node has which effect is not known.")
    if len(target.answers) > len(reference.questions):
        left = len(target.answers) - len(reference.questions)
        notes.append(f"{left} of the answers {'was' if left == 1 else 'were'} not asked for.")
    told = reference.runs[0].ran.told
    for name in told.own_checkpointers if told else []:
        notes.append(f"The subgraph in {name} keeps a checkpointer of its own; it was left as it is.")
    if lanes == 1 and len(cases) > 1:
        notes.append("One at a time, because effects without {thread_id} belong to no thread.")
    return notes
