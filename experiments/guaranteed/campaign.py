"""Every cell: a row under a fault, then drivers that come back until it is settled, then a look at the world."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import conninfo

from experiments.guaranteed.faults import FAULTS, Fault
from experiments.guaranteed.rows import ROWS, Row
from experiments.guaranteed.stand import NotStruck, Server, Stand
from experiments.processes import ForkServer
from onward_ledger.action import Action, Status
from runs import local_postgres

PRELOADED = "experiments.guaranteed.preload"
PREFIX = "onward-guarantees-"
SIDE_BY_SIDE = 4
SERVER_GONE_SECONDS = 20.0

Verdict = Literal["pass", "disproved", "invalid"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What came of one row under one fault. `invalid`: why it says nothing."""

    row: Row
    fault: Fault
    effects: int = 0
    status: str = ""
    reason: str | None = None
    alarm: str | None = None
    history: tuple[str, ...] = ()
    seconds: float = 0.0
    invalid: str | None = None

    @property
    def duplicates(self) -> int:
        """Effects beyond the first."""
        return max(self.effects - 1, 0)

    @property
    def person(self) -> bool:
        """Whether somebody has to look: it is not settled, or there is an alarm."""
        return self.status == Status.UNKNOWN or self.alarm is not None

    @property
    def over_refused(self) -> bool:
        """Whether it was not done although it could have been: the price of caution."""
        return self.effects == 0 and self.status != Status.SUCCEEDED

    @property
    def broken(self) -> str | None:
        """What is not as promised; None where all is well."""
        if self.effects > 1:
            return f"{self.effects} effects of one action"
        if self.status == Status.SUCCEEDED and self.effects == 0 and not self.fault.lie:
            return "it is recorded as done, and is not there"
        if self.status in (Status.FAILED, Status.WITHDRAWN) and self.effects:
            return f"it is recorded as {self.status}, and is there"
        if self.status in (Status.PREPARED, Status.IN_FLIGHT):
            return f"it was left {self.status}"
        forgotten = self.fault.name == "key expired" and self.row.name == "idempotent"
        if self.row.once and self.status != Status.SUCCEEDED and not forgotten:
            return f"it is {self.status}, where once is promised"
        return None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "row": self.row.name,
            "fault": self.fault.name,
            "effects": self.effects,
            "duplicates": self.duplicates,
            "status": self.status,
            "needs_a_person": self.person,
            "over_refused": self.over_refused,
            "broken": self.broken,
            "invalid": self.invalid,
            "reason": self.reason,
            "alarm": self.alarm,
            "history": list(self.history),
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True, kw_only=True)
class Results:
    """Every cell that was run, the control's apart."""

    cells: tuple[Cell, ...]
    seconds: float

    @property
    def promised(self) -> tuple[Cell, ...]:
        """The cells of the product."""
        return tuple(cell for cell in self.cells if cell.row.planted is None)

    @property
    def control(self) -> tuple[Cell, ...]:
        """The cells that must be wrong somewhere."""
        return tuple(cell for cell in self.cells if cell.row.planted is not None)

    @property
    def verdict(self) -> Verdict:
        """invalid: a fault did not happen, or the control showed no duplicate although it ran."""
        if any(cell.broken and not cell.invalid for cell in self.promised):
            return "disproved"
        if any(cell.invalid for cell in self.cells) or (self.control and not any(c.duplicates for c in self.control)):
            return "invalid"
        return "pass"

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "verdict": self.verdict,
            "seconds": round(self.seconds, 1),
            "cells": [cell.to_json() for cell in self.cells],
            "duplicates": sum(cell.duplicates for cell in self.promised),
            "over_refused": sum(cell.over_refused for cell in self.promised),
            "need_a_person": sum(cell.person for cell in self.promised),
            "control_duplicates": sum(cell.duplicates for cell in self.control),
        }


def plans(rows: Sequence[str] = (), faults: Sequence[str] = ()) -> list[tuple[Row, Fault]]:
    """Every row under every fault that it can have, those that were asked for."""
    return [
        (row, fault)
        for row in ROWS
        for fault in FAULTS
        if (row.sends or not fault.outside)
        and (not rows or any(text in row.name for text in rows))
        and (not faults or any(text in fault.name for text in faults))
    ]


