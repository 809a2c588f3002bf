"""What a soak saw, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from experiments.randomly import at_most
from experiments.soaking.faults import Kind, Struck
from experiments.soaking.judging import duplicates, lost
from experiments.soaking.world import Standing, words


@dataclass(frozen=True, kw_only=True)
class Results:
    """`seconds` by phase; `settled`: what a person said of unknown effects; `watched`: see `watching`."""

    seed: int
    minutes: float
    workers: int
    interrupted: bool
    seconds: dict[str, float]
    standing: Standing
    struck: Sequence[Struck]
    missed: int
    restarts: int
    settled: Sequence[dict[str, str]]
    broken: Sequence[str]
    watched: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def kills(self) -> dict[Kind, int]:
        """How many of each kind fired."""
        return dict(Counter(each.kind for each in self.struck))

    @property
    def wrong(self) -> int:
        """Runs with an effect too many or too few."""
        return sum(bool(duplicates(run) or lost(run)) for run in self.standing.runs)

    @property
    def invalid(self) -> list[str]:
        """Why this is no evidence, if it is none."""
        found = [
            f"no {kind} was killed" for kind in ("driver", "worker", "ledger", "postgres") if kind not in self.kills
        ]
        if not any(run.hit for run in self.standing.runs):
            found.append("no run was hit")
        return found

    @property
    def verdict(self) -> str:
        """ "disproved" is stronger than "invalid"."""
        if self.broken:
            return "disproved"
        return "invalid" if self.invalid else "pass"

    def to_json(self) -> dict[str, Any]:
        """Everything, the raw kills included."""
        runs = self.standing.runs
        hit = [run for run in runs if run.hit]
        ends = sorted((run.finished_at - run.created_at).total_seconds() for run in runs if run.finished_at is not None)
        return {
            "verdict": self.verdict,
            "broken": list(self.broken),
            "invalid": self.invalid,
            "interrupted": self.interrupted,
            "seed": self.seed,
            "minutes": self.minutes,
            "workers": self.workers,
            "seconds": {name: round(value, 1) for name, value in self.seconds.items()},
            "kills": self.kills,
            "kills_missed": self.missed,
            "workers_restarted": self.restarts,
            "runs": len(runs),
            "runs_by_status": words(runs),
            "runs_hit": len(hit),
            "takeovers": sum(run.takeovers for run in runs),
            "claims": sum(len(run.claims) for run in runs),
            "steps_repeated": sum(max(0, run.steps - 4) for run in runs),
            "effects": sum(len(effects) for run in runs for effects in run.effects.values()),
            "duplicates": sum(duplicates(run) for run in runs),
            "lost": sum(lost(run) for run in runs),
            "unknown_ever": self.standing.was_unknown,
            "settled_by_a_person": list(self.settled),
            "wrong_at_most": {"of_all": at_most(self.wrong, len(runs)), "of_those_hit": at_most(self.wrong, len(hit))},
            "queued_to_end_seconds": {
                "p50": round(median(ends), 3) if ends else None,
                "p95": round(ends[int(len(ends) * 0.95)], 3) if ends else None,
                "max": round(ends[-1], 3) if ends else None,
            },
            "memory": self.watched,
            "tables": {name: {"bytes": size, "rows": rows} for name, (size, rows) in self.standing.sizes.items()},
            "versions": self.versions,
            "raw": {
                "kills": [asdict(each) for each in self.struck],
                "runs": [
                    {
                        "run_id": run.run_id,
                        "status": run.status,
                        "reason": run.reason,
                        "claims": run.taken,
                        "steps": run.steps,
                        "errors": run.errors,
                        "drivers_killed": run.killed,
                        "effects": sum(len(effects) for effects in run.effects.values()),
                    }
                    for run in runs
                ],
            },
        }
