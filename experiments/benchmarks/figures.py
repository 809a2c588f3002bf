"""What a benchmark answers: declared figures, each computed from samples that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.benchmarks.spread import Spread, interval, quantile, ratio

Unit = Literal["ratio", "ms", "ms CPU", "bytes", "rows", "commits", "actions/s", "sends", "receipts", "cores"]
Samples = Mapping[str, Sequence[float]]
SEED = 20  # of the resampling, so that the same samples give the same interval


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A figure before it is measured. `key` names it in JSON and in the documents.

    `target` is the most it may be; the least, where it says so.
    """

    key: str
    unit: Unit
    says: str
    target: float | None = None
    least: bool = False


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure as measured. `ours` are the samples it is made of.

    A ratio has a `floor` beside it, a confidence interval, and `noise`: the interval of the floor against itself,
    measured in the same rounds. A ratio inside the noise says nothing.
    """

    declared: Declared
    value: float
    ours: Spread
    floor: Spread | None = None
    low: float | None = None
    high: float | None = None
    noise: tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        target = self.declared.target
        if target is None:
            return None
        return self.value >= target if self.declared.least else self.value <= target

    @property
    def clear(self) -> bool:
        """Whether the whole interval lies on the side of the target where the value lies."""
        target = self.declared.target
        if target is None or self.low is None or self.high is None:
            return True
        return self.high <= target or self.low > target


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one measurement found: its figures, and every sample by what was measured, in its unit."""

    figures: tuple[Figure, ...]
    samples: Samples


def amount(declared: Declared, samples: Sequence[float]) -> Figure:
    """A median with its spread."""
    spread = Spread.of(samples)
    return Figure(declared=declared, value=spread.median, ours=spread)


def tail(declared: Declared, samples: Sequence[float], share: float) -> Figure:
    """The value below which that share of the samples lies, with their spread."""
    return Figure(declared=declared, value=quantile(samples, share), ours=Spread.of(samples))


def quotient(
    declared: Declared, ours: Sequence[float], floor: Sequence[float], again: Sequence[float] | None = None
) -> Figure:
    """A ratio of medians. `again` is the floor measured a second time in the same rounds."""
    low, high = interval(ours, floor, seed=SEED)
    return Figure(
        declared=declared,
        value=ratio(ours, floor),
        ours=Spread.of(ours),
        floor=Spread.of(floor),
        low=low,
        high=high,
        noise=interval(again, floor, seed=SEED) if again is not None else None,
    )
