"""The machine that measures: figures of one say little about another, and little at all when it is busy."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psycopg

from experiments.benchmarks.server import durability

PACKAGES = (
    "langgraph",
    "langgraph-checkpoint-postgres",
    "psycopg",
    "httpx",
    "fastapi",
    "uvicorn",
    "obstore",
)

# Beside less work than this, per core, the medians of two same things agree.
QUIET_LOAD = 0.25


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Facts at the start of a measurement. `load` is the load average of the last minute."""

    cores: int
    system: str
    load: float
    busy: bool

    @property
    def warning(self) -> str | None:
        """For a busy machine."""
        if not self.busy:
            return None
        return (
            f"The machine is busy (load {self.load:.1f} on {self.cores} cores): times and intervals are wider than on "
            "an idle one. Ratios are compared side by side and suffer less."
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def look_at_machine() -> Machine:
    """Now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    system = f"{platform.system()} {platform.machine()}"
    return Machine(cores=cores, system=system, load=round(load, 2), busy=load > QUIET_LOAD * cores)


def versions(compared: Sequence[str] = ()) -> dict[str, str]:
    """Python and the packages whose work is measured; of what is compared with, only those that are installed."""
    found = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    for name in compared:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def server_facts(dsn: str) -> dict[str, str]:
    """The server's version, and what stands between a commit and the disk."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return durability(connection)
