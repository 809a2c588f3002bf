"""Boundaries: the moments at which a process can be killed, found by recording and not by a list.

Whatever a process does to the world outside of it is an *operation*: an exchange with the database, a request, a file
put in place, a child started. A *boundary* is the moment just before or just after one,

    (role of the thread, label of the operation, how many of them this process has come to, before or after)

so the same boundary can be found again in another process that does the same work. `experiments.choke` finds the
operations; a `Watch` numbers them and says when one is passed.

Between two operations of a thread nothing changes outside, so "after" the one and "before" the next are the same moment
for everybody but the process that dies there: `moments` groups them, and one kill stands for the group.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Side = Literal["before", "after", "at"]


@dataclass(frozen=True, kw_only=True, order=True)
class Boundary:
    """One moment of one thread. `occurrence` counts this label in this role from 1; "at" is a point with a name."""

    role: str
    label: str
    occurrence: int = 1
    side: Side = "before"

    def __str__(self) -> str:
        if self.side == "at":
            return self.label
        number = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.side} {self.label}{number} ({self.role})"


Passing = Callable[[Boundary], None]


# --- the watch --------------------------------------------------------------------------------------------------------

# What each thread of a process does, by its name as Python, the product or a library gives it.
_ROLES: tuple[tuple[str, str], ...] = (
    (r"MainThread", "main"),
    (r"ThreadPoolExecutor.*", "background"),  # LangGraph's executor: it writes checkpoints
    (r"asyncio_.*", "background"),
    (r"AnyIO worker thread.*", "request"),
    (r"ledger-send", "send"),
    (r".*-worker-\d+", "pool"),  # psycopg_pool: it opens connections
)


def role_of(thread: threading.Thread) -> str:
    """The role of a thread: a name without the numbers that differ from process to process."""
    for pattern, role in _ROLES:
        if re.fullmatch(pattern, thread.name):
            return role
    return re.sub(r"[\W_]*\d+.*", "", thread.name) or "thread"


# Threads that act by the clock: the driver's heartbeat; the ledger's look whether its session lives, its rounds through
# the outbox and through what is unsettled, and its look whether the database remembers.
BY_THE_CLOCK = ("heartbeat", "ledger-liveness", "ledger-dispatcher", "ledger-sweeper", "ledger-watch")
# Threads that act only where others are slow: the one that looks who blocks a claim. No run can be made to pass them.
BY_CHANCE = ("claim-clearer",)


class Operation:
    """One operation under way. `end(real=False)` takes it back: nothing was done after all.

    Its number is spent all the same: whether a wait has to wait is a matter of time, and numbers must not depend on
    that. But it has no "after", so no recording keeps it.
    """

    def __init__(self, watch: Watch, role: str, label: str, occurrence: int) -> None:
        self._watch = watch
        self._before = Boundary(role=role, label=label, occurrence=occurrence)
        self._open = True

    def end(self, *, real: bool = True) -> None:
        """It is done, or has failed; safe to call again."""
        if self._open:
            self._open = False
            self._watch.ended(self._before, real=real)


class Watch:
    """Numbers the operations of this process, and calls `passing` at each boundary, in the thread that passes it."""

    def __init__(self, passing: Passing, role_of: Callable[[threading.Thread], str] = role_of) -> None:
        self._passing = passing
        self._role_of = role_of
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def begin(self, label: str) -> Operation:
        """An operation is about to begin."""
        role = self._role_of(threading.current_thread())
        with self._lock:
            self._counts[role, label] += 1
            occurrence = self._counts[role, label]
        self._passing(Boundary(role=role, label=label, occurrence=occurrence))
        return Operation(self, role, label, occurrence)

    def ended(self, before: Boundary, *, real: bool) -> None:
        """For Operation."""
        if real:
            self._passing(Boundary(role=before.role, label=before.label, occurrence=before.occurrence, side="after"))

    @contextmanager
    def operation(self, label: str) -> Generator[None]:
        """Around an operation; it is over also when it raises."""
        operation = self.begin(label)
        try:
            yield
        finally:
            operation.end()

    def point(self, label: str) -> None:
        """A moment with a name of its own."""
        role = self._role_of(threading.current_thread())
        with self._lock:
            self._counts[role, label] += 1
            occurrence = self._counts[role, label]
        self._passing(Boundary(role=role, label=label, occurrence=occurrence, side="at"))


# --- recordings -------------------------------------------------------------------------------------------------------


def recorder(path: Path) -> Passing:
    """Write every boundary that this process passes into a file, before it goes on."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def passing(boundary: Boundary) -> None:
        line = json.dumps([boundary.role, boundary.label, boundary.occurrence, boundary.side])
        os.write(file, f"{line}\n".encode())

    return passing


def read_recording(path: Path) -> tuple[Boundary, ...]:
    """The boundaries of a process, in the order in which it passed them.

    A "before" without its "after" was taken back (nothing was sent), or the process ended inside: it is left out.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    passed = [Boundary(role=r, label=name, occurrence=n, side=side) for r, name, n, side in map(json.loads, lines)]
    ended = {(b.role, b.label, b.occurrence) for b in passed if b.side == "after"}
    return tuple(b for b in passed if b.side == "at" or (b.role, b.label, b.occurrence) in ended)


@dataclass(frozen=True)
class Moment:
    """Boundaries of one role between which nothing happens outside: one kill there stands for all of them."""

    boundaries: tuple[Boundary, ...]

    @property
    def boundary(self) -> Boundary:
        """Where to kill: the last of them."""
        return self.boundaries[-1]

    def __str__(self) -> str:
        first, last = self.boundaries[0], self.boundaries[-1]
        if first == last:
            return str(last)
        number = {b: f" #{b.occurrence}" if b.occurrence > 1 else "" for b in (first, last)}
        return f"{first.side} {first.label}{number[first]}, {last.side} {last.label}{number[last]} ({last.role})"


def moments(recording: Iterable[Boundary]) -> tuple[Moment, ...]:
    """The moments of a recording: role by role, in the order in which each role's first boundary was passed.

    Something may happen while an operation is open, so the groups part there: between its "before" and its "after", and
    at whatever lies in between (an operation inside of it, or one of another thread in the same role).
    """
    roles: dict[str, list[list[Boundary]]] = {}
    under_way: Counter[str] = Counter()
    for boundary in recording:
        role = boundary.role
        if boundary.side == "at":
            continue
        groups = roles.setdefault(role, [[]])
        if under_way[role]:
            groups.append([])
        groups[-1].append(boundary)
        under_way[role] += 1 if boundary.side == "before" else -1
    return tuple(Moment(tuple(group)) for groups in roles.values() for group in groups)
