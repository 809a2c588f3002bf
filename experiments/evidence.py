"""All that is known about one case, as values: what a checker needs and nothing that acts.

Each part has a source of its own, so that parts can be compared:

    processes     told by the processes themselves, up to their last moment     (story)
    effects       told to the oracle by whoever changed the world               (oracle)
    published     the publications in the ledger's database, read by our own SQL
    saved         the bytes of the final objects, hashed again here
    records       what the ledger says it recorded
    decisions     what people decided, by the ledger's database
    claims        the run's history: every claim, and when
    errors        the run's history: what went wrong in words, for who reads about a case that is not as it should be
    checkpoints   the rows of LangGraph's own table
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from experiments.oracle import Effect
from experiments.plan import Plan
from experiments.story import Process

KINDS: dict[str, str] = {"draft.save": "write_draft", "report.publish": "deliver"}  # the step that intends each effect


@dataclass(frozen=True, kw_only=True)
class Record:
    """One action as the ledger recorded it. `receipt_digest` is the digest that its receipt names.

    `was_unknown`: its outcome stood as UNKNOWN at some time.
    """

    step: str
    kind: str
    status: str
    receipt_digest: str | None
    was_unknown: bool = False


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One row of the checkpoint table."""

    checkpoint_id: str
    parent_id: str | None


@dataclass(frozen=True, kw_only=True)
class World:
    """What stands after some process of the case has ended. `records` and `claims` are empty for the control."""

    status: str
    effects: tuple[Effect, ...]
    checkpoints: tuple[Checkpoint, ...]
    reason: str | None = None
    published: tuple[str, ...] = ()
    saved: str | None = None
    records: tuple[Record, ...] = ()
    decisions: tuple[str, ...] = ()
    claims: tuple[tuple[int, datetime | None], ...] = ()
    errors: tuple[str, ...] = ()
    oracle_alone: bool = False  # a draft's effect is the oracle's line alone: the provider leaves nothing else to see

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epoch of each claim."""
        return tuple(epoch for epoch, _ in self.claims)

    def effects_of(self, step: str) -> int:
        """How often the effect of a step happened: the oracle's lines that changed the world.

        A witness that was killed between the effect and its line has told nothing; then what stands counts, once.
        """
        told = sum(KINDS.get(effect.kind) == step and not effect.again for effect in self.effects)
        if step == "deliver":
            return max(told, len(self.published))
        return told if self.oracle_alone else max(told, int(self.saved is not None))

    def sent_again(self, step: str) -> int:
        """How often something was sent again that stood already."""
        return sum(KINDS.get(effect.kind) == step and effect.again for effect in self.effects)

    @property
    def unknown(self) -> int:
        """Actions whose outcome only a person can settle."""
        return sum(record.status == "UNKNOWN" for record in self.records)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One case: a plan of faults, the processes that drove the run to its end, and one that resumed the finished run.

    `ended` is the world when the run had ended, `after` the world after the last process. `services` are the stories of
    ledger processes that a fault hit, `clients` those of others that asked the ledger for something (`misuse`), and
    `refusals` the codes of what the ledger refused to anybody in this run.
    `died_at` is when the first fault ended a driver.
    """

    system: str  # "onward" or "plain"
    plan: Plan
    processes: tuple[Process, ...]
    ended: World
    after: World
    services: tuple[Process, ...] = ()
    clients: tuple[Process, ...] = ()
    refusals: tuple[str, ...] = ()
    died_at: datetime | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The case in words."""
        return self.plan.name

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
        """How many drivers a fault ended or stopped."""
        return sum(process.killed or process.stop is not None for process in self.processes)

    @property
    def service_kills(self) -> int:
        """How many ledger processes a fault ended or stopped."""
        return sum(process.killed or process.stop is not None for process in self.services)

    @property
    def duplicates(self) -> int:
        """Effects beyond the one that each step intended."""
        return sum(max(0, self.after.effects_of(step) - self.intended(step)) for step in KINDS.values())

    @property
    def lost(self) -> int:
        """Effects that did not happen although nothing says that a person has to settle them."""
        if self.after.unknown:
            return 0
        return sum(self.after.effects_of(step) < self.intended(step) for step in KINDS.values())

    def intended(self, step: str) -> int:
        """How often the effect of a step is to happen: once, and never where a person rejects it."""
        return int(not (self.plan.rejected and step == "deliver"))

    @property
    def recovery_ms(self) -> float | None:
        """From the death of the first driver to the claim of the next, by the database's clock (the same machine)."""
        if self.died_at is None:
            return None
        later = [at for _, at in self.after.claims if at is not None and at > self.died_at]
        return (min(later) - self.died_at).total_seconds() * 1000 if later else None

    def executed(self) -> Counter[str]:
        """How often each node began, over all processes."""
        return Counter(node for process in self.processes for node in process.executed)
