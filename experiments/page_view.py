"""What the page shows, as values that its template only has to write down.

    pictures   a grid: a band for each role of thread, a column for each step of the run, a cell for each case
    stories    what the processes of a case told, what stood in the world afterwards, and how to run it again

The step of a case is read from its story: the last node that had begun when the fault hit. So one sees in which steps
the control repeats effects, without knowing any boundary by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from experiments import page_words as words
from experiments.page_stories import Story, chosen, story
from experiments.page_words import Look, group_title, look, mark, role
from experiments.plan import GROUPS
from experiments.story import CRASH, EXECUTE, STOP

BEFORE = "start"  # no node has begun yet
# The groups that a fault hits in a driver, so that a step can be told. The control stands beside its counterpart.
FIRST_PICTURE = ("driver", words.CONTROL)
STEPPED = ("points", "order", "stopped driver", "pairs")
NARROWEST_PERCENT = 8
MOST_REASONS = 20
MANY_CASES = 300


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case and its place on the page. `step` is the column in which it is drawn, "" where no step can be told."""

    id: str
    told: dict[str, Any]
    look: Look
    step: str = ""
    has_story: bool = False

    @property
    def mark(self) -> str:
        """The sign in its cell."""
        return mark(self.told, self.look)

    @property
    def title(self) -> str:
        """What its cell says in words."""
        return f"{words.MEANINGS[self.look].partition(';')[0]}: {self.told['case']}"


@dataclass(frozen=True, kw_only=True)
class Band:
    """The cases of one role. `columns` has their cells for each step of the picture, or all in one."""

    title: str
    note: str
    columns: tuple[tuple[Case, ...], ...]

    @property
    def many(self) -> bool:
        """Whether its cells have to be small."""
        return sum(map(len, self.columns)) > MANY_CASES


