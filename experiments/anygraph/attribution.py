"""Which unit has which effect: a run without a fault that waits before and after every unit, while effects are counted.

What is new since the last count belongs to the unit that has just been left; before a unit begins, to the one around
it. Units that would run side by side wait for one another in this run, so that neighbours are not taken for each other.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from experiments.anygraph.lab import Effects, Lab, Ran, since
from experiments.anygraph.units import Outcome, Unit

# One at a time, a node that waits for functions under @task may wait for ever: their turn does not come.
TRIED_SECONDS = 20.0
WAITED_SECONDS = 5.0  # a unit that is waited for may itself wait for the one that waits
WAIT = "wait"


@dataclass(kw_only=True)
class Execution:
    """One execution of a unit, and the effects that came while it ran and no unit inside of it did."""

    unit: Unit
    effects: Effects = field(default_factory=dict[str, list[Any]])
    outcome: Outcome = "returned"

    def number(self, effect: str) -> int:
        """How many effects of this kind."""
        return len(self.effects.get(effect, []))


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """All executions of a run without a fault, in the order in which they began."""

    executions: tuple[Execution, ...] = ()
    ran: Ran | None = None

    def makers(self, effect: str) -> list[str]:
        """Paths of the units that have this effect."""
        return list(dict.fromkeys(made.unit.path for made in self.executions if made.number(effect)))

    def of(self, path: str) -> list[Execution]:
        """The executions of a unit."""
        return [made for made in self.executions if made.unit.path == path]

    def kind(self, path: str) -> str:
        """node, task or tool."""
        return next((made.unit.kind for made in self.executions if made.unit.path == path), "node")

    def beside(self, path: str) -> bool:
        """Does another node, or another call of this one, belong to the same super-step?"""
        return any(
            other.unit.step == made.unit.step
            and other.unit.role != made.unit.role
            and _around(other.unit.path) == _around(path)
            and made.unit.kind == other.unit.kind == "node"
            for made in self.of(path)
            for other in self.executions
        )

    def without_fault(self, effect: str) -> list[str]:
        """Units that repeat the effect without any fault: the same piece of work, begun again by an interrupt."""
        times = Counter((made.unit.path, made.unit.task) for made in self.executions if made.number(effect))
        interrupted = {(m.unit.path, m.unit.task) for m in self.executions if m.outcome == "interrupted"}
        return list(dict.fromkeys(path for (path, task), n in times.items() if n > 1 and (path, task) in interrupted))


def _around(path: str) -> str:
    return path.rpartition("/")[0]


class _Ledger:
    """Executions that are going on, and what was counted last.

    With `serial`, a unit has to wait until those that are not around it are over. Where that cannot be, what is new is
    left to the next unit without others inside of it that ends.
    """

    def __init__(self, count: Callable[[], Effects], *, serial: bool) -> None:
        self._count = count
        self._serial = serial
        self._last = count()
        self._open: list[Execution] = []
        self._waiting: dict[str, float] = {}
        self.executions: list[Execution] = []

    def hear(self, what: str, unit: Unit, outcome: Outcome | None) -> str:
        """The answer to a process: "go on" or "wait"."""
        return self._entered(unit) if what == "entered" else self._left(unit, outcome)

    def _entered(self, unit: Unit) -> str:
        around = [made for made in self._open if unit.role.startswith(f"{made.unit.role}/")]
        alone = len(around) == len(self._open)
        began = self._waiting.setdefault(unit.role, time.monotonic())
        if self._serial and not alone and time.monotonic() - began < WAITED_SECONDS:
            return WAIT
        del self._waiting[unit.role]
        if alone:
            new = self._new()
            if around:
                _add(around[-1], new)
        execution = Execution(unit=unit)
        self._open.append(execution)
        self.executions.append(execution)
        return "go on"

    def _left(self, unit: Unit, outcome: Outcome | None) -> str:
        left = next((made for made in reversed(self._open) if made.unit == unit), None)
        if left is not None:
            self._open.remove(left)
            left.outcome = outcome or "returned"
            inside = any(made.unit.role.startswith(f"{unit.role}/") for made in self.executions)
            beside = any(not unit.role.startswith(f"{made.unit.role}/") for made in self._open)
            if not (inside and beside):
                _add(left, self._new())
        return "go on"

    def _new(self) -> Effects:
        now = self._count()
        new, self._last = since(self._last, now), now
        return new


def _add(execution: Execution, new: Effects) -> None:
    for name, items in new.items():
        if items:
            execution.effects.setdefault(name, []).extend(items)


def attribute(lab: Lab, name: str, *, one_at_a_time: bool) -> Attribution:
    """Run a thread without a fault under the eyes of a gate. Without executions when it could not be run like that.

    With invoke the gate lets units wait for one another. With ainvoke waiting would stop the loop that they run in:
    `one_at_a_time` asks LangGraph to run nodes like that.
    """
    thread_id, serial = lab.new_thread(), not lab.target.asynchronous
    ledger = _Ledger(lambda: lab.count(thread_id, name), serial=serial)
    limit = {"seconds": TRIED_SECONDS, "one_at_a_time": True} if one_at_a_time and not serial else {}
    with _gate(ledger) as address:
        ran = lab.run(thread_id, name, gate=address, **limit)
    finished = ran.state == "finished"
    return Attribution(executions=tuple(ledger.executions) if finished else (), ran=ran if finished else None)


@contextmanager
def _gate(ledger: _Ledger) -> Generator[str]:
    """The address that a process asks at every unit."""
    with tempfile.TemporaryDirectory(prefix="gate-") as folder:
        address = str(Path(folder) / "gate")
        with Listener(address, "AF_UNIX") as listener:
            serving = threading.Thread(target=_serve, args=(listener, ledger), daemon=True)
            serving.start()
            try:
                yield address
            finally:
                with contextlib.suppress(OSError):
                    Client(address, "AF_UNIX").close()  # wakes a gate that nobody has come to
                serving.join(timeout=5)


def _serve(listener: Listener, ledger: _Ledger) -> None:
    with listener.accept() as asked, contextlib.suppress(EOFError, ConnectionError):
        _answer(asked, ledger)


def _answer(asked: Connection, ledger: _Ledger) -> None:
    while True:
        what, unit, outcome = asked.recv()
        answer = ledger.hear(what, Unit(**unit), outcome)
        asked.send(answer)
