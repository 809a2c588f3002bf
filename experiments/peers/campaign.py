"""All cells in a random order, some side by side: most of a case is waiting for a time to pass."""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version

from experiments.peers.columns import COLUMNS, Column
from experiments.peers.lab import Lab, NotStruck, open_lab
from experiments.peers.results import PROVIDERS, Cell, Results
from experiments.peers.systems import SYSTEMS, System

SIDE_BY_SIDE = 4

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for. Empty `systems` are all that are installed, empty `columns` all."""

    systems: Sequence[str]
    columns: str
    seed: int


def run_campaign(options: Options, tell: Tell) -> Results:
    """Every cell that is asked for."""
    began = time.monotonic()
    wanted = [s for s in SYSTEMS if s.version is not None and (not options.systems or s.name in options.systems)]
    columns = [column for column in COLUMNS if not options.columns or column.name in options.columns]
    plans = [(system, column, keyed) for system in wanted for keyed in PROVIDERS for column in columns]
    drawn = random.Random(options.seed).sample(plans, len(plans))  # noqa: S311 - an order, not a secret
    tell(f"{len(plans)} cells: {len(wanted)} systems, {len(columns)} plans, two providers; starting Postgres")
    found: dict[tuple[str, str, bool], Cell] = {}
    with open_lab() as lab:
        for cell in _side_by_side(lab, drawn):
            found[cell.system.name, cell.column.name, cell.keyed] = cell
            tell(f"[{len(found)}/{len(plans)}] {cell.system.name}, {PROVIDERS[cell.keyed]}, {_seen(cell)}")
    ordered = [found[system.name, column.name, keyed] for system, column, keyed in plans]
    return Results(seed=options.seed, cells=ordered, versions=_versions(), seconds=time.monotonic() - began)


def _side_by_side(lab: Lab, plans: Sequence[tuple[System, Column, bool]]) -> Iterator[Cell]:
    pool = ThreadPoolExecutor(SIDE_BY_SIDE)
    try:
        for done in as_completed([pool.submit(_cell, lab, *plan) for plan in plans]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the cells that have begun, and for no other


def _seen(cell: Cell) -> str:
    return f"{cell.column.name}: {cell.invalid or cell.word}"


def _cell(lab: Lab, system: System, column: Column, keyed: bool) -> Cell:
    began, invalid = time.monotonic(), None
    case = f"{system.name.replace(', ', '-')}-{'keyed' if keyed else 'searched'}-{column.name}"
    stage = lab.stage(system, case, keyed=keyed)
    try:
        column.plan(stage)
        status = stage.status()
    except NotStruck as error:
        invalid, status = str(error), "failed"
    finally:
        told = stage.close()
    return Cell(
        system=system,
        column=column,
        keyed=keyed,
        charges=lab.charges(case),
        status=status,
        told=told,
        seconds=time.monotonic() - began,
        invalid=invalid,
    )


def _versions() -> dict[str, str]:
    peers = {str(system.distribution): str(system.version) for system in SYSTEMS if system.version}
    return {"python": platform.python_version(), "psycopg": version("psycopg"), **peers}
