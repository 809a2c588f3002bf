"""Medians, percentiles, and how far a ratio of medians can be trusted.

No mean and no best time: one slow disk flush among thirty is part of the world, and a single lucky one is not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The middle of some samples, and where the middle four fifths of them lie."""

    median: float
    p10: float
    p90: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Of at least one sample."""
        return cls(median=median(samples), p10=quantile(samples, 0.1), p90=quantile(samples, 0.9), samples=len(samples))


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which that share of the samples lies, between two samples by straight line."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def ratio(ours: Sequence[float], floor: Sequence[float]) -> float:
    """The ratio of the medians."""
    return median(ours) / median(floor)


def interval(ours: Sequence[float], floor: Sequence[float], *, seed: int) -> tuple[float, float]:
    """Where the ratio of medians lies with 95 % confidence: percentiles of a bootstrap over the pairs.

    What was measured in one round stays together, so that a slow minute of the machine counts on both sides.
    """
    assert len(ours) == len(floor), "pairs are measured in the same rounds"
    chance = random.Random(seed)  # noqa: S311 - resampling, not a secret
    places = range(len(ours))
    found: list[float] = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(places, k=len(places))
        found.append(ratio([ours[place] for place in drawn], [floor[place] for place in drawn]))
    tail = (1 - CONFIDENCE) / 2
    return quantile(found, tail), quantile(found, 1 - tail)
