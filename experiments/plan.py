"""The plan of a case: which faults hit which processes of one run. Made before the case, and enough to repeat it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from experiments.nemesis import Fault

Order = Literal["natural", "checkpoint first"]

# What each group of cases is about, in the order of the report.
GROUPS = {
    "none": "no fault",
    "points": "the driver killed at the named crash points",
    "driver": "the driver killed at every boundary",
    "order": "the same with checkpoints forced in front of the writes they hold",
    "ledger": "the ledger killed at every boundary, and started again",
    "plain provider": "the same around a provider that never notices a duplicate",
    "stopped driver": "a driver stopped, replaced, and woken",
    "stopped ledger": "a ledger stopped between its gate and the send, replaced, and woken",
    "requests": "the same requests again, and changed ones under the same id",
    "decisions": "a wake-up that says something else than the ledger",
    "pairs": "two kills: the second one during recovery",
    "random": "faults drawn by a seed",
}


What = Literal["kill driver", "kill ledger", "silence driver", "ask again"]


@dataclass(frozen=True, kw_only=True)
class Strike:
    """Something that happens at a time and not at a boundary: so far into a run, as a share of its length.

    It is counted from the start of the driver of that time.
    """

    what: What
    after_share: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One case. `driver` holds the faults of the driving processes in their order, `ledger` that of the service.

    `restless`: the model writes something else each time it is asked. `order`: see `experiments.write_order`.
    `rejected`: nobody approves the publication, and a person rejects it in the end. `strikes`: what falls at any time.
    `run_seconds`: how long a run takes here without a fault, which the strikes are measured by.
    """

    group: str
    name: str
    driver: tuple[Fault, ...] = ()
    ledger: Fault | None = None
    order: Order = "natural"
    restless: bool = False
    rejected: bool = False
    strikes: tuple[Strike, ...] = ()
    run_seconds: float = 0.0

    @property
    def faults(self) -> int:
        """How many faults it holds."""
        return len(self.driver) + (self.ledger is not None) + len(self.strikes)


NO_FAULT = Plan(group="none", name="no fault")