def run_campaign(wanted: Sequence[tuple[Row, Fault]], tell: Callable[[str], None]) -> Results:
    """Run the cells, most of them side by side; those that kill the database one after the other."""
    began, found = time.monotonic(), dict[tuple[str, str], Cell]()
    with _lab() as lab:
        for cell in _cells(lab, wanted):
            found[cell.row.name, cell.fault.name] = cell
            said = cell.invalid or cell.broken or f"{cell.effects} effects, {cell.status}"
            tell(f"[{len(found)}/{len(wanted)}] {cell.row.name}, {cell.fault.name}: {said}")
    ordered = tuple(found[row.name, fault.name] for row, fault in wanted)
    return Results(cells=ordered, seconds=time.monotonic() - began)


@dataclass(frozen=True, kw_only=True)
class Lab:
    """What the cells share. `fragile` is for those that kill their server."""

    folder: Path
    forks: ForkServer
    shared: Server
    fragile: Server


def _cells(lab: Lab, wanted: Sequence[tuple[Row, Fault]]) -> Generator[Cell]:
    pool = ThreadPoolExecutor(SIDE_BY_SIDE)
    try:
        together = [pool.submit(_cell, lab, *plan) for plan in wanted if not plan[1].alone]
        for done in as_completed(together):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the cells that have begun, and for no other
    for plan in wanted:
        if plan[1].alone:
            yield _cell(lab, *plan)


def _cell(lab: Lab, row: Row, fault: Fault) -> Cell:
    began = time.monotonic()
    case = f"{row.name} under {fault.name}"
    server = lab.fragile if fault.alone else lab.shared
    folder = lab.folder / case.replace(" ", "-").replace(",", "").replace(":", "")
    try:
        lifetime = fault.key_lifetime_seconds
        with Stand(
            row=row, case=case, folder=folder, server=server, forks=lab.forks, key_lifetime_seconds=lifetime
        ) as stand:
            fault.strike(stand)
            action = stand.settle()
            return _seen(row, fault, stand, action, time.monotonic() - began)
    except NotStruck as error:
        return Cell(row=row, fault=fault, invalid=str(error), seconds=time.monotonic() - began)


def _seen(row: Row, fault: Fault, stand: Stand, action: Action, seconds: float) -> Cell:
    alive = next(each for each in stand.services if each.running.alive)
    with alive.client() as client:
        history = tuple(event.word for event in client.events(action.action_id))
    return Cell(
        row=row,
        fault=fault,
        effects=stand.effects(),
        status=action.status.value,
        reason=action.reason,
        alarm=action.alarm,
        history=history,
        seconds=seconds,
    )


@contextmanager
def _lab() -> Generator[Lab]:
    forks = ForkServer(PRELOADED)  # it imports while the rest starts
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = [_server(stack, folder / name) for name in ("shared", "fragile")]
        stack.enter_context(forks)
        forks.warm_up(folder)
        yield Lab(folder=folder, forks=forks, shared=servers[0], fragile=servers[1])


def _server(stack: ExitStack, home: Path) -> Server:
    """A Postgres server of its own, with a database that has the ledger's tables: the template of all cases."""
    home.mkdir(mode=0o700)
    stack.callback(_stop, home)
    dsn = local_postgres.ensure(home)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create database made")
    made = conninfo.make_conninfo(dsn, dbname="made")

    from onward_ledger.store import open_store

    opened = open_store(made)
    opened.database.migrate()
    opened.database.close()
    return Server(dsn=dsn, kill=lambda: _kill(home), start=lambda: local_postgres.ensure(home))


def _kill(home: Path) -> None:
    """SIGKILL to every process of the server: nothing is said to anybody, nothing is written down."""
    import psutil

    server = psutil.Process(_pid(home))
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(processes, SERVER_GONE_SECONDS)


def _pid(home: Path) -> int:
    pid = local_postgres.status(home).pid
    assert pid is not None, "the server of this experiment runs"
    return pid


def _stop(home: Path) -> None:
    outside = local_postgres.status(home).outside
    local_postgres.stop(home)
    for other in outside:
        shutil.rmtree(other, ignore_errors=True)
