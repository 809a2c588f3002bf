"""What a step costs in runs of 5, 50 and 500 steps: does a long run pay for its length?

One node that loops to itself over a state that does not grow, through Onward's driver. A step is measured from its
beginning to the beginning of the next one, so claiming and ending a run are not in it. `step_cost_ratio` compares the
long run with the middle one: 1 is flat.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import psycopg

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.graphs import Graph, chain
from experiments.benchmarks.plain import Plain, plain
from experiments.benchmarks.product import Product, product
from experiments.benchmarks.rounds import Subject, Teller, interleave
from experiments.benchmarks.server import wal_position
from experiments.benchmarks.services import Services
from runs.drive import Workflow

NAME = "steps"
SHORT, MIDDLE, LONG = 5, 50, 500
ROUNDS_SHARE = 3  # a run of 500 steps takes seconds, and holds 500 samples: one such run in so many rounds

FLAT = Declared(
    key="step_cost_ratio",
    unit="ratio",
    target=1.15,
    says="a step of a run of 500 against a step of a run of 50; 1 is flat",
)
SHORT_RATIO = Declared(
    key="step_cost_short_ratio", unit="ratio", says="a step of a run of 50 against a step of a run of 5"
)
WAL_FLAT = Declared(
    key="step_wal_ratio", unit="ratio", says="WAL of a step of a run of 500 against a step of a run of 50"
)
AGAINST = Declared(
    key="step_ratio", unit="ratio", says="a step that computes nothing, in a run of 50: Onward against plain LangGraph"
)
STEP_MS = {
    steps: Declared(key=f"step_{steps}_ms", unit="ms", says=f"a step of a run of {steps}")
    for steps in (SHORT, MIDDLE, LONG)
}
PLAIN_MS = Declared(key="plain_step_50_ms", unit="ms", says="a step of a run of 50 on plain LangGraph")
STEP_WAL = {
    steps: Declared(key=f"step_{steps}_wal_bytes", unit="bytes", says=f"WAL of a step of a run of {steps}")
    for steps in (SHORT, MIDDLE, LONG)
}
PLAIN_WAL = Declared(key="plain_step_50_wal_bytes", unit="bytes", says="WAL of a step on plain LangGraph")
DECLARED = (
    *(FLAT, SHORT_RATIO, WAL_FLAT, AGAINST, *STEP_MS.values(), PLAIN_MS),
    *(*STEP_WAL.values(), PLAIN_WAL),
)


@dataclass(kw_only=True)
class Stamps:
    """When the first and the last step of a run began, and where the server's log was then."""

    connection: psycopg.Connection[tuple[object, ...]]
    steps: int
    wal: list[float] = field(default_factory=list[float])
    _began: float = 0.0
    _wal: int = 0
    milliseconds_per_step: float = 0.0

    def seen(self, number: int) -> None:
        """A step begins. Looking at the log stands outside of what is timed."""
        now = time.perf_counter()
        if number == self.steps:
            between = self.steps - 1
            self.milliseconds_per_step = (now - self._began) * 1000 / between
            self.wal.append((wal_position(self.connection) - self._wal) / between)
        elif number == 1:
            self._wal = wal_position(self.connection)
            self._began = time.perf_counter()

    def graph(self) -> Graph:
        """The chain that tells this."""
        return chain(self.steps, self.seen)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    runs = max(rounds // ROUNDS_SHARE, 2)
    with (
        product(services) as ours,
        plain(services) as theirs,
        psycopg.connect(services.dsn, autocommit=True) as looking,
    ):
        stamps = {steps: Stamps(connection=looking, steps=steps) for steps in (SHORT, MIDDLE, LONG)}
        plainly = Stamps(connection=looking, steps=MIDDLE)
        subjects = {f"{steps} steps": _onward(ours, stamps[steps]) for steps in stamps}
        subjects[f"{MIDDLE} steps again"] = _onward(ours, Stamps(connection=looking, steps=MIDDLE))
        subjects[f"{MIDDLE} steps, plain"] = _plainly(theirs, plainly)
        taken = interleave("steps", subjects, rounds=runs, teller=teller, warm_up=1)
    wal = {steps: stamp.wal[-runs:] for steps, stamp in stamps.items()}
    short, middle, long = (taken[f"{steps} steps"] for steps in (SHORT, MIDDLE, LONG))
    figures = (
        quotient(FLAT, long, middle, taken[f"{MIDDLE} steps again"]),
        quotient(SHORT_RATIO, middle, short),
        quotient(WAL_FLAT, wal[LONG], wal[MIDDLE]),
        quotient(AGAINST, middle, taken[f"{MIDDLE} steps, plain"]),
        *(amount(STEP_MS[steps], taken[f"{steps} steps"]) for steps in STEP_MS),
        amount(PLAIN_MS, taken[f"{MIDDLE} steps, plain"]),
        *(amount(STEP_WAL[steps], wal[steps]) for steps in STEP_WAL),
        amount(PLAIN_WAL, plainly.wal[-runs:]),
    )
    logged = {f"{steps} steps, WAL bytes": found for steps, found in wal.items()}
    return Measured(figures=figures, samples={**taken, **logged})


def _onward(ours: Product, stamps: Stamps) -> Subject:
    workflow = Workflow(build=stamps.graph, recursion_limit=stamps.steps + 10)

    def subject() -> float:
        ours.drive(ours.begin(), workflow, ends="unverified")
        return stamps.milliseconds_per_step

    return subject


def _plainly(theirs: Plain, stamps: Stamps) -> Subject:
    def subject() -> float:
        theirs.drive(theirs.begin(), stamps.graph, steps=stamps.steps)
        return stamps.milliseconds_per_step

    return subject