@dataclass(frozen=True, kw_only=True)
class Block:
    """The bands of one group."""

    name: str
    title: str
    bands: tuple[Band, ...]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Blocks over the same columns. `steps` holds (name, whether it changes the world); () for a picture without."""

    id: str
    title: str
    steps: tuple[tuple[str, bool], ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Hunt:
    """A mutant: the rule that was taken out, and the case that caught it."""

    name: str
    what: str
    tried: int
    case: Case | None


@dataclass(frozen=True, kw_only=True)
class View:
    """The whole page."""

    verdict: str
    headline: str
    sentences: tuple[str, ...]
    cards: tuple[tuple[str, str, str, str], ...]
    reasons: tuple[str, ...]
    more_reasons: int
    bad: tuple[Case, ...]
    legend: tuple[tuple[Look, str, str], ...]
    pictures: tuple[Picture, ...]
    widths: tuple[int, ...]
    hunts: tuple[Hunt, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...]
    stories: tuple[Story, ...]
    without_story: int
    store: str


def view(figures: dict[str, Any]) -> View:
    """Everything that the page shows of a campaign."""
    cases = tuple(_cases([*figures["outcomes"], *figures["control"]]))
    hunted = tuple(_hunted(figures["hunts"]))
    kept = chosen([(case.told, case.look) for case in cases])
    cases = tuple(replace(case, has_story=number in kept) for number, case in enumerate(cases))
    steps = _steps(cases)
    pictures = tuple(_pictures(cases, steps))
    bad = [case for case in cases if case.look in ("wrong", "unfired")]
    present = {case.look for case in cases}
    return View(
        verdict=figures["verdict"],
        headline=_headline(figures),
        sentences=tuple(_sentences(figures)),
        cards=tuple(_cards(figures)),
        reasons=tuple(figures["reasons"][:MOST_REASONS]),
        more_reasons=max(0, len(figures["reasons"]) - MOST_REASONS),
        bad=tuple(bad[:MOST_REASONS]),
        legend=tuple((name, words.MARKS[name], text) for name, text in words.MEANINGS.items() if name in present),
        pictures=pictures,
        widths=_widths(pictures),
        hunts=hunted,
        rows=tuple(_rows(cases)),
        facts=tuple(_facts(figures)),
        stories=tuple(_stories(figures, cases, hunted)),
        without_story=len(cases) - len(kept),
        store=figures["store"],
    )


# --- cases ------------------------------------------------------------------------------------------------------------


def _cases(outcomes: Sequence[dict[str, Any]]) -> Iterator[Case]:
    """The cases with an id that stays the same when other groups are added: group and place in it."""
    numbers: dict[str, int] = {}
    for told in outcomes:
        group = told["group"]
        numbers[group] = numbers.get(group, 0) + 1
        yield Case(id=f"{group.replace(' ', '-')}-{numbers[group]}", told=told, look=look(told), step=step(told))


def step(told: dict[str, Any]) -> str:
    """The last node that had begun when the last fault hit a driver; "" where none did."""
    for process in reversed(told["processes"]):
        lines: list[str] = process["lines"]
        hit = next((n for n, line in enumerate(lines) if line.startswith((CRASH, STOP))), None)
        if hit is not None:
            begun = [line.removeprefix(EXECUTE) for line in lines[:hit] if line.startswith(EXECUTE)]
            return begun[-1] if begun else BEFORE
    return ""


def _steps(cases: Sequence[Case]) -> tuple[tuple[str, bool], ...]:
    """The columns: the nodes in the order in which runs begin them, each with whether an effect belongs to it."""
    nodes = (node for case in cases for process in case.told["processes"] for node in process["executed"])
    effects = {name for case in cases for name in case.told["effects"]}
    return tuple((name, name in effects) for name in dict.fromkeys((BEFORE, *nodes)))


def _hunted(hunts: Sequence[dict[str, Any]]) -> Iterator[Hunt]:
    for told in hunts:
        caught = told["caught_by"]
        case = caught and Case(id=f"mutant-{told['mutant']}", told=caught, look=look(caught), has_story=True)
        yield Hunt(name=told["mutant"], what=told["what"], tried=told["tried"], case=case)


# --- pictures ---------------------------------------------------------------------------------------------------------


def _pictures(cases: Sequence[Case], steps: tuple[tuple[str, bool], ...]) -> Iterator[Picture]:
    by_group: dict[str, list[Case]] = {}
    for case in cases:
        by_group.setdefault(case.told["group"], []).append(case)
    others = [name for name in dict.fromkeys((*GROUPS, *by_group)) if name not in (*FIRST_PICTURE, *STEPPED)]
    for id_, title, names, columns in (
        ("steps", "Killed at every boundary, with Onward and without", FIRST_PICTURE, steps),
        ("more", "Other ways to hit a driver", STEPPED, steps),
        ("others", "The ledger, and other faults", others, ()),
    ):
        blocks = tuple(_block(name, by_group[name], columns) for name in names if name in by_group)
        if blocks:
            yield Picture(id=id_, title=title, steps=columns, blocks=blocks)


def _block(name: str, cases: Sequence[Case], steps: tuple[tuple[str, bool], ...]) -> Block:
    bands: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda case: words.rank(role(case.told))):
        bands.setdefault(role(case.told), []).append(case)
    return Block(
        name=name,
        title=group_title(name),
        bands=tuple(_band(title, found, [name for name, _ in steps]) for title, found in bands.items()),
    )


def _band(title: str, cases: Sequence[Case], steps: Sequence[str]) -> Band:
    """A case whose step is not known stands where the one before it stands: the run passes boundaries in order."""
    columns: dict[str, list[Case]] = {name: [] for name in steps} or {"": []}
    last = next(iter(columns))
    for case in cases:
        last = case.step if case.step in columns else last
        columns[last].append(case)
    return Band(title=title, note=_note(cases), columns=tuple(map(tuple, columns.values())))


def _note(cases: Sequence[Case]) -> str:
    """A band in figures: `61 cases, all ok`."""
    named = {
        "repeat": "repeating an effect",
        "clean": "repeating nothing",
        "unfired": "not fired",
        "unknown": "UNKNOWN",
    }
    looks = [case.look for case in cases]
    found = [f"{looks.count(name)} {named.get(name, name)}" for name in words.MEANINGS if name in looks]
    number = f"{len(cases)} case{'s' if len(cases) > 1 else ''}"
    return (
        f"{number}, {'all ' if len(cases) > 1 else ''}ok" if set(looks) == {"ok"} else f"{number}: {', '.join(found)}"
    )


def _widths(pictures: Sequence[Picture]) -> tuple[int, ...]:
    """The columns in per cent, by their fullest cell over all bands; each is wide enough for its name."""
    bands = [band for shown in pictures if shown.steps for block in shown.blocks for band in block.bands]
    fullest = [max(map(len, columns)) for columns in zip(*(band.columns for band in bands), strict=True)]
    if not fullest:
        return ()
    least = NARROWEST_PERCENT if len(fullest) * NARROWEST_PERCENT < 100 else 0
    share = (100 - least * len(fullest)) / max(1, sum(fullest))
    return tuple(least + int(share * cells) for cells in fullest)


# --- stories ----------------------------------------------------------------------------------------------------------


def _stories(figures: dict[str, Any], cases: Sequence[Case], hunts: Sequence[Hunt]) -> Iterator[Story]:
    """The stories that are kept; from each one leads to its neighbours of the same role."""
    kept = [case for case in cases if case.has_story]
    for _, same in groupby(kept, key=lambda case: (case.told["group"], role(case.told))):
        band = list(same)
        ids = [case.id for case in band]
        for number, case in enumerate(band):
            neighbours = (ids[number - 1] if number else None, ids[number + 1] if number + 1 < len(ids) else None)
            yield story(figures, case.id, case.told, neighbours=neighbours, planted=figures["planted"])
    for hunt in hunts:
        if hunt.case is not None:
            yield story(figures, hunt.case.id, hunt.case.told, neighbours=(None, None), planted=hunt.name)


# --- words and figures ------------------------------------------------------------------------------------------------


def _headline(figures: dict[str, Any]) -> str:
    runs = f"{figures['killed']} faulted runs"
    if figures["verdict"] == "pass":
        return f"Pass: {figures['duplicates']} effects repeated and {figures['lost']} lost in {runs}"
    if figures["verdict"] == "disproved":
        return (
            f"Disproved: {figures['wrong']} of {figures['cases']} runs contradict an invariant; "
            f"{figures['duplicates']} effects repeated, {figures['lost']} lost"
        )
    return f"Invalid: {runs} were made, and they prove nothing"


def _sentences(figures: dict[str, Any]) -> Iterator[str]:
    if figures["planted"]:
        yield f"A defect was planted on purpose: {figures['planted']}."
    if figures["unknown"]:
        yield f"{figures['unknown']} runs wait openly for a person, because nobody can know whether an effect happened."
    if figures["control_cases"]:
        yield (
            f"Without Onward the same graph repeats an effect in {figures['control_wrong']} "
            f"of {figures['control_cases']} runs killed in the same way."
        )
    if figures["mutants"]:
        yield f"{figures['mutants_caught']} of {figures['mutants']} mutants, each with one rule taken out, were caught."
    if not figures["control_cases"] or not figures["mutants"]:
        yield "The control and the mutants belong to the default campaign; this one has not run all of them."
    if (bound := figures.get("wrong_at_most")) is not None:
        yield f"At 95 % confidence at most {bound:.3%} of such cases are wrong (Clopper-Pearson)."


def _cards(figures: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(what, figure, a word on it, how it is meant: good, bad, or control)."""
    for name, key in (("effects repeated", "duplicates"), ("effects lost", "lost"), ("runs wrong", "wrong")):
        yield name, str(figures[key]), f"in {figures['killed']} faulted runs", "bad" if figures[key] else "good"
    if figures["not_fired"]:
        yield "faults not fired", str(figures["not_fired"]), "no evidence", "bad"
    if figures["control_cases"]:
        repeated, all_ = figures["control_wrong"], figures["control_cases"]
        yield (
            "the control repeats effects",
            f"{repeated} of {all_}",
            "it must, somewhere",
            "control" if repeated else "bad",
        )
    if figures["mutants"]:
        caught, all_ = figures["mutants_caught"], figures["mutants"]
        yield "mutants caught", f"{caught} of {all_}", "all must be", "good" if caught == all_ else "bad"


