"""Runs as Onward makes and drives them: `runs.drive` with claim, lease, heartbeat, fence, events and ledger."""

from __future__ import annotations

import csv
import io
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
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
from runs.drive import Parts, Workflow, drive
from runs.registry import NewRun, Status

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
    """An installation of Onward that this process drives runs in, one after the other."""

    parts: Parts
    ledger: LedgerClient
    objects: Objects
    database: Database
    input: Path

    def begin(self) -> str:
        """Write a run down, with the permission to publish once, as `onward run FILE --approve` does; its id."""
        new = NewRun(
            owner="benchmark",
            workflow_version=CURRENT,
            store=self.parts.store.kind,
            ledger=self.parts.ledger_id,
            asks=ASKS,
        )
        run_id = registry.create(self.database, self.objects, self.input, new).run_id
        self.ledger.grant(run_id, kind="report.publish", expires_at=datetime.now(UTC) + timedelta(hours=1))
        return run_id

    def drive(self, run_id: str, workflow: Workflow | None = None, *, ends: str = "published") -> None:
        """Drive a run to its end, over the product's graph or another one. NotRun when it ends in another way."""
        parts = self.parts if workflow is None else _serving(self.parts, workflow)
        outcome = drive(run_id, parts)
        right = (Status.SUCCEEDED, None) if ends == "published" else (Status.FAILED, ends)
        if (outcome.status, outcome.reason) != right:
            raise NotRun(f"A run of the benchmark ended as {outcome.status} ({outcome.reason}): {outcome.message}")


def _serving(parts: Parts, workflow: Workflow) -> Parts:
    def served(version: str) -> Workflow:
        return workflow

    return replace(parts, workflow=served)


@contextmanager
def product(services: Services) -> Generator[Product]:
    """Onward in this process, set up once: what a driver's process does at its start is not part of a run."""
    source = services.folder / NAME
    source.write_bytes(workbook())
    with ExitStack() as stack:
        parts = stack.enter_context(parts_for(services.settings, Drain()))
        yield Product(
            parts=parts,
            ledger=stack.enter_context(local_ledger.connect(services.settings)),
            objects=Objects(services.settings.objects_url),
            database=stack.enter_context(closing(parts.store.database("onward benchmark"))),
            input=source,
        )
