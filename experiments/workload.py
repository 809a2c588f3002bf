"""What is killed: a run of the real graph over a small workbook, with Onward or (the control) without.

Each workload begins a fresh run, says what a process of it does, and looks at what stands afterwards. Beginning a run
writes down what a person asked for; all the work, and every effect, is done by the processes that the faults hit.
"""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from experiments.baselines import plain
from experiments.baselines.plain import PlainRun
from experiments.boundaries import watch
from experiments.cluster import Cluster
from experiments.evidence import World
from experiments.look import look_at_onward, look_at_plain
from experiments.mutants import IN_DRIVER, plant
from experiments.nemesis import Fault, armed
from experiments.processes import Work
from experiments.story import Process, Story
from graph.state import InputRef
from graph.versions import CURRENT
from onward_ledger.objects import Objects
from runs import local_ledger, registry
from runs.driver import drive_until_done
from runs.errors import RunError
from runs.registry import NewRun
from runs.settings import Settings
from runs.store import open_store
from tools.files import Files

NAME = "sales.csv"
ASKS = ("total revenue by region", "total revenue by month")
ROWS = 48


class Workload(Protocol):
    """One system under the faults."""

    system: str
    work: Work

    def begin(self) -> str:
        """Write down a fresh run; its id."""
        ...

    def arguments(self, run_id: str, fault: Fault | None) -> tuple[Any, ...]:
        """What `work` gets, behind the story."""
        ...

    def look(self, run_id: str, processes: Sequence[Process]) -> World:
        """What stands when these processes have ended."""
        ...


def workbook() -> bytes:
    """Sales of four months in three regions: small, the same bytes every time, and every figure exact."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["date", "region", "product", "units", "revenue"])
    for number in range(ROWS):
        day = date(2026, 1, 5) + timedelta(days=number * 5 // 2)
        region, product = ("North", "South", "West")[number % 3], ("Lamp", "Chair")[number % 2]
        units = 3 + number * 7 % 11
        rows.writerow([day.isoformat(), region, product, units, units * (19 if product == "Lamp" else 45)])
    return text.getvalue().encode()


# --- Onward ---------------------------------------------------------------------------------------------------------


class Onward:
    """The product: its driver, its ledger, its stores."""

    system = "onward"

    def __init__(self, services: Cluster, planted: str | None = None) -> None:
        self.work: Work = drive_onward
        self._services = services
        self._planted = planted
        self._store = open_store(services.settings)
        with closing(self._store.database()) as database:
            database.migrate()
        self._input = services.folder / NAME
        self._input.write_bytes(workbook())

    def begin(self) -> str:
        """A run as `onward run FILE --approve` makes it: the row, and a grant for one publication."""
        settings = self._services.settings
        new = NewRun(
            owner=settings.principal,
            workflow_version=CURRENT,
            store=settings.store,
            ledger=local_ledger.ledger_id(settings),
            asks=ASKS,
        )
        with closing(self._store.database("onward experiment")) as database, local_ledger.connect(settings) as ledger:
            run_id = registry.create(database, Objects(settings.objects_url), self._input, new).run_id
            ledger.grant(run_id, kind="report.publish", expires_at=datetime.now(UTC) + timedelta(hours=1))
        return run_id

    def arguments(self, run_id: str, fault: Fault | None) -> tuple[Any, ...]:
        """See Workload."""
        return run_id, self._services.settings, fault, self._planted

    def look(self, run_id: str, processes: Sequence[Process]) -> World:
        """See Workload."""
        return look_at_onward(self._services, run_id)


def drive_onward(story: Story, run_id: str, settings: Settings, fault: Fault | None, planted: str | None) -> str:
    """The life of a driver's process (`runs.driver`), watched. What it says of the run is an exit code or a refusal."""
    if planted is not None and planted in IN_DRIVER:
        plant(planted)
    watch(story, armed(fault, story))
    try:
        return f"exit {drive_until_done(run_id, settings)}"
    except RunError as refused:
        return type(refused).__name__


# --- the control ----------------------------------------------------------------------------------------------------


class Plain:
    """Plain LangGraph: see experiments.baselines.plain."""

    system = "plain"

    def __init__(self, services: Cluster) -> None:
        self.work: Work = drive_plain
        self._services = services

    def begin(self) -> str:
        """A thread id; whoever drives it first begins it."""
        return str(uuid.uuid4())

    def arguments(self, run_id: str, fault: Fault | None) -> tuple[Any, ...]:
        """See Workload."""
        objects = self._services.folder / "plain-objects"
        staged = Files(Objects(str(objects)), run_id).put(workbook())
        run = PlainRun(
            thread_id=run_id,
            store=self._services.settings.store,
            dsn=self._services.plain_dsn,
            objects=objects,
            input=InputRef(name=NAME, **staged),
            asks=ASKS,
            scratch=self._services.folder / "plain-scratch" / run_id,
            oracle=self._services.oracle,
        )
        return run, fault

    def look(self, run_id: str, processes: Sequence[Process]) -> World:
        """See Workload. The control keeps no row; its processes say how the graph's state ended."""
        return look_at_plain(self._services, run_id, str(processes[-1].end))


def drive_plain(story: Story, run: PlainRun, fault: Fault | None) -> str:
    """One process that begins or resumes the thread, watched."""
    passing = armed(fault, story)
    watch(story, passing)
    return plain.drive(run, story, passing)
