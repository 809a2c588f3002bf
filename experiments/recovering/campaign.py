"""All systems, one after the other, each under the same plan of kills, in one home."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from experiments.benchmarks.machine import look_at_machine, server_facts, versions
from experiments.errors import NotRun
from experiments.recovering.case import Case, run_case
from experiments.recovering.place import Place, place
from experiments.recovering.plan import kills
from experiments.recovering.results import Column, Results
from experiments.recovering.systems.dbos import DbosOther, DbosSame
from experiments.recovering.systems.langgraph import LangGraph
from experiments.recovering.systems.onward import Onward, OnwardApart
from experiments.recovering.systems.procrastinate import Procrastinate, ProcrastinateTuned
from experiments.recovering.systems.system import System
from experiments.recovering.systems.temporal import Temporal

SYSTEMS: tuple[type[System], ...] = (
    Onward,
    OnwardApart,
    LangGraph,
    Procrastinate,
    ProcrastinateTuned,
    DbosSame,
    DbosOther,
    Temporal,
)

# A kill may come too late for its run, which has ended; then the plan goes on. So often at most.
TRIES_PER_KILL = 2

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked for. `only`: these systems, by name; all where empty."""

    kills: int
    peer_kills: int
    seed: int
    only: tuple[str, ...] = ()

    @property
    def systems(self) -> tuple[type[System], ...]:
        """In the order of the table."""
        return tuple(system for system in SYSTEMS if not self.only or system.name in self.only)


def run_campaign(options: Options, tell: Tell) -> Results:
    """Run it. NotRun when ours cannot be run; a peer that cannot says why in its column."""
    began = time.monotonic()
    machine = look_at_machine()
    with place() as here:
        columns = tuple(_column(system, here, options, tell) for system in options.systems)
        return Results(
            columns=columns,
            seed=options.seed,
            kills=options.kills,
            peer_kills=options.peer_kills,
            machine=machine,
            server=server_facts(here.services.dsn),
            versions=versions(),
            seconds=time.monotonic() - began,
        )


def _column(kind: type[System], here: Place, options: Options, tell: Tell) -> Column:
    cases: list[Case] = []
    not_run = f"not installed: {', '.join(kind.missing())}" if kind.missing() else None
    try:
        if not_run is None:
            wanted = options.kills if kind.ours else options.peer_kills
            _run(kind(here), wanted, options.seed, cases, tell)
    except NotRun as error:
        if kind.ours:
            raise
        not_run = str(error)
    if not_run is not None:
        tell(f"{kind.name}: not run: {not_run}")
    return Column(
        name=kind.name,
        settings=kind.settings,
        versions=kind.versions(),
        ours=kind.ours,
        patience_seconds=kind.patience_seconds,
        cases=tuple(cases),
        not_run=not_run,
    )


def _run(system: System, wanted: int, seed: int, cases: list[Case], tell: Tell) -> None:
    """So many kills that strike; every case that was begun is kept."""
    struck = 0
    with system.running():
        for kill in kills(seed):
            if struck == wanted or kill.number > TRIES_PER_KILL * wanted + 1:
                return
            case = run_case(system, kill)
            cases.append(case)
            struck += case.struck
            tell(f"{system.name} [{struck}/{wanted}] {_said(case)}")


def _said(case: Case) -> str:
    kill = case.kill
    killed = f"{kill.target} killed {kill.after_seconds * 1000:.0f} ms into step {kill.step}"
    if not case.struck:
        return f"{killed}: too late, the run had ended"
    times = f"claim {_ms(case.claim_seconds)}, on record {_ms(case.recorded_seconds)}"
    end = case.ended or "stuck"
    odd = f", {case.effects} effects" if case.effects != 1 else ""
    return f"{killed}: {times}, end {_ms(case.ended_seconds)}, {end}{odd}"


def _ms(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds * 1000:.0f} ms"
