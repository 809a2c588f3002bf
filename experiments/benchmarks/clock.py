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

from experiments.boundaries import Boundary

MAIN = "main"  # the role of the main thread
REST = "Python, and waiting for other threads"


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
    """The time of one piece of work, `ms` on average, most expensive first."""

    title: str
    ms: float
    lines: tuple[Line, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


# What is timed of a piece of work; what it prepares for itself stands outside.
Timed = AbstractContextManager[None]


class Clock:
    """Adds up what passes the choke points of this process while something is timed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str, int], float] = {}
        self._spent: dict[tuple[str, str], list[float]] = {}
        self._took: list[float] = []
        self._timing = False

    def passing(self, boundary: Boundary) -> None:
        """For a Watch: a boundary is passed now."""
        now = time.perf_counter()
        key = (boundary.role, boundary.label, boundary.occurrence)
        with self._lock:
            if boundary.side == "before":
                self._began[key] = now
            elif boundary.side == "after" and (began := self._began.pop(key, None)) is not None and self._timing:
                self._spent.setdefault((boundary.role, boundary.label), []).append(now - began)

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
            self._spent, self._took = {}, []
        for _ in range(times):
            work(self._timed())
        with self._lock:
            spent, took = dict(self._spent), sum(self._took)
        times *= each
        lines = [_line(role, label, found, took, times) for (role, label), found in spent.items()]
        rest = took - sum(sum(found) for (role, _), found in spent.items() if role == MAIN)
        lines.append(Line(what=REST, count=1.0, ms=rest / times * 1000, share=rest / took))
        ordered = tuple(sorted(lines, key=lambda line: -line.ms))
        return Profile(title=title, ms=took / times * 1000, lines=ordered)


def _line(role: str, label: str, found: list[float], took: float, times: int) -> Line:
    return Line(
        what=label if role == MAIN else f"{label} (thread: {role})",
        count=len(found) / times,
        ms=sum(found) / times * 1000,
        share=sum(found) / took if role == MAIN else None,
    )
