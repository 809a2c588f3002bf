"""Where a driver is stopped: every moment of a drive, found by recording one, and what it is in the middle of there.

    open        a pipeline or a transaction is open on one of its connections, and a statement has gone into it
    write node  it is inside a node that changes the world
    super-step  a step has ended and nothing of it is stored yet, or all of it is
    elsewhere   every other moment: files, children, requests, between two exchanges

A place may be several of these. "Open" is what the process's own connections say at that moment, not what the labels
promise; `held` then looks from outside whether the database sees the same.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

from experiments.boundaries import Boundary, Moment, Passing, role_of
from experiments.recordings import Recording
from experiments.sweep import FIRST_STATEMENTS, LAST_ACTS

Kind = Literal["open", "write node", "super-step", "elsewhere"]
KINDS: tuple[Kind, ...] = ("open", "write node", "super-step", "elsewhere")
WRITE_NODES = ("write_draft", "deliver")


@dataclass(frozen=True, kw_only=True)
class Place:
    """One moment at which a driver is stopped. `node`: the one that it is in, where it is in one."""

    moment: Moment
    kinds: tuple[Kind, ...]
    node: str | None = None

    @property
    def at(self) -> Boundary:
        """The boundary at which the process stops."""
        return self.moment.boundary

    def __str__(self) -> str:
        return f"{self.at}{f', in {self.node}' if self.node else ''}"


@dataclass(frozen=True, kw_only=True)
class Passed:
    """A boundary, and what the process was in the middle of when it passed it."""

    boundary: Boundary
    node: str | None
    open: bool


def read_places(recording: Path) -> tuple[Place, ...]:
    """Every moment of a recorded drive as a place, in order."""
    passed = {each.boundary: each for each in _read(recording)}
    ended = {(b.role, b.label, b.occurrence) for b in passed if b.side == "after"}
    kept = [b for b in passed if b.side == "at" or (b.role, b.label, b.occurrence) in ended]
    return tuple(_place(moment, passed[moment.boundary]) for moment in Recording.of(kept).moments)


def places_of(boundaries: Sequence[Boundary]) -> tuple[Place, ...]:
    """The places of a process that does not say what it is in the middle of: the control's."""
    return tuple(
        _place(moment, Passed(boundary=moment.boundary, node=None, open=False))
        for moment in Recording.of(boundaries).moments
    )


def _read(recording: Path) -> list[Passed]:
    lines = map(json.loads, recording.read_text(encoding="utf-8").splitlines())
    return [
        Passed(boundary=Boundary(role=role, label=label, occurrence=number, side=side), node=node, open=is_open)
        for role, label, number, side, node, is_open in lines
    ]


def _place(moment: Moment, passed: Passed) -> Place:
    found: list[Kind] = []
    if passed.open:
        found.append("open")
    if passed.node in WRITE_NODES:
        found.append("write node")
    if _between_steps(moment.boundaries):
        found.append("super-step")
    return Place(moment=moment, kinds=tuple(found) or ("elsewhere",), node=passed.node)


def _between_steps(boundaries: Sequence[Boundary]) -> bool:
    """Whether a step is over and nothing of it is stored, or a checkpoint has just been."""
    if not any(b.role == "background" for b in boundaries):
        return False
    before_first = any(b.side == "before" and b.label in FIRST_STATEMENTS[:1] for b in boundaries)
    return before_first or any(b.side == "after" and b.label in LAST_ACTS for b in boundaries)


def choose(places: Sequence[Place], *, only: str | None = None, every: int = 1) -> tuple[Place, ...]:
    """The places that are asked for: by a kind or a part of their name, and then every so many of them."""
    wanted = [p for p in places if only is None or (only in p.kinds if only in KINDS else only in str(p))]
    return tuple(itertools.islice(wanted, 0, None, every))


# --- recording --------------------------------------------------------------------------------------------------------


class Middle:
    """What this process is in the middle of; `note` is what a recorder asks."""

    def __init__(self) -> None:
        self._node: str | None = None
        self._used: dict[str, WeakSet[Any]] = {}
        self._lock = threading.Lock()

    def follow(self) -> None:
        """Begin, before anything is opened, and behind `choke`: that one reads what an exchange is from its frame."""
        self._follow_nodes()
        self._follow_postgres()
        self._follow_sqlite()

    def note(self, role: str) -> tuple[str | None, bool]:
        """The node that the main thread is in, and whether this role has something open in the database."""
        with self._lock:
            used = list(self._used.get(role, ()))
        return (self._node if role == "main" else None), any(_is_open(connection) for connection in used)

    def _mark(self, connection: Any, *, used: bool) -> None:
        role = role_of(threading.current_thread())
        with self._lock:
            others = self._used.setdefault(role, WeakSet())
            (others.add if used else others.discard)(connection)

    def _follow_nodes(self) -> None:
        from graph import nodes

        def following(name: str, node: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(node)
            def run(*args: Any, **kwargs: Any) -> Any:
                self._node = name
                try:
                    return node(*args, **kwargs)
                finally:
                    self._node = None

            return run

        for name in ("plan", "analyze", "write_draft", "test", "deliver"):
            setattr(nodes, name, following(name, getattr(nodes, name)))

    def _follow_postgres(self) -> None:
        """A connection counts from its first statement on: what has only been entered holds nothing yet."""
        import psycopg

        wait = psycopg.Connection.wait

        @functools.wraps(wait)
        def waiting(connection: Any, gen: Any, *args: Any, **kwargs: Any) -> Any:
            entering = getattr(gen, "__name__", "") == "_enter_gen"
            try:
                return wait(connection, gen, *args, **kwargs)
            finally:
                if not entering:
                    self._mark(connection, used=_is_open(connection))

        psycopg.Connection.wait = waiting  # pyright: ignore[reportAttributeAccessIssue] - the same call by position

    def _follow_sqlite(self) -> None:
        """The main thread opens connections that the one behind it uses too, when the other one waits."""
        connect = sqlite3.connect

        @functools.wraps(connect)
        def connected(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection = connect(*args, **kwargs)
            self._mark(connection, used=True)
            with self._lock:
                self._used.setdefault("background", WeakSet()).add(connection)
            return connection

        sqlite3.connect = connected


def _is_open(connection: Any) -> bool:
    if isinstance(connection, sqlite3.Connection):
        try:
            return connection.in_transaction
        except sqlite3.ProgrammingError:  # closed
            return False
    from psycopg.pq import TransactionStatus

    return not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE


def noting_recorder(path: Path, middle: Middle) -> Passing:
    """Write every boundary that this process passes into a file, with what it was in the middle of."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def passing(boundary: Boundary) -> None:
        node, is_open = middle.note(boundary.role)
        line = json.dumps([boundary.role, boundary.label, boundary.occurrence, boundary.side, node, is_open])
        os.write(file, f"{line}\n".encode())

    return passing
