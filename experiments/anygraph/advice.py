"""What to change, in plain words, from what was seen: which unit repeats which effect, and how that unit is made.

Nothing here is a guess about a cause that was not observed, apart from the hint on what a function calls anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.anygraph.attribution import Attribution
from experiments.anygraph.case import Case, describe
from experiments.anygraph.reference import Reference
from experiments.anygraph.request import Durability
from experiments.anygraph.stable import counted

UNKNOWN = "(unknown)"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One unit and one effect that it repeats. `without_fault`: also when nothing was killed."""

    node: str
    kind: str
    effect: str
    repeated_at: tuple[str, ...]
    most: int  # how many times more, at most
    without_fault: bool
    advice: tuple[str, ...]


def find(reference: Reference, cases: Sequence[Case], durability: Durability, functional: bool) -> list[Finding]:
    """Every unit that repeats an effect, in the order in which they run."""
    seen: dict[tuple[str, str], list[Case]] = {}
    for name in reference.effects:
        for path in reference.attribution.without_fault(name):
            seen[path, name] = []
        for case in cases:
            if case.duplicates.get(name):
                for path in blame(reference, case, name):
                    seen.setdefault((path, name), []).append(case)
    order = list(dict.fromkeys(made.unit.path for made in reference.attribution.executions))
    found = sorted(seen.items(), key=lambda item: order.index(item[0][0]) if item[0][0] in order else len(order))
    return [_finding(reference, path, name, where, durability, functional) for (path, name), where in found]


def blame(reference: Reference, case: Case, effect: str) -> list[str]:
    """Units that this repetition comes from: they have this effect, ran again, and theirs is what is there twice."""
    attribution = reference.attribution
    again = [path for path in attribution.makers(effect) if case.reexecuted[path] or case.recalled[path]]
    extra = set(case.extra_items.get(effect, ()))
    same = [path for path in again if extra & _items(reference, path, effect)]
    return same or again or attribution.makers(effect) or [UNKNOWN]


def _items(reference: Reference, path: str, effect: str) -> set[str]:
    """Effects of a unit, as they can be compared."""
    paths = reference.effect_paths[effect]
    executions = reference.attribution.of(path)
    return {item for made in executions for item in counted(made.effects.get(effect, ()), paths)}


def _times_more(reference: Reference, path: str, effect: str, case: Case) -> int:
    """How many of the repetitions of a case are this unit's."""
    own = _items(reference, path, effect)
    return sum(item in own for item in case.extra_items.get(effect, ())) or case.duplicates[effect]


def _finding(
    reference: Reference, path: str, effect: str, cases: Sequence[Case], durability: Durability, functional: bool
) -> Finding:
    attribution = reference.attribution
    without_fault = path in attribution.without_fault(effect)
    return Finding(
        node=path,
        kind=attribution.kind(path),
        effect=effect,
        repeated_at=tuple(describe(case.boundary) for case in cases),
        most=max((_times_more(reference, path, effect, case) for case in cases), default=1),
        without_fault=without_fault,
        advice=tuple(_advice(attribution, path, effect, durability, functional)),
    )


def _advice(
    attribution: Attribution, path: str, effect: str, durability: Durability, functional: bool
) -> Iterator[str]:
    executions, kind = attribution.of(path), attribution.kind(path)
    if any(made.outcome == "interrupted" and made.number(effect) for made in executions):
        yield (
            f"interrupt() comes after {effect} in the same {kind}, which begins anew when the question is answered: "
            f"move the effect into a {kind} of its own before it, and leave nothing but the question."
        )
    several = _effects_of_one(attribution, path)
    if len(several) > 1:
        own = "a node, or a function under @task, of its own" if kind != "tool" else "a tool of its own"
        yield (
            f"One {kind} has several effects ({', '.join(several)}): when it dies behind the first, that one happens "
            f"again. Give each {own}."
        )
    if functional and "/" not in path and kind == "node":
        yield (
            "The body of an @entrypoint begins anew after every crash and every question: put the effect into a "
            "function under @task, whose result is stored."
        )
    yield _key(attribution, path, kind)
    fresh = list(dict.fromkeys(name for made in executions for name in made.unit.fresh))
    if fresh:
        yield (
            f"{path} calls {', '.join(f'{name}()' for name in fresh)}, which is something new each time it runs: an id "
            f"that the provider is to know again has to be made in a node before, so that the checkpoint holds it."
        )
    if attribution.beside(path):
        yield (
            "It runs beside others in one super-step: one that has finished runs again too, when the process dies "
            "before its result is stored. Its key needs what tells it apart from them."
        )
    if durability != "sync":
        yield (
            f'With durability="{durability}" nodes run again whose results were not stored yet: use durability="sync". '
            f"It makes the window smaller and does not close it; the key does."
        )


def _key(attribution: Attribution, path: str, kind: str) -> str:
    """The one thing that closes the window between an effect and its checkpoint."""
    if kind == "tool":
        made_of = (
            "the thread id and the id of the tool call (ToolRuntime.tool_call_id), which is stored before the tool runs"
        )
    elif sum(1 for made in attribution.of(path) if made.outcome == "returned") > 1:
        made_of = "the thread id, the step, and a number from the state or the Send that tells its executions apart"
    else:
        name = path.rpartition("/")[2]
        made_of = f'the thread id and the step, such as f"{{thread_id}}/{name}"'
    return (
        f"Give the request an idempotency key made of {made_of}; never a random one, never the arguments alone. Does "
        f"the provider know no keys: look there first whether it has happened, or go through a ledger "
        f"(docs/guarantees.md)."
    )


def _effects_of_one(attribution: Attribution, path: str) -> list[str]:
    """Names of the effects of one execution, one for each, if it has several."""
    best: list[str] = []
    for made in attribution.of(path):
        names = [name for name, items in made.effects.items() for _ in items]
        best = max(best, names, key=len)
    return best


def general(cases: Sequence[Case]) -> list[str]:
    """What to do about everything but repetitions."""
    found: list[str] = []
    for name in dict.fromkeys(name for case in cases for name in case.lost):
        found.append(
            f"{name} are lost: the step was taken for done and its effect had not happened. Wait for the effect before "
            f"the function returns (no thread, no background task), note it as done only behind it, and let no error "
            f"pass for success."
        )
    for name in dict.fromkeys(name for case in cases for name in case.changed):
        found.append(
            f"{name} are other ones after a kill: make what is in them in a node before, so that it is stored."
        )
    if any(case.wrong for case in cases):
        found.append(
            "The result is another one after a kill: a value comes from something that is not in the state (a variable "
            "of the module, the clock, the world as the node found it). Read it in a node before, so that it is stored."
        )
    troubles = dict.fromkeys((case.trouble_in, case.trouble) for case in cases if case.trouble is not None)
    for node, trouble in troubles:
        where = f"{node} cannot run a second time" if node else "The thread cannot be resumed"
        found.append(f"{where}: {(trouble or '').rstrip('.')}. {_what_helps(trouble or '')}")
    if any(case.after_end for case in cases):
        found.append("Something executes when the finished thread is resumed: is the graph's end reached?")
    return found


def _what_helps(trouble: str) -> str:
    if any(word in trouble.lower() for word in ("exist", "unique", "duplicate", "already", "conflict")):
        return "Take what is there already for success: insert … on conflict do nothing, or look there first."
    return "Every node has to be able to begin anew, whatever of it has happened before."
