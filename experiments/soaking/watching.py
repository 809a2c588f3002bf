"""Memory and open files of what lives long: workers, their fork servers, the ledger. Sampled by psutil."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psutil

from experiments.soaking.faults import ledger_pid
from experiments.soaking.place import Place
from experiments.soaking.workers import Workers

# What a process does in its first seconds, importing above all, is no growth.
WARM_SECONDS = 15.0
# A life that was watched for less says nothing about growth.
SHORTEST_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One look at one process: seconds from the beginning, resident memory in KiB, open files."""

    at: float
    rss_kib: int
    files: int


@dataclass(kw_only=True)
class Life:
    """One process, from the first look at it to the last."""

    role: str
    pid: int
    samples: list[Sample] = field(default_factory=list[Sample])

    @property
    def watched(self) -> list[Sample]:
        """Without its first seconds."""
        return [each for each in self.samples if each.at - self.samples[0].at >= WARM_SECONDS]

    @property
    def seconds(self) -> float:
        """For how long it was watched."""
        return self.watched[-1].at - self.watched[0].at if self.watched else 0.0

    def to_json(self) -> dict[str, Any]:
        """What it had in the beginning and in the end, each a median of a few samples."""
        first, last = self.watched[:5], self.watched[-5:]
        begin, end = (round(median(each.rss_kib for each in some)) for some in (first, last))
        return {
            "pid": self.pid,
            "seconds": round(self.seconds, 1),
            "rss_kib": [begin, end],
            "rss_kib_per_minute": round((end - begin) / self.seconds * 60, 1),
            "files": [first[0].files, last[-1].files],
            "files_most": max(each.files for each in self.watched),
        }


class Watch:
    """Looks at every process of interest once for each call of `look`."""

    def __init__(self, place: Place, workers: Workers) -> None:
        self._place = place
        self._workers = workers
        self.lives: dict[tuple[str, int], Life] = {}

    def look(self, at: float) -> None:
        """One sample of each."""
        for child in self._workers.slots:
            self._sample("worker", child.pid, at)
        for server in self._workers.fork_servers():
            self._sample("fork server", server.pid, at)
        pid = ledger_pid(self._place)
        if pid is not None:
            self._sample("ledger", pid, at)

    def _sample(self, role: str, pid: int, at: float) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            sample = Sample(at=at, rss_kib=process.memory_info().rss // 1024, files=process.num_fds())
            if sample.rss_kib == 0:
                return  # it has ended, and nobody has asked how
            self.lives.setdefault((role, pid), Life(role=role, pid=pid)).samples.append(sample)

    def to_json(self) -> dict[str, Any]:
        """By role: how many lives were watched long enough, the longest of them, and the growth of all."""
        told: dict[str, Any] = {}
        for role in ("worker", "fork server", "ledger"):
            lives = [life for life in self.lives.values() if life.role == role and life.seconds >= SHORTEST_SECONDS]
            if not lives:
                told[role] = {"lives": 0}
                continue
            growth = sorted(life.to_json()["rss_kib_per_minute"] for life in lives)
            longest = max(lives, key=lambda life: life.seconds)
            told[role] = {
                "lives": len(lives),
                "rss_kib_per_minute": {"p50": median(growth), "max": growth[-1]},
                "longest": longest.to_json(),
            }
        return told
