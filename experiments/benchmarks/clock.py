"""Where the time of a piece of work goes: what it does to the world outside, by count and by time.

The same choke points by which kills are placed (`experiments.choke`), here with a clock: every exchange with Postgres,
every request, every file and object put. What is left over is Python and waiting for other threads. Watching costs a
little, so nothing that is watched is ever a figure of the benchmark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from experiments.boundaries import Boundary, Watch

MAIN = "main"  # the role of the main thread
PYTHON = "Python, and waiting for other threads"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One kind of thing that was done: how often and for how long per piece of work; its share of the whole time.

    `share` is None for what other threads did meanwhile: it may lie beside the work or hold it up.
    """

    what: str
    count: float
    ms: float
    share: float | None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The time of one piece of work, `ms` on average. `sums` by kind and `lines` one by one, most expensive first."""

    title: str
    ms: float
    lines: tuple[Line, ...]
    sums: tuple[Line, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


# What is timed of a piece of work; what it prepares for itself stands outside.
Timed = AbstractContextManager[None]


@dataclass(frozen=True)
class _Spent:
    """One operation that is over."""

    kind: str
    role: str
    label: str
    seconds: float


class Clock:
    """Adds up what passes the choke points of this process while something is timed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str, str, int], float] = {}
        self._spent: list[_Spent] = []
        self._took: list[float] = []
        self._timing = False

    def watch(self, kind: str) -> Watch:
        """A watch for one kind of choke points."""
        return Watch(lambda boundary: self._passing(kind, boundary))

    def _passing(self, kind: str, boundary: Boundary) -> None:
        now = time.perf_counter()
        key = (kind, boundary.role, boundary.label, boundary.occurrence)
        with self._lock:
            if boundary.side == "before":
                self._began[key] = now
            elif boundary.side == "after" and (began := self._began.pop(key, None)) is not None and self._timing:
                self._spent.append(_Spent(kind, boundary.role, boundary.label, now - began))

    @contextmanager
    def _timed(self) -> Generator[None]:
        self._timing, began = True, time.perf_counter()
        try:
            yield
        finally:
            self._took.append(time.perf_counter() - began)
            self._timing = False

    def profile(self, title: str, work: Callable[[Timed], None], times: int, *, each: int = 1) -> Profile:
        """Do the work so many times, in the main thread; each time it times a part of itself.

        `each`: how many of what the title names are in one work; all figures are per one of them.
        """
        with self._lock:
            self._spent, self._took = [], []
        for _ in range(times):
            work(self._timed())
        with self._lock:
            spent, took = list(self._spent), sum(self._took)
        return _profile(title, spent, took, times * each)


def _profile(title: str, spent: list[_Spent], took: float, times: int) -> Profile:
    def line(what: str, found: list[_Spent], *, mine: bool) -> Line:
        seconds = sum(one.seconds for one in found)
        share = seconds / took if mine else None
        return Line(what=what, count=len(found) / times, ms=seconds / times * 1000, share=share)

    def grouped(name: Callable[[_Spent], str]) -> list[Line]:
        groups: dict[tuple[str, bool], list[_Spent]] = {}
        for one in spent:
            groups.setdefault((_in_thread(name(one), one.role), one.role == MAIN), []).append(one)
        return [line(what, found, mine=mine) for (what, mine), found in groups.items()]

    rest = took - sum(one.seconds for one in spent if one.role == MAIN)
    python = Line(what=PYTHON, count=1.0, ms=rest / times * 1000, share=rest / took)
    return Profile(
        title=title,
        ms=took / times * 1000,
        lines=_ordered([*grouped(lambda one: one.label), python]),
        sums=_ordered([*grouped(lambda one: one.kind), python]),
    )


def _in_thread(what: str, role: str) -> str:
    return what if role == MAIN else f"{what} (thread: {role})"


def _ordered(lines: list[Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines, key=lambda line: -line.ms))
