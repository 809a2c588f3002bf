"""The five-node graph through Onward's driver, against the same graph on plain LangGraph.

Both in this process, imports done. `drive` is what is compared: from a process that is set up (connected, its tables
looked at) to a run that has ended. In Onward that holds the claim, the lease and its heartbeat, the fenced connections,
every event, every action over HTTP, and the release. `whole` is the same with the set-up of a process in it, as each
run has it that is driven by a process of its own. What imports cost is in `startup`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.graphs import Graph, five_steps
from experiments.benchmarks.plain import Durability, Plain, plain
from experiments.benchmarks.product import Product, product
from experiments.benchmarks.rounds import Subject, Teller, interleave
from experiments.benchmarks.services import Services
from graph.build import RECURSION_LIMIT, build
from runs.parts import Workflow

NAME = "driver"
STEPS = 5
TARGET = 1.3
BARE_ROUNDS = 2  # they are short

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
WHOLE = Declared(
    key="driver_whole_ratio", unit="ratio", says="`driver_ratio` with the set-up of a process in it, on both sides"
)
BARE_WHOLE = Declared(
    key="driver_bare_whole_ratio", unit="ratio", says="`driver_bare_ratio` with the set-up of a process in it"
)
ASYNC = Declared(
    key="durability_async_ratio",
    unit="ratio",
    says='plain LangGraph with `durability="async"` against "sync", nodes that compute nothing: what waiting costs',
)
REAL_MS = Declared(key="driver_ms", unit="ms", says="a run over the workbook through Onward's driver")
PLAIN_MS = Declared(key="plain_ms", unit="ms", says="the same on plain LangGraph")
BARE_MS = Declared(key="driver_bare_ms", unit="ms", says="a run of nodes that compute nothing, through Onward's driver")
BARE_PLAIN_MS = Declared(key="plain_bare_ms", unit="ms", says="the same on plain LangGraph")
ADDED_MS = Declared(
    key="driver_added_ms_per_step",
    unit="ms",
    says="what Onward adds to each of five steps, its two actions, its claim and its release shared out among them",
)
DECLARED = (REAL, BARE, WHOLE, BARE_WHOLE, ASYNC, REAL_MS, PLAIN_MS, BARE_MS, BARE_PLAIN_MS, ADDED_MS)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with product(services) as ours, plain(services) as theirs:
        empty = _subjects(ours, theirs, Workflow(build=five_steps))
        empty["plain, async"] = _plain(theirs, five_steps, "async")
        bare = interleave("driver, empty nodes", empty, rounds=rounds * BARE_ROUNDS, teller=teller)
        workbook = _subjects(ours, theirs, Workflow(build=build, recursion_limit=RECURSION_LIMIT))
        real = interleave("driver, workbook", workbook, rounds=rounds, teller=teller)
    added = [(mine - floor) / STEPS for mine, floor in zip(bare["onward, drive"], bare["plain, drive"], strict=True)]
    figures = (
        quotient(REAL, real["onward, drive"], real["plain, drive"], real["plain again, drive"]),
        quotient(BARE, bare["onward, drive"], bare["plain, drive"], bare["plain again, drive"]),
        quotient(WHOLE, real["onward, whole"], real["plain, whole"], real["plain again, whole"]),
        quotient(BARE_WHOLE, bare["onward, whole"], bare["plain, whole"], bare["plain again, whole"]),
        quotient(ASYNC, bare["plain, async, drive"], bare["plain, drive"], bare["plain again, drive"]),
        amount(REAL_MS, real["onward, drive"]),
        amount(PLAIN_MS, real["plain, drive"]),
        amount(BARE_MS, bare["onward, drive"]),
        amount(BARE_PLAIN_MS, bare["plain, drive"]),
        amount(ADDED_MS, added),
    )
    samples = {f"workbook, {name}": taken for name, taken in real.items()}
    return Measured(figures=figures, samples=samples | {f"empty nodes, {name}": taken for name, taken in bare.items()})


def _subjects(ours: Product, theirs: Plain, workflow: Workflow) -> dict[str, Subject]:
    return {
        "onward": _onward(ours, workflow),
        "plain": _plain(theirs, workflow.build),
        "plain again": _plain(theirs, workflow.build),
    }


def _onward(ours: Product, workflow: Workflow) -> Subject:
    def subject() -> dict[str, float]:
        run_id = ours.begin()
        began = time.perf_counter()
        with ours.set_up(workflow) as parts:
            ready = time.perf_counter()
            ours.drive(run_id, parts)
            driven = time.perf_counter()
        return _taken(began, ready, driven)

    return subject


def _plain(theirs: Plain, graph: Callable[[], Graph], durability: Durability = "sync") -> Subject:
    def subject() -> dict[str, float]:
        begun = theirs.begin()
        began = time.perf_counter()
        with theirs.set_up() as saver:
            ready = time.perf_counter()
            theirs.drive(begun, saver, graph, durability=durability)
            driven = time.perf_counter()
        return _taken(began, ready, driven)

    return subject


def _taken(began: float, ready: float, driven: float) -> dict[str, float]:
    return {"drive": (driven - ready) * 1000, "whole": (time.perf_counter() - began) * 1000}
