"""All that is known about one case, as values: what a checker needs and nothing that acts.

Each part has a source of its own, so that parts can be compared:

    processes     told by the processes themselves, up to their last moment     (story)
    effects       told to the oracle by whoever changed the world               (oracle)
    published     the publications in the ledger's database, read by our own SQL
    saved         the bytes of the final objects, hashed again here
    records       what the ledger says it recorded
    epochs        the run's history: every claim
    errors        the run's history: what went wrong in words, for who reads about a case that is not as it should be
    checkpoints   the rows of LangGraph's own table
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from experiments.nemesis import Fault
from experiments.oracle import Effect
from experiments.story import Process

KINDS: dict[str, str] = {"draft.save": "write_draft", "report.publish": "deliver"}  # the step that intends each effect


@dataclass(frozen=True, kw_only=True)
class Record:
    """One action as the ledger recorded it. `receipt_digest` is the digest that its receipt names."""

    step: str
    kind: str
    status: str
    receipt_digest: str | None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One row of the checkpoint table."""

    checkpoint_id: str
    parent_id: str | None


@dataclass(frozen=True, kw_only=True)
class World:
    """What stands after some process of the case has ended. `records` and `epochs` are empty for the control."""

    status: str
    effects: tuple[Effect, ...]
    checkpoints: tuple[Checkpoint, ...]
    published: tuple[str, ...] = ()
    saved: str | None = None
    records: tuple[Record, ...] = ()
    epochs: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()

    def effects_of(self, step: str) -> int:
        """How often the effect of a step happened."""
        return sum(KINDS.get(effect.kind) == step for effect in self.effects)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One case: a fault (or none), the processes that drove the run to its end, and one that resumed the finished run.

    `ended` is the world when the run had ended, `after` the world after the last process. `saved` in both is the
    digest of the report, computed from its bytes.
    """

    system: str  # "onward" or "plain"
    fault: Fault | None
    processes: tuple[Process, ...]
    ended: World
    after: World
    seconds: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The case in words."""
        return str(self.fault.point) if self.fault else "no fault"

    @property
    def driving(self) -> tuple[Process, ...]:
        """The processes before the last one."""
        return self.processes[:-1]

    @property
    def resumed_finished(self) -> Process:
        """The process that resumed the finished run."""
        return self.processes[-1]

    @property
    def kills(self) -> int:
        """How many processes a fault ended."""
        return sum(process.crash is not None for process in self.processes)

    @property
    def duplicates(self) -> int:
        """Effects beyond the one that each step intended."""
        return sum(max(0, self.after.effects_of(step) - 1) for step in KINDS.values())

    def executed(self) -> Counter[str]:
        """How often each node began, over all processes."""
        return Counter(node for process in self.processes for node in process.executed)
