"""What was seen in the drill, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from experiments.upgrading.control import Control

Verdict = Literal["pass", "disproved", "invalid"]

# What one run does to the world, by how it ends.
EXPECTED = {
    "published": {"draft.save": 1, "report.publish": 1},
    "rejected": {"draft.save": 1},
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run at the end. `said`: what each who decided was answered. `attempts`: of the steps before the delivery."""

    run_id: str
    group: str
    versions: tuple[str, str]
    said: tuple[str, ...]
    status: str
    reason: str | None
    digest: str | None
    effects: Mapping[str, int]
    attempts: Mapping[str, int]

    def wrong(self, digest: str | None) -> list[str]:
        """What is not as promised; `digest` is that of all runs."""
        stands = [word for word in self.said if not word.startswith("conflict")]
        published = "approve" in stands
        ended = (self.status, self.reason) == (("succeeded", None) if published else ("failed", "rejected"))
        wanted = EXPECTED["published" if published else "rejected"]
        found: list[str] = []
        if len(set(stands)) != 1:
            found.append(f"the decisions that stand are {', '.join(stands) or 'none'}")
        if not ended:
            found.append(f"it is {self.status} ({self.reason})")
        for kind in sorted({*wanted, *self.effects}):
            if self.effects.get(kind, 0) != wanted.get(kind, 0):
                found.append(f"{kind} happened {self.effects.get(kind, 0)} times")
        if self.digest is None or self.digest != digest:
            found.append("its report is another one")
        found += [f"{step} was begun {times} times" for step, times in self.attempts.items() if times != 1]
        return found


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that had to hold at one moment."""

    name: str
    held: bool
    seen: str


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything. `seconds` by phase."""

    runs: Sequence[Seen]
    checks: Sequence[Check]
    control: Control
    seconds: Mapping[str, float]
    packages: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def digest(self) -> str | None:
        """What most runs ended with: they all have the same input."""
        found = Counter(run.digest for run in self.runs if run.digest is not None).most_common(1)
        return found[0][0] if found else None

    @property
    def wrong(self) -> list[str]:
        """Every promise that was not kept, in words."""
        runs = [f"{run.run_id} ({run.group}): {text}" for run in self.runs for text in run.wrong(self.digest)]
        return runs + [f"{check.name}: {check.seen}" for check in self.checks if not check.held]

    @property
    def verdict(self) -> Verdict:
        """invalid: plain LangGraph came through too, so the drill shows nothing; or there were no runs."""
        if self.wrong:
            return "disproved"
        return "pass" if self.runs and self.control.went_wrong else "invalid"

    def group(self, name: str) -> list[Seen]:
        """The runs of one group."""
        return [run for run in self.runs if run.group == name]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "verdict": self.verdict,
            "wrong": self.wrong,
            "digest": self.digest,
            "runs": [asdict(run) | {"wrong": run.wrong(self.digest)} for run in self.runs],
            "checks": [asdict(check) for check in self.checks],
            "control": asdict(self.control) | {"went_wrong": self.control.went_wrong},
            "seconds": {name: round(value, 1) for name, value in self.seconds.items()},
            "packages": dict(self.packages),
        }
