"""What was measured, its medians, and what the longest queue costs beside the shortest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from experiments.benchmarks.machine import Machine
from experiments.benchmarks.spread import Spread, interval, quantile, ratio
from experiments.queueing.looks import Look
from experiments.queueing.rates import Rate

# What "flat" means here: with the longest queue at least so much of the rate with the shortest one.
AIM_RATE = 0.75
# A look is at most so much slower, or below so many milliseconds anyway.
AIM_LOOK, ENOUGH_MS = 3.0, 5.0


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Everything that was measured beside one queue in one round."""

    round: int
    queued: int
    fill_seconds: float
    looks: tuple[Look, ...]
    rates: tuple[Rate, ...]
    plans: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    arrivals_ms: tuple[float, ...] = ()

    def with_arrivals(self, taken: tuple[float, ...]) -> Beside:
        """The same, with what came while others were not due."""
        return replace(self, arrivals_ms=taken)


@dataclass(frozen=True, kw_only=True)
class Results:
    """All rounds."""

    rounds: int
    runs: int
    workers: tuple[int, ...]
    queued: tuple[int, ...]
    seed: int
    seconds: float
    beside: tuple[Beside, ...]
    machine: Machine | None = None

    def rate(self, workers: int, queued: int) -> list[float]:
        """Runs a second, one for each round in the order of the rounds."""
        return [rate.runs_per_second for each in self._of(queued) for rate in each.rates if rate.workers == workers]

    def gaps(self, queued: int) -> list[float]:
        """Milliseconds from the end of a run to the claim of the next, by one worker."""
        return [gap for each in self._of(queued) for rate in each.rates for gap in rate.gaps_ms]

    def look(self, name: str, queued: int) -> list[float]:
        """Milliseconds of one look."""
        return [ms for each in self._of(queued) for one in each.looks if one.name == name for ms in one.ms]

    def arrivals(self, queued: int) -> list[float]:
        """Milliseconds until a run was taken that came beside others that were not due."""
        return [ms for each in self._of(queued) for ms in each.arrivals_ms]

    @property
    def looks(self) -> list[str]:
        """The names of the looks."""
        return [one.name for one in self.beside[0].looks]

    @property
    def shortest(self) -> int:
        """The shortest queue."""
        return min(self.queued)

    @property
    def longest(self) -> int:
        """The longest one."""
        return max(self.queued)

    @property
    def not_flat(self) -> list[str]:
        """What the longest queue makes slower than the aims allow, beyond what the spread of the rounds explains."""
        found: list[str] = []
        for workers in self.workers:
            long, short = self.rate(workers, self.longest), self.rate(workers, self.shortest)
            _, high = interval(long, short, seed=self.seed)
            if high < AIM_RATE:
                found.append(f"{workers} workers: {ratio(long, short):.2f} of the rate with the shortest queue")
        for name in self.looks:
            long, short = median(self.look(name, self.longest)), median(self.look(name, self.shortest))
            if long > max(ENOUGH_MS, AIM_LOOK * short):
                found.append(f"{name}: {long:.1f} ms, {short:.1f} ms with the shortest queue")
        return found

    @property
    def verdict(self) -> str:
        """ "flat", or what is not."""
        return "not flat" if self.not_flat else "flat"

    def _of(self, queued: int) -> Sequence[Beside]:
        return sorted((each for each in self.beside if each.queued == queued), key=lambda each: each.round)

    def to_json(self) -> dict[str, Any]:
        """Everything, raw samples and plans included."""
        return {
            "verdict": self.verdict,
            "not_flat": self.not_flat,
            "rounds": self.rounds,
            "runs_per_measurement": self.runs,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "machine": asdict(self.machine) if self.machine is not None else None,
            "runs_per_second": {
                str(queued): {str(workers): asdict(Spread.of(self.rate(workers, queued))) for workers in self.workers}
                for queued in self.queued
            },
            "rate_ratio_longest_to_shortest": {
                str(workers): self._ratio(self.rate(workers, self.longest), self.rate(workers, self.shortest))
                for workers in self.workers
            },
            "slot_free_to_claim_ms": {str(queued): percentiles(self.gaps(queued)) for queued in self.queued},
            "arrival_to_claim_ms": {str(queued): percentiles(self.arrivals(queued)) for queued in self.queued},
            "looks_ms": {
                name: {str(queued): percentiles(self.look(name, queued)) for queued in self.queued}
                for name in self.looks
            },
            "look_ratio_longest_to_shortest": {
                name: round(ratio(self.look(name, self.longest), self.look(name, self.shortest)), 2)
                for name in self.looks
            },
            "raw": [asdict(each) for each in self.beside],
        }

    def _ratio(self, long: list[float], short: list[float]) -> dict[str, Any]:
        low, high = interval(long, short, seed=self.seed)
        return {"ratio": round(ratio(long, short), 3), "low": round(low, 3), "high": round(high, 3)}


def percentiles(samples: Sequence[float]) -> dict[str, float] | None:
    """p50, p95 and the longest; None where nothing was measured."""
    if not samples:
        return None
    return {
        "p50": round(median(samples), 2),
        "p95": round(quantile(samples, 0.95), 2),
        "max": round(max(samples), 2),
        "samples": len(samples),
    }
