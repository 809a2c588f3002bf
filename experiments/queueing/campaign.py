"""All measurements in rounds: in each, every length of the queue in another order, with few workers and with many."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import median

from experiments.benchmarks.machine import look_at_machine
from experiments.queueing import arrivals, looks, rates
from experiments.queueing.backlog import Backlog
from experiments.queueing.results import Beside, Results
from experiments.soaking.place import Place, place
from experiments.soaking.workers import Workers

Tell = Callable[[str], None]
LEASE_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for. `runs`: how many each measurement counts."""

    rounds: int
    runs: int
    workers: tuple[int, ...]
    queued: tuple[int, ...]
    seed: int


def run_campaign(options: Options, tell: Tell) -> Results:
    """Measure everything. Raises NotRun where something cannot be started, or does not come to its end."""
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    began = time.monotonic()
    machine = look_at_machine()
    if machine.warning is not None:
        tell(machine.warning)
    tell("starting Postgres, the ledger and the API")
    chance = random.Random(options.seed)  # noqa: S311 - an order, not a secret
    beside: list[Beside] = []
    with place(LEASE_SECONDS) as here, closing(Backlog(here)) as backlog:
        backlog.connection.execute(rates.INDEX)
        for number in range(1, options.rounds + 1):
            lengths = list(options.queued)
            chance.shuffle(lengths)
            for queued in lengths:
                tell(f"round {number} of {options.rounds}: {queued:,} queued runs")
                last = number == options.rounds
                measured = _measure(here, backlog, options, number, queued, tell)
                beside.append(measured if not last else _with_arrivals(here, backlog, measured, tell))
    return Results(
        machine=machine,
        rounds=options.rounds,
        runs=options.runs,
        workers=options.workers,
        queued=options.queued,
        seed=options.seed,
        seconds=time.monotonic() - began,
        beside=tuple(beside),
    )


def _measure(here: Place, backlog: Backlog, options: Options, number: int, queued: int, tell: Tell) -> Beside:
    began = time.monotonic()
    backlog.empty()
    backlog.fill(queued)
    backlog.settle()
    filled = time.monotonic() - began
    looked = looks.look(here, backlog)
    plans = looks.plans(backlog)
    found = _rates(here, backlog, options, number, queued, tell)
    return Beside(
        round=number, queued=queued, fill_seconds=filled, looks=tuple(looked), plans=plans, rates=tuple(found)
    )


def _rates(here: Place, backlog: Backlog, options: Options, number: int, queued: int, tell: Tell) -> list[rates.Rate]:
    """With few workers first, or with many first, in turn."""
    found: list[rates.Rate] = []
    with ExitStack() as stack:
        workers = Workers(here, 0)
        stack.callback(workers.stop)
        for count in _in_turn(options.workers, number):
            missing = count - len(workers.slots)
            if missing > 0:
                workers.more(missing)
                workers.wait_until_ready()
            elif missing < 0:
                workers.stop(-missing)
            found.append(rates.measure(backlog, workers, queued=queued, runs=options.runs))
            tell(f"  {count} workers: {found[-1].runs_per_second:.1f} runs a second")
    return found


def _in_turn(counts: Sequence[int], number: int) -> list[int]:
    return sorted(counts, reverse=number % 2 == 0)


def _with_arrivals(here: Place, backlog: Backlog, measured: Beside, tell: Tell) -> Beside:
    """The same length again, of runs that are not due for an hour, and one free worker."""
    backlog.empty()
    backlog.fill(measured.queued, wait_hours=1.0)
    backlog.settle()
    workers = Workers(here, 1)
    try:
        workers.wait_until_ready()
        taken = arrivals.measure(here, backlog, workers)
    finally:
        workers.stop()
    tell(f"  beside {measured.queued:,} that are not due a run was taken after {median(taken):.0f} ms")
    return measured.with_arrivals(tuple(taken))
