"""Runs as Onward makes and drives them: `runs.drive` with claim, lease, heartbeat, fence, events and ledger."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from experiments.benchmarks.services import Services
from experiments.errors import NotRun
from graph.versions import CURRENT
from onward_ledger.client import LedgerClient
from onward_ledger.database import Database
from onward_ledger.objects import Objects
from runs import local_ledger, registry
from runs.assembly import parts_for
from runs.drain import Drain
from runs.drive import drive
from runs.parts import Parts, Workflow
from runs.registry import NewRun, Status
from runs.settings import Settings
from runs.store import open_store

NAME = "sales.csv"
ASKS = ("total revenue by region",)  # one question: plan, analyze, write_draft, test, deliver are five super-steps


def workbook() -> bytes:
    """Sales of four months in three regions: 48 rows, the same bytes every time."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["date", "region", "units", "revenue"])
    for number in range(48):
        day = date(2026, 1, 5) + timedelta(days=number * 5 // 2)
        units = 3 + number * 7 % 11
        rows.writerow([day.isoformat(), ("North", "South", "West")[number % 3], units, units * 19])
    return text.getvalue().encode()


@dataclass(frozen=True, kw_only=True)
class Product:
    """An installation of Onward whose runs this process drives, one after the other."""

    settings: Settings
    ledger: LedgerClient
    objects: Objects
    database: Database
    input: Path

    def begin(self) -> str:
        """Write a run down, with the permission to publish once, as `onward run FILE --approve` does; its id."""
        new = NewRun(
            owner="benchmark",
            workflow_version=CURRENT,
            store=self.settings.store,
            ledger=local_ledger.ledger_id(self.settings),
            asks=ASKS,
        )
        run_id = registry.create(self.database, self.objects, self.input, new).run_id
        self.ledger.grant(run_id, kind="report.publish", expires_at=datetime.now(UTC) + timedelta(hours=1))
        return run_id

    @contextmanager
    def set_up(self, workflow: Workflow | None = None) -> Generator[Parts]:
        """What a driver's process sets up before it drives; with another graph than the product's where one is given.

        Its connection to the runs, a look whether all tables are there, its connection to the ledger.
        """
        with parts_for(self.settings, Drain()) as parts:
            yield parts if workflow is None else replace(parts, workflow=_only(workflow))

    def drive(self, run_id: str, parts: Parts, *, ends: str = "published") -> None:
        """Drive a run to its end. NotRun when it ends in another way."""
        outcome = drive(run_id, parts)
        right = (Status.SUCCEEDED, None) if ends == "published" else (Status.FAILED, ends)
        if (outcome.status, outcome.reason) != right:
            raise NotRun(f"A run of the benchmark ended as {outcome.status} ({outcome.reason}): {outcome.message}")


def _only(workflow: Workflow) -> Callable[[str], Workflow]:
    def served(version: str) -> Workflow:
        return workflow

    return served


@contextmanager
def product(services: Services) -> Generator[Product]:
    """Onward with its tables made and its ledger running."""
    source = services.folder / NAME
    source.write_bytes(workbook())
    store = open_store(services.settings)
    with (
        parts_for(services.settings, Drain()),
        local_ledger.connect(services.settings) as ledger,
        closing(store.database("onward benchmark")) as database,
    ):
        yield Product(
            settings=services.settings,
            ledger=ledger,
            objects=Objects(services.settings.objects_url),
            database=database,
            input=source,
        )
