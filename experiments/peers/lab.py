"""Real processes over one Postgres server and one provider, in a temporary folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.benchmarks.services import services
from experiments.cluster import new_database, service
from experiments.errors import NotRun
from experiments.peers.order import LOST, SENT, Answer, Fault, Order, Place, Word, at_the_gate
from experiments.peers.provider import Charge, Provider
from experiments.peers.systems import System
from experiments.processes import ForkServer, Running
from experiments.story import Process, errors_of

PRELOADED = "experiments.peers.preload"
START_SECONDS = 30.0
LONGEST_SECONDS = 30.0
LOOK_EVERY_SECONDS = 0.01

# How long a record may take to catch up with the last process that had something to say.
CATCH_UP_SECONDS = 1.0


class NotStruck(Exception):
    """A fault did not fire, or a process did not do what the plan waits for: the cell proves nothing."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What one process of a case said: the answer to its caller, if one came, and its story."""

    answer: Answer | None
    lines: tuple[str, ...]
    exit_code: int | None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        answer = {"answer": self.answer.word, "says": self.answer.says} if self.answer is not None else {"answer": None}
        return {**answer, "exit_code": self.exit_code, "lines": list(self.lines)}


class Worker:
    """One process that can send, and the process that asks it: the same one, unless a service performs effects."""

    def __init__(self, acting: Running, asking: Running) -> None:
        self._acting = acting
        self._asking = asking

    def until_killed(self) -> None:
        """Wait until the fault has killed the process that sends."""
        if not self._acting.ends_within(LONGEST_SECONDS) or not self._story(self._acting).crash:
            raise NotStruck("The process that was to be killed lives, or ended by itself.")

    def until_stopped(self) -> None:
        """Wait until the fault has stopped the process that sends."""
        if not self._acting.wait_until_stopped(LONGEST_SECONDS):
            raise NotStruck("The process that was to be stopped went on, or ended.")

    def wake(self) -> None:
        """Let it go on where it was."""
        self._acting.wake()

    def until_sent(self) -> None:
        """Wait until a woken process has sent, or has had no answer."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            if any(line.startswith((SENT, LOST)) for line in self._story(self._acting).lines):
                return
            if not self._acting.alive:
                return
            time.sleep(LOOK_EVERY_SECONDS)
        raise NotStruck("The process that was woken neither sent nor ended.")

    def until_answered(self) -> None:
        """Wait until the caller has an answer."""
        if not self._asking.ends_within(LONGEST_SECONDS):
            raise NotStruck("A caller has waited too long for its answer.")
        told = self._story(self._asking)
        if told.end is None:
            raise NotStruck(f"A caller ended without an answer: {told.last_words or 'without a word'}")

    def close(self) -> Told:
        """End what still runs; what was said."""
        for running in (self._asking, self._acting):
            running.kill()
        acting, asking = self._acting.wait(), self._asking.wait()
        lines = (*acting.lines, *asking.lines) if self._acting is not self._asking else asking.lines
        words = (f"(stderr: {process.last_words})" for process in (acting, asking) if process.last_words)
        answer = Answer.from_text(asking.end) if asking.end is not None else None
        return Told(answer=answer, lines=(*lines, *dict.fromkeys(words)), exit_code=acting.exit_code)

    def _story(self, running: Running) -> Process:
        return Process.read(running.told, None)


@dataclass(kw_only=True)
class Stage:
    """One case: a system, a provider that remembers keys or not, and the processes that a plan starts."""

    system: System
    order: Order
    place: Place
    forks: ForkServer
    workers: list[Worker] = field(default_factory=list[Worker])

    def start(
        self,
        *,
        fault: Fault | None = None,
        alone: bool = False,
        amount: int | None = None,
        hold_seconds: float = 0.0,
    ) -> Worker:
        """Start another process that performs the action, or asks for it, in a turn of its own."""
        order = replace(self.order, fault=fault, alone=alone, hold_seconds=hold_seconds, turn=len(self.workers) + 1)
        return self._start(order if amount is None else replace(order, amount=amount))

    def start_together(self, count: int, *, think_seconds: float) -> None:
        """Start so many in one turn, let them begin at once, and wait for all."""
        gate = self.place.folder / "gate"
        order = replace(self.order, think_seconds=think_seconds, gate=gate)
        workers = [self._start(order) for _ in range(count)]
        gate.touch()
        for worker in workers:
            worker.until_answered()

    def pass_time(self, seconds: float) -> None:
        """Let leases end: real time, since the systems have their own clocks."""
        time.sleep(seconds)

    def _start(self, order: Order) -> Worker:
        number = len(self.workers) + 1
        told = self.place.folder / f"process {number}.txt"
        if self.system.serve is None:
            acting = asking = self.forks.start(at_the_gate, told, self.system.call, order, self.place)
        else:
            ready = self.place.folder / f"service {number}.ready"
            acting = self.forks.start(self.system.serve, told, order, self.place, ready)
            _until_ready(acting, ready)
            told = told.with_name(f"caller {number}.txt")
            asking = self.forks.start(at_the_gate, told, self.system.call, order, self.place, ready)
        worker = Worker(acting, asking)
        self.workers.append(worker)
        return worker

    def status(self) -> Word:
        """What is recorded when everybody has spoken; late records get a moment."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while True:
            word = self.system.look(self.order, self.place)
            if word in ("done", "failed") or time.monotonic() > deadline:
                return word
            time.sleep(0.1)

    def close(self) -> tuple[Told, ...]:
        """End every process; what each said."""
        return tuple(worker.close() for worker in self.workers)


def _until_ready(running: Running, ready: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if not running.alive or time.monotonic() > deadline:
            raise NotRun.because("service", errors_of(running.told))
        time.sleep(LOOK_EVERY_SECONDS)


class Lab:
    """What cases share. Each has its own folder and its own key; each system has a database."""

    def __init__(self, folder: Path, server: str, provider: Provider, forks: ForkServer) -> None:
        self._folder = folder
        self._server = server
        self._provider = provider
        self._forks = forks
        self._lock = threading.Lock()
        self._databases: dict[str, str] = {}

    def stage(self, system: System, case: str, *, keyed: bool) -> Stage:
        """A case that nothing has happened in yet."""
        folder = self._folder / case
        folder.mkdir(parents=True)
        place = Place(dsn=self._database(system), folder=folder)
        system.make(place)
        order = Order(case=case, provider=self._provider, keyed=keyed)
        return Stage(system=system, order=order, place=place, forks=self._forks)

    def charges(self, case: str) -> list[Charge]:
        """What happened in the world."""
        return self._provider.charges(case)

    def _database(self, system: System) -> str:
        name = f"peers_{system.name}".replace(" ", "_").replace(",", "").replace("-", "_")
        with self._lock:
            if name not in self._databases:
                self._databases[name] = new_database(self._server, name)
            return self._databases[name]


@contextmanager
def open_lab() -> Generator[Lab]:
    """Start Postgres, the provider and the fork server; stop them and remove everything in the end."""
    forks = ForkServer(PRELOADED)  # it imports while the rest starts
    with ExitStack() as stack:
        where = stack.enter_context(services())
        folder = where.folder / "peers"
        folder.mkdir()
        log, ready = folder / "provider.log", folder / "provider.ready"
        command = ["-m", "experiments.peers.provider", "--log", log, "--ready-file", ready, "--parent", os.getpid()]
        port = stack.enter_context(service("provider", command, folder, ready))
        stack.enter_context(forks)
        forks.warm_up(folder)
        yield Lab(folder, where.dsn, Provider(int(port), log), forks)
