"""Workers: cases side by side, each worker with lanes of its own, which it opens when a case needs one."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from experiments.cluster import Cluster
from experiments.errors import NotRun
from experiments.lane import Lane
from experiments.look import close_connections
from experiments.mutants import plant_in_database

# Cases wait much of their time: for leases, for processes to die. So more of them than processors.
WORKERS = max(3, min(8, (os.cpu_count() or 2) + 1))


@dataclass(frozen=True, kw_only=True)
class LaneOptions:
    """What a case's world is like; see `Cluster.lane`. `lease_seconds` is that of its drivers."""

    planted: str | None = None
    plain_provider: bool = False
    deadline_seconds: float | None = None
    grace_seconds: float | None = None
    lease_seconds: float | None = None
    config: Path | None = None


ORDINARY = LaneOptions()

Job = Callable[["Lanes"], None]


class Lanes:
    """The lanes of one worker, by their options."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stack = ExitStack()
        self._open: dict[LaneOptions, Lane] = {}

    def get(self, options: LaneOptions = ORDINARY) -> Lane:
        """The worker's lane with these options; its tables are made."""
        if options not in self._open:
            lane = self._stack.enter_context(
                self._cluster.lane(
                    planted=options.planted,
                    plain_provider=options.plain_provider,
                    deadline_seconds=options.deadline_seconds,
                    grace_seconds=options.grace_seconds,
                    config=options.config,
                )
            )
            plant_in_database(options.planted, lane.settings.database_url)
            self._open[options] = lane.with_lease(options.lease_seconds) if options.lease_seconds else lane
        return self._open[options]

    def close(self) -> None:
        """Stop the ledgers of these lanes."""
        self._open.clear()
        self._stack.close()


class Workers:
    """Workers with their lanes, for one batch of jobs after the other. Usable as a context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lanes = [Lanes(cluster) for _ in range(WORKERS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lanes in self._lanes:
            lanes.close()

    def work_off(
        self,
        jobs: Iterable[Job],
        *,
        patient: Iterable[Job] = (),
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Do every job, several at a time. The first error ends all of them and is raised; so does `stop`, quietly.

        `patient` jobs wait most of their time, for a lease to be over. Every second worker begins with them, and the
        others end with them, so that there is always something to compute meanwhile.
        """
        computing, waiting = deque(jobs), deque(patient)
        errors: list[BaseException] = []

        def worker(number: int) -> None:
            order = (waiting, computing) if number % 2 else (computing, waiting)
            try:
                while not errors and not stop() and (job := _next(order)) is not None:
                    job(self._lanes[number])
            except BaseException as error:
                errors.append(error)
            finally:
                close_connections()

        threads = [
            threading.Thread(target=worker, args=(n,), name=f"case-worker {n}", daemon=True) for n in range(WORKERS)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as interrupted:  # Ctrl-C: end what runs, so that the workers come back
            errors.append(interrupted)
            self._cluster.forks.close()
            for thread in threads:
                thread.join()
            raise
        if errors:
            raise _first(errors)


def _next(queues: Iterable[deque[Job]]) -> Job | None:
    """The next job of the first queue that has one; taking from a deque is one step."""
    for waiting in queues:
        with suppress(IndexError):
            return waiting.popleft()
    return None


def _first(errors: list[BaseException]) -> BaseException:
    """What to show: the reason, before what followed from it."""
    return next((error for error in errors if not isinstance(error, NotRun)), errors[0])
