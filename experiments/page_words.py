"""The page's words: how a case looks, where it was hit, what is written in its cell and beside its story."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from experiments.plan import GROUPS
from experiments.story import ACCEPTED, COMMITTED, CRASH, EXECUTE, REFUSED, REUSE, STOP, WAKE

Look = Literal["ok", "wrong", "unknown", "unfired", "repeat", "clean"]

CONTROL = "control"
TITLES = {
    **GROUPS,
    "driver": "with Onward: the driver killed at every boundary",
    CONTROL: "without, the control: plain LangGraph killed at every boundary",
}

# What each look means: for the legend, and before the name of the case where a pointer rests on its cell.
MEANINGS: dict[Look, str] = {
    "ok": "every effect once",
    "wrong": "contradicts an invariant",
    "unknown": "waits openly for a person (UNKNOWN)",
    "unfired": "the fault did not fire: no evidence",
    "repeat": "the control repeats an effect; the number says how often it happened",
    "clean": "the control repeats nothing",
}
# Colour is never alone: what is not in order has a mark of its own.
MARKS: dict[Look, str] = {"ok": "", "wrong": "×", "unknown": "?", "unfired": "–", "repeat": "2", "clean": ""}

_LEDGER_ROLES = {
    "main": "main thread",
    "request": "requests",
    "send": "sending",
    "pool": "connection pool",
    "ledger-liveness": "sign of life",
    "ledger-dispatcher": "outbox",
    "ledger-sweeper": "look-ups",
    "ledger-watch": "memory",
}
_DRIVER_ROLES = {
    "main": "main thread",
    "background": "checkpoint writer",
    "heartbeat": "heartbeat",
    "pool": "connection pool",
}
# Cases that no single moment tells.
_NO_PLACE = ("none", "requests", "decisions", "random")
_LEDGER_GROUPS = ("ledger", "plain provider", "stopped ledger")

# A name that ends with the role of the thread, as `experiments.boundaries.Moment` writes it.
_NAMED = re.compile(r"(?P<when>.+) \((?P<role>[^()]+)\)", re.DOTALL)
_LINE_KINDS = (
    (EXECUTE, "execute"),
    (COMMITTED, "committed"),
    (REUSE, "reuse"),
    (CRASH, "crash"),
    (STOP, "crash"),
    (WAKE, "wake"),
    (REFUSED, "refused"),
    (ACCEPTED, "crash"),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a case was hit: a sentence, and in which thread ("" where the name does not say)."""

    sentence: str
    role: str


def look(case: dict[str, Any]) -> Look:
    """How the case is drawn. The control has no rule to break: there the repeated effects are what is to be seen."""
    if case["outcome"] == "invalid":
        return "unfired"
    if case["group"] == CONTROL:
        return "repeat" if case["duplicates"] else "clean"
    return {"wrong": "wrong", "unknown": "unknown"}.get(case["outcome"], "ok")  # pyright: ignore[reportReturnType] - its values are looks


def mark(case: dict[str, Any], shown: Look) -> str:
    """The sign in the cell: in the control, how often the most repeated effect happened."""
    if shown != "repeat":
        return MARKS[shown]
    most = max(case["effects"].values(), default=2)
    return str(most) if most < 10 else "+"


def role(case: dict[str, Any]) -> str:
    """In which thread the case was hit, in words; "" where its name does not say."""
    named = _NAMED.fullmatch(case["case"])
    if named is None:
        return ""
    roles = _LEDGER_ROLES if case["group"] in _LEDGER_GROUPS else _DRIVER_ROLES
    return roles.get(named["role"], named["role"])


def rank(shown: str) -> int:
    """The place of a role's band: as in the lists above, those that nobody named last."""
    names = list(dict.fromkeys((*_DRIVER_ROLES.values(), *_LEDGER_ROLES.values())))
    return names.index(shown) if shown in names else len(names)


def place(case: dict[str, Any]) -> Place:
    """Where it was hit."""
    named = _NAMED.fullmatch(case["case"])
    when = named["when"] if named else case["case"]
    if case["group"] in _NO_PLACE:
        return Place(sentence=when, role="")
    verb = "Stopped" if case["group"].startswith("stopped") else "Killed"
    at = "" if when.startswith(("before ", "after ")) else "at "
    return Place(sentence=f"{verb} {at}{when}", role=role(case))


def group_title(name: str) -> str:
    """The title of a group of cases, as a sentence begins."""
    title = TITLES.get(name, name)
    return title[:1].upper() + title[1:]


def repeats(line: str, earlier: Iterable[str]) -> bool:
    """Whether the line tells of an effect that an earlier line told of: `draft-1` and `draft-2` are receipts of one."""
    effect = line.partition("-")[0]
    return line.startswith(COMMITTED) and any(other.partition("-")[0] == effect for other in earlier)


def line_kind(line: str) -> str:
    """What kind of line of a story this is, as the page styles it."""
    return next((kind for word, kind in _LINE_KINDS if line.startswith(word)), "other")


def command(figures: dict[str, Any], case: dict[str, Any], planted: str | None) -> str:
    """How to run this case again. A random case needs its whole campaign's size and seed to be drawn again."""
    words = ["uv run verify.py"]
    if figures["store"] != "postgres":
        words.append(f"--store {shlex.quote(figures['store'])}")
    if planted:
        words.append(f"--plant {shlex.quote(planted)}")
    if case["group"] == "pairs":
        words.append("--pairs")
    if case["group"] == "random":
        words.append(f"--random {figures['cases']} --seed {figures['seed']}")
    return " ".join([*words, f"--only {shlex.quote(case['case'])}"])
