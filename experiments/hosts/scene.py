"""One case under way: two workers, runs, and what a fault has to say about itself."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from experiments.hosts import cuts
from experiments.hosts.cuts import How
from experiments.hosts.errors import NotStruck
from experiments.hosts.load import Driven, Load
from experiments.hosts.network import Host
from experiments.hosts.size import FAULT_SECONDS, LEASE_SECONDS
from experiments.hosts.skew import Clock
from experiments.hosts.stand import Stand
from experiments.hosts.worker import Worker

Gate = tuple[Path, Path]

BUSY_SECONDS = 120.0
# A run that is hit has come this far: behind its first step, before its last one.
CHECKPOINTS = 3


class Scene:
    """What a fault acts on. `victim` is the worker that it is about, `other` the one that is left alone."""

    def __init__(
        self, stand: Stand, victim: Worker, other: Worker, *, clock: Clock | None = None, gate: Gate | None = None
    ) -> None:
        self.stand = stand
        self.victim = victim
        self.other = other
        self._clock = clock
        self._gate = gate
        self.load = Load(stand)
        self.notes: list[str] = []
        self.wrong: list[str] = []  # what the fault itself saw and should not have seen
        self.hit: list[Driven] = []
        self.struck_at: datetime | None = None
        self.healed_at: datetime | None = None
        self.open_at_heal: list[str] = []

    @property
    def database(self) -> Host:
        """The host of the database."""
        return self.stand.server.host

    @property
    def ledger(self) -> Host:
        """The host of the ledger."""
        return self.stand.ledger_host

    @property
    def clock(self) -> Clock:
        """The victim's clock."""
        assert self._clock is not None, "the fault is prepared with a clock"
        return self._clock

    @property
    def gate(self) -> Gate:
        """The orders and the log of the gate."""
        assert self._gate is not None, "the fault is prepared with a gate"
        return self._gate

    def note(self, text: str) -> None:
        """Something that the reader of the results should know."""
        self.notes.append(text)

    def wait_until_busy(self, hosts: Sequence[Host]) -> None:
        """Until every one of these hosts drives a run that is in the middle."""
        names = {host.name for host in hosts}

        def busy() -> bool:
            return names <= {run.host for run in self.load.driven() if run.checkpoints >= CHECKPOINTS}

        if not self.load.wait(busy, BUSY_SECONDS):
            raise NotStruck(f"{' and '.join(sorted(names))} did not come to drive a run.")

    def struck(self, hosts: Sequence[Host]) -> None:
        """The fault is there now. NotStruck when none of these hosts drives a run at this moment."""
        self.struck_at = self.struck_at or datetime.now(UTC)
        names = {host.name for host in hosts}
        self.hit = [run for run in self.load.driven() if run.host in names]
        if not self.hit:
            raise NotStruck("When the fault was there no run was driven any more.")

    def healed(self) -> None:
        """The fault is over now."""
        self.healed_at = datetime.now(UTC)
        self.load.wait(self._look, FAULT_SECONDS)

    def _look(self) -> bool:
        self.open_at_heal = sorted(self.load.open())
        return True

    def open_hits(self) -> list[Driven]:
        """The runs that were hit and are driven under the same epoch still, as they stand now."""
        epochs = {run.run_id: run.epoch for run in self.hit}
        return [run for run in self.load.driven(list(epochs)) if run.epoch == epochs[run.run_id]]

    @contextmanager
    def cut_off(self, host: Host, targets: Sequence[tuple[Host, int]], how: How) -> Generator[None]:
        """The host is cut off from these inside the block."""
        with ExitStack() as stack:
            for target, port in targets:
                stack.enter_context(cuts.apart(host, target, port, how))
                self.struck_at = self.struck_at or datetime.now(UTC)
            yield

    def within_the_lease(self) -> None:
        """NotStruck when the fault has lasted so long that a lease can have ended."""
        assert self.struck_at is not None
        if (datetime.now(UTC) - self.struck_at).total_seconds() > LEASE_SECONDS * 0.75:
            raise NotStruck("The machine was too slow: the fault lasted longer than a lease.")

    def wait(self, seconds: float) -> None:
        """Let the fault last."""
        time.sleep(seconds)
