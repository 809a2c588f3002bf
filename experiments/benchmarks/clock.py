"""Where the time of a piece of work goes: what it does to the world outside, by count and by time.

The same choke points by which kills are placed (`experiments.choke`), here with a clock: every exchange with Postgres,
every request, every file and object put. What is left over is Python and waiting for other threads. Watching costs a
little, so nothing that is watched is ever a figure of the benchmark.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from experiments.boundaries import Boundary


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


class Clock:
    """Adds up what passes the choke points of this process while it is asked to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str, int], float] = {}
        self._spent: dict[tuple[str, str], list[float]] = defaultdict(list)

    def passing(self, boundary: Boundary) -> None:
        """For a Watch: a boundary is passed now."""
        now = time.perf_counter()
        key = (boundary.role, boundary.label, boundary.occurrence)
        with self._lock:
            if boundary.side == "before":
                self._began[key] = now
            elif boundary.side == "after" and key in self._began:
                self._spent[boundary.role, boundary.label].append(now - self._began.pop(key))

    def profile(self, title: str, work: Callable[[], object], times: int) -> Profile:
        """Do the work so many times, in this thread."""
        with self._lock:
            self._spent.clear()
        mine, took = "main", 0.0
        for _ in range(times):
            began = time.perf_counter()
            work()
            took += time.perf_counter() - began
        with self._lock:
            spent = {key: list(found) for key, found in self._spent.items()}
        whole = took / times * 1000
        lines = [
            Line(
                what=label if role == mine else f"{label} (thread: {role})",
                count=len(found) / times,
                ms=sum(found) / times * 1000,
                share=sum(found) / took if role == mine else None,
            )
            for (role, label), found in spent.items()
        ]
        rest = whole - sum(line.ms for line in lines if line.share is not None)
        lines.append(Line(what="Python, and waiting for other threads", count=1, ms=rest, share=rest / whole))
        return Profile(title=title, ms=whole, lines=tuple(sorted(lines, key=lambda line: -line.ms)))
