"""Runs without a fault: what every killed run is compared with.

Two of them are recorded. Boundaries that only one of them passes are not reproducible and are named as such; effects
and results are compared by what is the same in both (see `stable`). A third is watched unit by unit for `attribution`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.anygraph import answers
from experiments.anygraph.answers import Question
from experiments.anygraph.attribution import Attribution, attribute
from experiments.anygraph.errors import GraphError
from experiments.anygraph.lab import Effects, Lab, Ran, refuse, since
from experiments.anygraph.request import without_thread
from experiments.anygraph.stable import Path, counted, shown, varying, varying_items, without
from experiments.anygraph.units import NODE, TOOL
from experiments.boundaries import Boundary, moments

_ONLY_ASYNC = ("no synchronous function provided", "does not support sync invocation", "ainvoke")
_NO_INPUT = ("EmptyInputError",)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """One run without a fault, and what resuming it once more did."""

    ran: Ran
    again: Ran
    effects: Effects
    values: Any
    questions: tuple[Question, ...]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the runs without a fault agree in."""

    passed: int  # how many boundaries
    boundaries: tuple[Boundary, ...]  # where to kill: one for each moment
    unsure: frozenset[Boundary]  # passed by only one of them
    effects: dict[str, Counter[str]]
    effect_paths: dict[str, frozenset[Path]]
    values: Any
    value_paths: frozenset[Path]
    executed: Counter[str]
    questions: tuple[Question, ...]
    attribution: Attribution
    runs: tuple[Whole, ...]

    @property
    def invalid(self) -> list[str]:
        """Why nothing can be said with these runs, as sentences."""
        found = [
            f"{name}: nothing was counted, also without a fault" for name, n in self.effects.items() if not n.total()
        ]
        numbers = {name: [len(run.effects[name]) for run in self.runs] for name in self.effects}
        found += [
            f"{name}: {' and '.join(map(str, n))} effects in two runs without a fault; use {{thread_id}} in --input, "
            f"so that each run has something of its own to do"
            for name, n in numbers.items()
            if len(set(n)) > 1
        ]
        executed = [path for run in self.runs for path in [*run.again.executed, *run.again.called]]
        return found + [
            f"resuming the finished thread executed {path}, without any fault" for path in dict.fromkeys(executed)
        ]

    def stable(self, effects: Effects) -> dict[str, Counter[str]]:
        """Effects as they can be compared."""
        return {name: counted(items, self.effect_paths[name]) for name, items in effects.items()}

    def differences(self, values: Any) -> list[str]:
        """Where a result is not that of the runs without a fault."""
        return shown(varying(without(values, self.value_paths), without(self.values, self.value_paths)))


def find_reference(lab: Lab, tell: Callable[[str], None]) -> tuple[Lab, Reference]:
    """Run without faults. The lab comes back with what was learned of their graph; GraphError if it cannot be run."""
    lab, first = _first(lab, tell)
    lab = lab.for_target(questions=first.questions)
    second = whole(lab, "no-fault-2")
    told = first.ran.told
    assert told is not None
    tell("counting effects node by node")
    attribution = attribute(lab, "node-by-node", one_at_a_time=not told.functional)
    if not attribution.executions and not told.functional:
        attribution = attribute(lab, "node-by-node-2", one_at_a_time=False)
    return lab, _agree(first, second, attribution)


def _first(lab: Lab, tell: Callable[[str], None], name: str = "no-fault-1") -> tuple[Lab, Whole]:
    """The first run, with ainvoke when invoke cannot."""
    thread_id = lab.new_thread()
    before = lab.count(thread_id, name)
    ran = lab.run(thread_id, name, record=True)
    refuse(ran)
    assert ran.told is not None or ran.state != "finished"
    asynchronous = bool(ran.told and ran.told.asynchronous)
    missed = ran.state == "failed" and not asynchronous and any(word in ran.trouble.lower() for word in _ONLY_ASYNC)
    if lab.target.asynchronous is None and (asynchronous or missed):
        tell("it can only be run with ainvoke")
    if missed:
        return _first(lab.for_target(asynchronous=True), tell, f"{name}-ainvoke")
    return lab.for_target(asynchronous=asynchronous), _finish(lab, thread_id, name, before, ran)


def whole(lab: Lab, name: str) -> Whole:
    """A recorded run without a fault."""
    thread_id = lab.new_thread()
    before = lab.count(thread_id, name)
    return _finish(lab, thread_id, name, before, lab.run(thread_id, name, record=True))


def _finish(lab: Lab, thread_id: str, name: str, before: Effects, ran: Ran) -> Whole:
    if ran.state != "finished" or ran.told is None:
        raise GraphError(_why_unfinished(ran))
    effects = since(before, lab.count(thread_id, name))
    return Whole(
        ran=ran,
        again=lab.run(thread_id, f"{name}-again", again=True),
        effects=effects,
        values=without_thread(ran.told.values, thread_id),
        questions=answers.asked(lab.place.folder / f"{thread_id}.answers"),
    )


def _why_unfinished(ran: Ran) -> str:
    told = ran.told
    if ran.state == "waiting" and told is not None:
        return (
            f"The graph waits for an answer in {told.node}: {told.question}. Give it with --resume JSON, one --resume "
            f"for each question, in their order."
        )
    if any(word in ran.trouble for word in _NO_INPUT):
        return "The graph needs an input. Give it with --input JSON."
    return f"The graph does not end without a fault either: {ran.trouble.rstrip('.')}."


def _agree(first: Whole, second: Whole, attribution: Attribution) -> Reference:
    names = list(first.effects)
    paths = {name: varying_items([first.effects[name], second.effects[name]]) for name in names}
    theirs = set(second.ran.boundaries)
    both = [b for b in first.ran.boundaries if b in theirs]
    one = [b for b in dict.fromkeys((*first.ran.boundaries, *second.ran.boundaries)) if b not in set(both)]
    return Reference(
        passed=len(both) + len(one),
        boundaries=(*_moments(both), *one),
        unsure=frozenset(one),
        effects={name: counted(first.effects[name], paths[name]) for name in names},
        effect_paths=paths,
        values=first.values,
        value_paths=varying(first.values, second.values),
        executed=first.ran.executed,
        questions=first.questions,
        attribution=attribution,
        runs=(first, second),
    )


def _moments(passed: list[Boundary]) -> list[Boundary]:
    """Where to kill: at every boundary of their code; once at each moment of LangGraph's own threads.

    LangGraph's threads change nothing outside between two operations, so one kill stands for both boundaries. Their
    code may do something between any two that no choke point sees.
    """
    theirs = {b.role for b in passed if b.label == NODE or b.label.startswith(TOOL)}
    stand_for_all = {moment.boundary for moment in moments(b for b in passed if b.role not in theirs)}
    return [b for b in passed if b.role in theirs or b.side == "at" or b in stand_for_all]