def _rows(cases: Sequence[Case]) -> Iterator[tuple[str, ...]]:
    """The figures of each group: cases, ok, wrong, UNKNOWN, not fired, duplicates, lost, nodes repeated."""
    for name in dict.fromkeys((*GROUPS, *(case.told["group"] for case in cases))):
        found = [case for case in cases if case.told["group"] == name]
        if not found:
            continue
        looks = [case.look for case in found]
        figures = [len(found), looks.count("ok") + looks.count("clean"), looks.count("wrong") + looks.count("repeat")]
        figures += [looks.count("unknown"), looks.count("unfired")]
        figures += [sum(case.told[key] for case in found) for key in ("duplicates", "lost", "reexecuted")]
        yield group_title(name), *map(str, figures)


def _facts(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    by_group = ", ".join(f"{name} {count}" for name, count in figures["boundaries_by_group"].items())
    yield "Boundaries recorded", f"{figures['boundaries']}" + (f" ({by_group})" if by_group else "")
    for what, times in figures["reached"].items():
        yield f"It happened that {what}", f"in {times} cases"
    yield "Nodes that ran again", str(figures["reexecuted_steps"])
    if figures["median_recovery_ms"] is not None:
        yield "From a death to the next claim", f"{figures['median_recovery_ms']:.0f} ms (median)"
    yield "The report's digest", str(figures["digest"])
    yield "Store", figures["store"]
    if figures["seed"] is not None:
        yield "Seed", str(figures["seed"])
    yield "Versions", ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
    yield "Time", f"{figures['seconds']:.0f} s"
