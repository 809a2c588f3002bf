"""A system as the campaign sees it: two workers up, a run given to them, one killed, and what became of the run."""

from __future__ import annotations

import abc
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

from experiments.recovering.children import Child
from experiments.recovering.place import Place
from experiments.recovering.plan import Target

NAMES = ("one", "two")


@dataclass(frozen=True, kw_only=True)
class WentOn:
    """When somebody else had the run, and when its first work was on record (Unix seconds); None: not seen.

    `why` is what the system says about why it was taken; `trail` what it has on record since the kill, and when.
    """

    claimed_at: float | None
    recorded_at: float | None
    why: str | None = None
    trail: tuple[tuple[float, str], ...] = ()


class System(abc.ABC):
    """One column. `settings` says in a sentence how it is set up; `packages` are those whose versions count.

    A run that has not ended so long after a kill is stuck (`patience_seconds`).
    """

    name: ClassVar[str]
    settings: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    patience_seconds: ClassVar[float]
    ours: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self.place = place
        self.folder: Path = place.folder_of(self.name)
        self.workers: dict[str, Child] = {}

    @classmethod
    def versions(cls) -> dict[str, str]:
        """Of its packages; those that are missing are not in it."""
        found: dict[str, str] = {}
        for name in cls.packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found

    @classmethod
    def missing(cls) -> tuple[str, ...]:
        """Its packages that are not installed here."""
        return tuple(name for name in cls.packages if name not in cls.versions())

    @contextmanager
    def running(self) -> Generator[None]:
        """Prepared, from here to the end; then every process of it is gone."""
        try:
            self.prepare()
            yield
        finally:
            self.close()
            for child in self.workers.values():
                child.end(signal.SIGKILL)

    def ready(self) -> None:
        """Bring up both workers, those that are not up."""
        started = [name for name in NAMES if name not in self.workers or not self.workers[name].alive]
        for name in started:
            if name in self.workers:
                self.workers[name].kill()  # reaps it
            self.workers[name] = self.start(name)
        for name in started:
            self.workers[name].wait_until_ready()

    def child_of(self, pid: int) -> str:
        """The name of the worker that is this process."""
        return next(name for name, child in self.workers.items() if child.pid == pid)

    # --- what each system says ----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def prepare(self) -> None:
        """Databases, servers, tables."""

    @abc.abstractmethod
    def start(self, name: str) -> Child:
        """Start a worker."""

    @abc.abstractmethod
    def submit(self) -> str:
        """Give the workers a run; its id."""

    @abc.abstractmethod
    def ended(self, run_id: str) -> str | None:
        """How the run ended, in the system's own word; None while it has not."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give back what `prepare` opened."""

    # --- what some say ------------------------------------------------------------------------------------------------

    def victim(self, pid: int, target: Target) -> int:
        """The process to kill, where `pid` runs the step. Here a worker runs the steps itself."""
        return pid

    def killed(self, run_id: str, pid: int) -> None:
        """Right behind the kill: what the system's user has to do so that it goes on at all. Here nothing."""
        return

    def went_on(self, run_id: str, killed_at: float) -> WentOn | None:
        """When it went on, by the system's own records; None where the marks of the steps have to do."""
        return None

    def unknown(self, run_id: str) -> int:
        """How many effects of the run are on record as unknown."""
        return 0

    def effects(self, run_id: str) -> int:
        """How many effects of the run the sink has."""
        return len(self.place.sink.effects(marker=run_id))

    def settle(self, run_id: str) -> None:
        """Behind a run that is stuck: get it out of the way of the next one. Here nothing."""
        return
