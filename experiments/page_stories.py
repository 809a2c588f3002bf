"""The stories of the page: what the processes of a case told, what stood afterwards, how to run it again.

A campaign may have thousands of cases. Stories are kept for those that are not as they should be and for an even
sample of the others, within a budget of characters, so that the page stays one that a browser opens at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.page_words import Look, Place, command, group_title, line_kind, look, place, repeats
from experiments.report import folded, ordinal
from experiments.story import CRASH, STOP, Process

# Groups that may have thousands of cases; of their good ones a sample is told.
CROWDS = ("pairs", "random")
SAMPLE = 200
# About 2.5 MB of stories; their marks and the cells come on top.
BUDGET_CHARACTERS = 2_500_000
OWN_CHARACTERS = 1_200  # what a story has around its lines
MOST_LINES = 60
LONGEST_LINE = 300


@dataclass(frozen=True, kw_only=True)
class Teller:
    """One process: a heading, and its lines, each with its kind."""

    heading: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Story:
    """One case in full. `previous` and `following` are the ids of its neighbours."""

    id: str
    look: Look
    group: str
    place: Place
    problems: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    tellers: tuple[Teller, ...]
    command: str
    previous: str | None
    following: str | None


# --- which stories are told -------------------------------------------------------------------------------------------


def chosen(cases: Sequence[tuple[dict[str, Any], Look]]) -> frozenset[int]:
    """The numbers of the cases whose story is kept: as many as the budget allows, the worst first."""
    worst = [n for n, (_, shown) in enumerate(cases) if shown in ("wrong", "unfired")]
    special = [n for n, (_, shown) in enumerate(cases) if shown in ("unknown", "repeat")]
    good = [n for n, (case, shown) in enumerate(cases) if shown in ("ok", "clean") and case["group"] not in CROWDS]
    crowd = [n for n, (case, shown) in enumerate(cases) if shown in ("ok", "clean") and case["group"] in CROWDS]
    left, kept = BUDGET_CHARACTERS, set[int]()
    for numbers in (worst, special, even(crowd, SAMPLE), good):
        told = _affordable(numbers, left, [size(cases[n][0]) for n in numbers])
        left -= sum(size(cases[n][0]) for n in told)
        kept.update(told)
    return frozenset(kept)


def even(items: Sequence[int], most: int) -> list[int]:
    """At most so many of the items, at even distances."""
    if len(items) <= most:
        return list(items)
    return [items[n * len(items) // most] for n in range(most)]


def _affordable(numbers: Sequence[int], budget: int, sizes: Sequence[int]) -> list[int]:
    most, sized = len(numbers), dict(zip(numbers, sizes, strict=True))
    while most and sum(sized[n] for n in even(numbers, most)) > budget:
        most = most * 3 // 4
    return even(numbers, most)


def size(case: dict[str, Any]) -> int:
    """About how many characters its story takes."""
    processes = (*case["processes"], *case["services"], *case["clients"])
    lines = (min(len(line), LONGEST_LINE) + 40 for process in processes for line in process["lines"][:MOST_LINES])
    return OWN_CHARACTERS + sum(lines)


# --- one story --------------------------------------------------------------------------------------------------------


def story(
    figures: dict[str, Any],
    id_: str,
    case: dict[str, Any],
    *,
    neighbours: tuple[str | None, str | None],
    planted: str | None,
) -> Story:
    """A case in full. `planted`: the defect that it ran with."""
    return Story(
        id=id_,
        look=look(case),
        group=group_title(case["group"]),
        place=place(case),
        problems=tuple(map(_clipped, (*case["violations"], *case["invalid"]))),
        facts=tuple(_facts(case)),
        tellers=tuple(_tellers(case)),
        command=command(figures, case, planted),
        previous=neighbours[0],
        following=neighbours[1],
    )


def _facts(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What stood afterwards, in the words of the terminal."""
    yield "Effects", ", ".join(f"{step} {count}" for step, count in case["effects"].items()) or "none"
    yield "Receipts", f"{case['receipts']['new']} new, {case['receipts']['reused']} reused"
    if case["epochs"]:
        yield "Epochs", " → ".join(map(str, case["epochs"]))
    yield "Run", str(case["status"])
    yield "Report", "the same as without a fault" if case["same_report"] else "not that of the run without a fault"
    yield "Nodes that ran again", str(case["reexecuted"])
    yield "Checkpoints", str(case["checkpoints"])
    if case["recovery_ms"] is not None:
        yield "Death to next claim", f"{case['recovery_ms']:.0f} ms"
    tries = f", at try {case['tries']}" if case["tries"] > 1 else ""
    yield "Took", f"{case['seconds']:.1f} s{tries}"


def _tellers(case: dict[str, Any]) -> Iterator[Teller]:
    """Drivers, then a ledger that was hit, then others: in the order of the terminal."""
    drivers, earlier = case["processes"], list[str]()
    for number, process in enumerate(drivers):
        told = _teller(f"{ordinal(number)} process{_errand(number, len(drivers))}", process)
        yield _repeats_marked(told, earlier) if case["duplicates"] else told
        earlier += process["lines"]
    for process in case["services"]:
        if any(line.startswith((CRASH, STOP)) for line in process["lines"]) or _killed(process):
            yield _teller("the ledger", process)
    for process in case["clients"]:
        yield _teller("somebody else", process)


def _repeats_marked(told: Teller, earlier: list[str]) -> Teller:
    """Its effects that an earlier process had performed already are told as what they are."""
    return replace(told, lines=tuple(("again" if repeats(t, earlier) else kind, t) for kind, t in told.lines))


def _killed(process: dict[str, Any]) -> bool:
    return process["exit_code"] is not None and process["exit_code"] < 0


def _errand(number: int, all_: int) -> str:
    if number == all_ - 1:
        return ", resumes the finished run"
    return "" if number == 0 else ", resumes by the same thread_id"


def _teller(heading: str, told: dict[str, Any]) -> Teller:
    process = Process(exit_code=told["exit_code"], lines=tuple(told["lines"]), last_words=told["last_words"])
    lines = list(folded(process))
    more = [("other", f"… {len(lines) - MOST_LINES} more lines in results.json")] if len(lines) > MOST_LINES else []
    shown = [(line_kind(line), _clipped(line)) for line in lines[:MOST_LINES]]
    return Teller(heading=heading[:1].upper() + heading[1:], lines=(*shown, *more))


def _clipped(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
