"""The plan of kills: which process, at which step, how long after the step began. Drawn by a seed, the same for all.

Kills come in blocks of ten. Each block holds every step twice, once with a kill in the first half of the span and once
in the second, and both targets five times, in an order of its own: so also a short plan covers the whole run, and a
shorter plan is the beginning of a longer one.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

from experiments.recovering.work import STEPS

Target = Literal["driver", "worker"]
TARGETS: tuple[Target, ...] = ("driver", "worker")

# A step takes a tenth of a second; what is between two steps (a record, a checkpoint) is hit too.
SPAN_SECONDS = 0.12
# Behind the last step nothing is left to recover.
LAST_SPAN_SECONDS = 0.095


@dataclass(frozen=True, kw_only=True)
class Kill:
    """SIGKILL so long after the beginning of a step (from 1). A system without drivers loses its worker each time."""

    number: int
    target: Target
    step: int
    after_seconds: float

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "number": self.number,
            "target": self.target,
            "step": self.step,
            "after_seconds": round(self.after_seconds, 4),
        }


def kills(seed: int) -> Generator[Kill]:
    """Kills without end."""
    chance = random.Random(seed)  # noqa: S311 - a plan, not a secret
    number = 0
    while True:
        for target, step, half in _block(chance):
            number += 1
            span = LAST_SPAN_SECONDS if step == STEPS else SPAN_SECONDS
            after = span / 2 * (half + chance.random())
            yield Kill(number=number, target=target, step=step, after_seconds=after)


def _block(chance: random.Random) -> list[tuple[Target, int, int]]:
    cells: list[tuple[Target, int, int]] = []
    for step in range(1, STEPS + 1):
        for half, target in enumerate(chance.sample(TARGETS, len(TARGETS))):
            cells.append((target, step, half))
    chance.shuffle(cells)
    return cells
