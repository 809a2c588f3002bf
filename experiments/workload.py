"""What is killed: a run of the real graph over a small workbook, with Onward or (the control) without.

Each workload begins a fresh run, says what a process of it does, and looks at what stands afterwards. Beginning a run
writes down what a person asked for; all the work, and every effect, is done by the processes that the faults hit.
"""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from experiments import choke, crash_points, narrator, warm_children, write_order
from experiments.baselines import plain
from experiments.baselines.plain import PlainRun
from experiments.boundaries import Watch, recorder
from experiments.evidence import World
from experiments.lane import Lane
from experiments.look import look_at_onward, look_at_plain
from experiments.mutants import plant_in_driver
from experiments.nemesis import Fault, armed
from experiments.plan import Order
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
from runs.wake import wake_if_decided
from tools.files import Files

NAME = "sales.csv"
ASKS = ("total revenue",)  # one figure and no chart: what is drawn matters to none of the boundaries
ROWS = 12


@dataclass(frozen=True, kw_only=True)
class Role:
    """How one process of a case is treated: its fault, or a recording of its boundaries, and what else is forced.

    `wake`: first see whether the ledger holds what a waiting run waits for, as `onward resume` does.
    """

    fault: Fault | None = None
    recording: Path | None = None
    order: Order = "natural"
    restless: bool = False
    planted: str | None = None
    wake: bool = False

    def watch(self, story: Story) -> Watch:
        """The watch of a process in this role."""
        return Watch(recorder(self.recording) if self.recording is not None else armed(self.fault, story))


class Workload(Protocol):
    """One system under the faults."""

    system: str
    work: Work

    def begin(self, lane: Lane) -> str:
        """Write down a fresh run; its id."""
        ...

    def arguments(self, lane: Lane, run_id: str, role: Role) -> tuple[Any, ...]:
        """What `work` gets, behind the story."""
        ...

    def look(self, lane: Lane, run_id: str, processes: Sequence[Process]) -> World:
        """What stands when these processes have ended."""
        ...


def workbook() -> bytes:
    """Sales of a month in three regions: small, the same bytes every time, and every figure exact."""
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
    """The product: its driver, its ledger, its stores. `approved`: with a grant for the one publication."""

    system = "onward"

    def __init__(self, *, approved: bool = True) -> None:
        self.work: Work = drive_onward
        self._approved = approved

    def begin(self, lane: Lane) -> str:
        """A run as `onward run FILE --approve` makes it: the row, and a grant for one publication."""
        settings = lane.settings
        source = lane.folder / NAME
        if not source.exists():
            source.write_bytes(workbook())
        new = NewRun(
            owner=settings.principal,
            workflow_version=CURRENT,
            store=settings.store,
            ledger=local_ledger.ledger_id(settings),
            asks=ASKS,
        )
        run_id = registry.create(lane.database, Objects(settings.objects_url), source, new).run_id
        if self._approved:
            expires_at = datetime.now(UTC) + timedelta(hours=1)
            lane.client.grant(run_id, kind="report.publish", expires_at=expires_at)
        return run_id

    def arguments(self, lane: Lane, run_id: str, role: Role) -> tuple[Any, ...]:
        """See Workload."""
        return run_id, lane.settings, role

    def look(self, lane: Lane, run_id: str, processes: Sequence[Process]) -> World:
        """See Workload."""
        return look_at_onward(lane, run_id)


def drive_onward(story: Story, run_id: str, settings: Settings, role: Role) -> str:
    """The life of a driver's process (`runs.driver`), watched. What it says of the run is an exit code or a refusal."""
    warm_children.install()
    watch = role.watch(story)
    choke.install_all(watch)
    narrator.narrate_nodes(story)
    narrator.narrate_actions(story)
    crash_points.install(watch)
    if role.order == "checkpoint first":
        write_order.install()
    if role.restless:
        _make_restless()
    plant_in_driver(role.planted, settings.store)
    if role.wake:
        _wake(run_id, settings)
    try:
        return f"exit {drive_until_done(run_id, settings)}"
    except RunError as refused:
        return type(refused).__name__


def _wake(run_id: str, settings: Settings) -> None:
    with (
        closing(open_store(settings).database("onward experiment")) as database,
        local_ledger.connect(settings) as ledger,
    ):
        wake_if_decided(database, ledger, registry.get(database, run_id))


def _make_restless() -> None:
    """A model that writes something else each time: here, what it adds to the title differs from process to process."""
    from graph.models import OfflineAnalyst

    generate = OfflineAnalyst._generate  # pyright: ignore[reportPrivateUsage] - what LangChain calls
    word = "".join(letter for letter in uuid.uuid4().hex if letter.isalpha())

    def restless(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = generate(self, *args, **kwargs)
        message = result.generations[0].message
        answer = json.loads(str(message.content))
        message.content = json.dumps(answer | {"title": f"{answer['title']} {word}"})
        return result

    OfflineAnalyst._generate = restless  # pyright: ignore[reportPrivateUsage]


# --- the control ----------------------------------------------------------------------------------------------------


class Plain:
    """Plain LangGraph: see experiments.baselines.plain."""

    system = "plain"

    def __init__(self) -> None:
        self.work: Work = drive_plain

    def begin(self, lane: Lane) -> str:
        """A thread id; whoever drives it first begins it."""
        return str(uuid.uuid4())

    def arguments(self, lane: Lane, run_id: str, role: Role) -> tuple[Any, ...]:
        """See Workload."""
        objects = lane.folder / "plain-objects"
        staged = Files(Objects(str(objects)), run_id).put(workbook())
        run = PlainRun(
            thread_id=run_id,
            store=lane.settings.store,
            dsn=lane.plain_dsn,
            objects=objects,
            input=InputRef(name=NAME, **staged),
            asks=ASKS,
            scratch=lane.folder / "plain-scratch" / run_id,
            oracle=lane.oracle,
        )
        return run, role

    def look(self, lane: Lane, run_id: str, processes: Sequence[Process]) -> World:
        """See Workload. The control keeps no row; its processes say how the graph's state ended."""
        return look_at_plain(lane, run_id, str(processes[-1].end))


def drive_plain(story: Story, run: PlainRun, role: Role) -> str:
    """One process that begins or resumes the thread, watched."""
    warm_children.install()
    watch = role.watch(story)
    choke.install_all(watch)
    narrator.narrate_nodes(story)
    crash_points.name_checkpoints(watch)
    return plain.drive(run, story, watch)
