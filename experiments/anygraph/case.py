"""One kill: a process that dies at a boundary, one that goes on with its thread, one that resumes what is finished."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from experiments.anygraph.lab import Lab, Ran, since
from experiments.anygraph.reference import Reference
from experiments.anygraph.request import without_thread
from experiments.anygraph.units import NODE, TOOL
from experiments.boundaries import Boundary
from experiments.nemesis import Fault

TRIES = 3  # a fault that does not fire is tried again: threads do not always pass in the same order


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a kill did, compared with the runs without a fault. Numbers are effects, by name.

    `changed` are effects that are neither more nor fewer, but other ones. `trouble` says why the thread did not end.
    """

    boundary: Boundary
    fired: bool
    duplicates: dict[str, int] = field(default_factory=dict[str, int])
    lost: dict[str, int] = field(default_factory=dict[str, int])
    changed: dict[str, int] = field(default_factory=dict[str, int])
    extra_items: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    wrong: tuple[str, ...] = ()  # where the result is another one
    trouble: str | None = None
    trouble_in: str | None = None  # the node that began last
    reexecuted: Counter[str] = field(default_factory=Counter[str])
    recalled: Counter[str] = field(default_factory=Counter[str])
    after_end: tuple[str, ...] = ()
    stories: str = ""
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Did it contradict nothing?"""
        return not (
            self.duplicates or self.lost or self.changed or self.wrong or self.trouble is not None or self.after_end
        )

    @property
    def words(self) -> str:
        """What was seen, in a few words."""
        if not self.fired:
            return "did not fire"
        found = [f"{name} happened {_times(n)}" for name, n in self.duplicates.items()]
        found += [f"{n} of {name} lost" for name, n in self.lost.items()]
        found += [f"{name} differ" for name in self.changed]
        found += [f"another result in {', '.join(self.wrong)}"] if self.wrong else []
        found += [f"does not end: {self.trouble}"] if self.trouble is not None else []
        found += [f"after its end it executed {', '.join(self.after_end)}"] if self.after_end else []
        return "; ".join(found) or "clean"


def _times(more: int) -> str:
    return "once more" if more == 1 else f"{more} times more"


def describe(boundary: Boundary) -> str:
    """A boundary in words: `after refund, its result not stored`, `in refund, before send POST /refunds`."""
    number = f" #{boundary.occurrence}" if boundary.occurrence > 1 else ""
    unit = boundary.label == NODE or boundary.label.startswith(TOOL)
    if unit:
        name = boundary.role if boundary.label == NODE else f"{boundary.role} (a tool)"
        late = ", its result not stored" if boundary.side == "after" else ""
        return f"{boundary.side} {name}{number}{late}"
    what = f"{boundary.label}{number}" if boundary.side == "at" else f"{boundary.side} {boundary.label}{number}"
    return f"in {boundary.role}, {what}"


def kill_once(lab: Lab, reference: Reference, boundary: Boundary, name: str) -> Case:
    """Kill a fresh thread there, resume it, and compare. Threads are new for each try."""
    began = time.monotonic()
    for number in range(TRIES):
        thread_id, told = lab.new_thread(), name if number == 0 else f"{name}-try-{number + 1}"
        before = {effect.name: [] for effect in lab.effects} if lab.side_by_side else lab.count(thread_id, told)
        killed = lab.run(thread_id, f"{told}-1", fault=Fault(at=boundary))
        if killed.process.crash is None:
            continue
        resumed = lab.run(thread_id, f"{told}-2")
        again = lab.run(thread_id, f"{told}-3", again=True) if resumed.state == "finished" else None
        effects = reference.stable(since(before, lab.count(thread_id, told)))
        return _judge(reference, boundary, told, thread_id, [killed, resumed], again, effects, time.monotonic() - began)
    return Case(boundary=boundary, fired=False, stories=name, seconds=time.monotonic() - began)


def _judge(
    reference: Reference,
    boundary: Boundary,
    told: str,
    thread_id: str,
    driving: list[Ran],
    again: Ran | None,
    effects: dict[str, Counter[str]],
    seconds: float,
) -> Case:
    resumed = driving[-1]
    finished = resumed.state == "finished" and resumed.told is not None
    values = without_thread(resumed.told.values, thread_id) if finished and resumed.told else None
    more = {name: seen - reference.effects[name] for name, seen in effects.items()}
    fewer = {name: reference.effects[name] - seen for name, seen in effects.items()}
    changed = {name: min(more[name].total(), fewer[name].total()) for name in effects}
    executed = sum((ran.executed for ran in driving), Counter[str]())
    called = sum((ran.called for ran in driving), Counter[str]())
    whole = reference.runs[0].ran
    return Case(
        boundary=boundary,
        fired=True,
        duplicates=_positive({name: more[name].total() - changed[name] for name in effects}),
        lost=_positive({name: fewer[name].total() - changed[name] for name in effects}),
        changed=_positive(changed),
        extra_items={name: list(items.elements()) for name, items in more.items() if items},
        wrong=tuple(reference.differences(values)) if finished else (),
        trouble=None if finished else str(without_thread(resumed.trouble, thread_id)),
        trouble_in=None if finished or not resumed.process.executed else resumed.process.executed[-1],
        reexecuted=executed - whole.executed,
        recalled=called - whole.called,
        after_end=tuple(dict.fromkeys((*again.executed, *again.called))) if again else (),
        stories=told,
        seconds=seconds,
    )


def _positive(numbers: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in numbers.items() if number > 0}
