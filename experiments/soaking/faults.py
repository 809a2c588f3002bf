"""What is killed, and when. The seed draws moments and kinds; which process it is depends on what lives then."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import psutil

from experiments.soaking.place import Place
from experiments.soaking.workers import Workers
from runs import local_postgres

Kind = Literal["driver", "worker", "ledger", "postgres"]

# How often each is chosen, in a hundred.
WEIGHTS: dict[Kind, int] = {"driver": 60, "worker": 18, "ledger": 12, "postgres": 10}
EVERY_SECONDS = 1.5


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A kill at so many seconds from the beginning. `how` is for Postgres: its whole server, or its first process."""

    at: float
    kind: Kind
    choice: float
    how: signal.Signals


@dataclass(frozen=True, kw_only=True)
class Struck:
    """A process that was killed. `at`: seconds from the beginning."""

    at: float
    kind: Kind
    pid: int
    how: str


def plan(seed: int, seconds: float, every: float = EVERY_SECONDS) -> Iterator[Planned]:
    """The kills of a campaign. The same seed, the same plan."""
    draw = random.Random(seed)  # noqa: S311 - a plan that can be repeated
    at = 0.0
    while (at := at + draw.expovariate(1 / every)) < seconds:
        (kind,) = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))
        yield Planned(at=at, kind=kind, choice=draw.random(), how=draw.choice((signal.SIGQUIT, signal.SIGKILL)))


class Killer:
    """Kills what is planned. `spared` workers at the front of the row are left alone; their drivers are not."""

    def __init__(self, place: Place, workers: Workers, spared: int, began: float) -> None:
        self._place = place
        self._workers = workers
        self._spared = spared
        self._began = began
        self.struck: list[Struck] = []
        self.missed = 0

    def strike(self, planned: Planned) -> None:
        """Kill a process of that kind; where none lives at this moment, that is counted as a miss."""
        found = _FIND[planned.kind](self)
        if not found:
            self.missed += 1
            return
        process = found[int(planned.choice * len(found))]
        how = planned.how if planned.kind == "postgres" else signal.SIGKILL
        try:
            process.send_signal(how)
        except psutil.Error:
            self.missed += 1
            return
        at = round(time.monotonic() - self._began, 3)
        self.struck.append(Struck(at=at, kind=planned.kind, pid=process.pid, how=how.name))

    def drivers(self) -> list[psutil.Process]:
        """Who drives now."""
        return self._workers.drivers()

    def workers(self) -> list[psutil.Process]:
        """Workers that live and are not spared."""
        return [p for child in self._workers.slots[self._spared :] if child.alive for p in _process(child.pid)]

    def ledgers(self) -> list[psutil.Process]:
        """The ledger, if it lives."""
        pid = ledger_pid(self._place)
        return _process(pid) if pid is not None else []

    def servers(self) -> list[psutil.Process]:
        """Postgres's first process, if it lives."""
        pid = local_postgres.status(self._place.settings.home).pid
        return _process(pid) if pid is not None else []


_FIND: dict[Kind, Callable[[Killer], list[psutil.Process]]] = {
    "driver": Killer.drivers,
    "worker": Killer.workers,
    "ledger": Killer.ledgers,
    "postgres": Killer.servers,
}


def ledger_pid(place: Place) -> int | None:
    """The process that the home's file names."""
    try:
        return int(json.loads((place.settings.home / "ledger.json").read_text(encoding="utf-8"))["pid"])
    except (OSError, ValueError, KeyError):
        return None


def _process(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return [process]
    return []
