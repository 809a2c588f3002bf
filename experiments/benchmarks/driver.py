"""The five-node graph through Onward's driver, against the same graph on plain LangGraph.

Both in this process; imports and the making of tables are over (`startup` measures those). One drive is what a process
does with one run: Onward claims it, opens its pools, drives, ends and releases it; plain LangGraph opens its
connection and invokes.
"""

from __future__ import annotations

from experiments.benchmarks import graphs
from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.plain import Plain, plain
from experiments.benchmarks.product import Product, product
from experiments.benchmarks.rounds import Subject, Teller, interleave, milliseconds
from experiments.benchmarks.services import Services
from graph.build import build
from runs.drive import Workflow

NAME = "driver"
STEPS = 5
TARGET = 1.3

REAL = Declared(
    key="driver_ratio",
    unit="ratio",
    target=TARGET,
    says="a run over a workbook of 48 rows and one question: Onward's driver against plain `PostgresSaver`, sync",
)
BARE = Declared(
    key="driver_bare_ratio",
    unit="ratio",
    says="the same five steps and two actions with nodes that compute nothing: the worst case",
)
REAL_MS = Declared(key="driver_ms", unit="ms", says="such a run through Onward's driver")
BARE_MS = Declared(key="driver_bare_ms", unit="ms", says="a run of nodes that compute nothing, through Onward's driver")
PLAIN_MS = Declared(key="plain_bare_ms", unit="ms", says="a run of nodes that compute nothing, on plain LangGraph")
OVERHEAD_MS = Declared(
    key="driver_overhead_ms_per_step",
    unit="ms",
    says="what Onward adds to one step of five, its two actions included (from the nodes that compute nothing)",
)
DECLARED = (REAL, BARE, REAL_MS, BARE_MS, PLAIN_MS, OVERHEAD_MS)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with product(services) as ours, plain(services) as theirs:
        bare = interleave("driver, empty nodes", _bare(ours, theirs), rounds=rounds * 2, teller=teller)
        real = interleave("driver, workbook", _real(ours, theirs), rounds=rounds, teller=teller)
    added = [(mine - floor) / STEPS for mine, floor in zip(bare["onward"], bare["plain"], strict=True)]
    figures = (
        quotient(REAL, real["onward"], real["plain"], real["plain again"]),
        quotient(BARE, bare["onward"], bare["plain"], bare["plain again"]),
        amount(REAL_MS, real["onward"]),
        amount(BARE_MS, bare["onward"]),
        amount(PLAIN_MS, bare["plain"]),
        amount(OVERHEAD_MS, added),
    )
    samples = {f"workbook, {name}": taken for name, taken in real.items()}
    return Measured(figures=figures, samples=samples | {f"empty nodes, {name}": taken for name, taken in bare.items()})


def _real(ours: Product, theirs: Plain) -> dict[str, Subject]:
    def onward() -> float:
        run_id = ours.begin()
        return milliseconds(lambda: ours.drive(run_id))

    def floor() -> float:
        begun = theirs.begin()
        return milliseconds(lambda: theirs.drive(begun, build))

    return {"onward": onward, "plain": floor, "plain again": floor}


def _bare(ours: Product, theirs: Plain) -> dict[str, Subject]:
    empty = Workflow(build=graphs.five_steps)

    def onward() -> float:
        run_id = ours.begin()
        return milliseconds(lambda: ours.drive(run_id, empty))

    def floor() -> float:
        begun = theirs.begin()
        return milliseconds(lambda: theirs.drive(begun, graphs.five_steps))

    return {"onward": onward, "plain": floor, "plain again": floor}
