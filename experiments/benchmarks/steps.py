"""What a step costs in runs of 5, 50 and 500 steps: does a long run pay for its length?

One node that loops to itself over a state that does not grow, through Onward's driver. A step is measured from its
beginning to the beginning of the next one, so claiming and ending a run are not in it; of a run the median step counts.
`step_cost_ratio` compares the long run with the middle one, `step_late_ratio` the end of the long run with its own
beginning: 1 is flat.
"""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median

import psycopg

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.graphs import Graph, chain
from experiments.benchmarks.plain import Plain, plain
from experiments.benchmarks.product import Product, product
from experiments.benchmarks.rounds import Subject, Teller, interleave
from experiments.benchmarks.server import Connection, wal_position
from experiments.benchmarks.services import Services
from runs.parts import Workflow

NAME = "steps"
SHORT, MIDDLE, LONG = 5, 50, 500
ROUNDS_SHARE = 3  # a run of 500 steps takes seconds, and holds 500 samples: one such run in so many rounds
FLAT_ENOUGH = 1.15

FLAT = Declared(
    key="step_cost_ratio",
    unit="ratio",
    target=FLAT_ENOUGH,
    says="a step of a run of 500 against a step of a run of 50; 1 is flat",
)
LATE = Declared(
    key="step_late_ratio",
    unit="ratio",
    target=FLAT_ENOUGH,
    says="the last 50 steps of a run of 500 against the first 50 of the same run",
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
    *(FLAT, LATE, SHORT_RATIO, WAL_FLAT, AGAINST, *STEP_MS.values(), PLAIN_MS),
    *(*STEP_WAL.values(), PLAIN_WAL),
)


class Stamps:
    """When the steps of a run began, and where the server's log was at the first and at the last."""

    def __init__(self, connection: Connection, steps: int) -> None:
        self.steps = steps
        self._connection = connection
        self._began: list[float] = []
        self._wal = 0
        self.per_step: dict[str, float] = {}

    def seen(self, number: int) -> None:
        """A step begins. Looking at the log stands outside of what is timed."""
        now = time.perf_counter()
        if number == 1:
            self._wal = wal_position(self._connection)
            self._began = [time.perf_counter()]
            return
        self._began.append(now)
        if number == self.steps:
            written = wal_position(self._connection) - self._wal
            gaps = [(after - before) * 1000 for before, after in pairwise(self._began)]
            self.per_step = {
                "ms": median(gaps),
                "WAL bytes": written / len(gaps),
                "first ms": median(gaps[:MIDDLE]),
                "last ms": median(gaps[-MIDDLE:]),
            }

    def graph(self) -> Graph:
        """The chain that tells this."""
        return chain(self.steps, self.seen)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with (
        product(services) as ours,
        plain(services) as theirs,
        psycopg.connect(services.dsn, autocommit=True) as looking,
    ):
        subjects = {f"{steps} steps": _onward(ours, Stamps(looking, steps)) for steps in (SHORT, MIDDLE, LONG)}
        subjects[f"{MIDDLE} steps again"] = _onward(ours, Stamps(looking, MIDDLE))
        subjects[f"{MIDDLE} steps, plain"] = _plainly(theirs, Stamps(looking, MIDDLE))
        taken = interleave("steps", subjects, rounds=max(rounds // ROUNDS_SHARE, 2), teller=teller, warm_up=1)
    ms = {steps: taken[f"{steps} steps, ms"] for steps in (SHORT, MIDDLE, LONG)}
    wal = {steps: taken[f"{steps} steps, WAL bytes"] for steps in (SHORT, MIDDLE, LONG)}
    plain_ms = taken[f"{MIDDLE} steps, plain, ms"]
    figures = (
        quotient(FLAT, ms[LONG], ms[MIDDLE], taken[f"{MIDDLE} steps again, ms"]),
        quotient(LATE, taken[f"{LONG} steps, last ms"], taken[f"{LONG} steps, first ms"]),
        quotient(SHORT_RATIO, ms[MIDDLE], ms[SHORT]),
        quotient(WAL_FLAT, wal[LONG], wal[MIDDLE], taken[f"{MIDDLE} steps again, WAL bytes"]),
        quotient(AGAINST, ms[MIDDLE], plain_ms),
        *(amount(declared, ms[steps]) for steps, declared in STEP_MS.items()),
        amount(PLAIN_MS, plain_ms),
        *(amount(declared, wal[steps]) for steps, declared in STEP_WAL.items()),
        amount(PLAIN_WAL, taken[f"{MIDDLE} steps, plain, WAL bytes"]),
    )
    return Measured(figures=figures, samples=taken)


def _onward(ours: Product, stamps: Stamps) -> Subject:
    workflow = Workflow(build=stamps.graph, recursion_limit=stamps.steps + 10)

    def subject() -> dict[str, float]:
        run_id = ours.begin()
        with ours.set_up(workflow) as parts:
            ours.drive(run_id, parts, ends="unverified")
        return stamps.per_step

    return subject


def _plainly(theirs: Plain, stamps: Stamps) -> Subject:
    def subject() -> dict[str, float]:
        begun = theirs.begin()
        with theirs.set_up() as saver:
            theirs.drive(begun, saver, stamps.graph, steps=stamps.steps)
        return stamps.per_step

    return subject
