"""One case: a fresh run, processes that drive it under the plan's faults to its end, and a look at the world.

    killed            process 1 dies at its boundary, process 2 resumes (or dies at its own), … , the last one finishes
    ledger killed     the service dies at its boundary and is started again; the driver waits that out, or is resumed
    stopped driver    process 1 falls silent; when its lease is over process 2 takes over and finishes; 1 is woken
    stopped ledger    the service falls silent between its gate and the send; another one takes its place; it is woken

In the end another process resumes the finished run: it must do nothing.
"""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments import misuse
from experiments.boundaries import BY_THE_CLOCK
from experiments.evidence import Evidence, World
from experiments.lane import STOP_SECONDS, Lane
from experiments.plan import Plan
from experiments.processes import Running, Work
from experiments.story import Process
from experiments.workload import Role, Workload
from onward_ledger.action import Status

# Resumes that a run may need where a service was away: its drivers leave it for a later try.
MOST_RESUMES = 6
# A driver that is refused because another one seems to live is started again after this time.
AGAIN_SECONDS = 0.1
# A driver that was not refused within this time drives.
CLAIM_SECONDS = 1.0
# The longest that the ledger takes until it looks whether its session lives.
CLOCK_SECONDS = 3.0
# What a take-over from a silent driver may take, beyond its lease.
TAKE_OVER_SECONDS = 20.0

OVER = ("succeeded", "failed", "cancelled", "published", "rejected", "unverified")

_numbers = itertools.count(1)


class Case:
    """The processes of one run, in a lane."""

    def __init__(self, workload: Workload, plan: Plan, lane: Lane) -> None:
        self._workload = workload
        self._plan = plan
        self._lane = lane
        self._began = time.monotonic()
        self._told = lane.stories / f"{next(_numbers):04d} {workload.system}"
        self._started = 0
        self._died_at: datetime | None = None
        lane.ledger.wait_until_back()
        self.run_id = workload.begin(lane)
        self.processes: list[Process] = []
        self.clients: list[Process] = []
        self.waiting = False
        self._dead = len(lane.ledger.killed)
        self._serving = len(lane.ledger.stories) - 1

    def start(self, role: Role) -> Running:
        """Start a process that drives the run."""
        self._started += 1
        file = self._told.with_name(f"{self._told.name} {self._started}.txt")
        arguments = self._workload.arguments(self._lane, self.run_id, role)
        return self._lane.forks.start(self._workload.work, file, *arguments)

    def run(self, role: Role) -> Process:
        """One process from its start to its end."""
        return self.ended(self.start(role))

    def ended(self, running: Running) -> Process:
        """Wait for a process and take its story into the case."""
        process = running.wait()
        if process.killed and self._died_at is None:
            self._died_at = datetime.now(UTC)
        self.processes.append(process)
        return process

    def expect(self) -> int:
        """A place among the processes for one that is silent now; its story is read when it has ended."""
        self.processes.append(Process(exit_code=None, lines=()))
        return len(self.processes) - 1

    def role(self, **changes: Any) -> Role:
        """How a process of this case is treated."""
        plan = self._plan
        return Role(order=plan.order, restless=plan.restless, planted=self._lane.planted, **changes)

    def look(self) -> World:
        """What stands now."""
        return self._workload.look(self._lane, self.run_id, self.processes)

    def finish(self) -> World:
        """Drive the run until it is over, or waits for a person. Behind the first drive each one finds a ledger.

        A ledger that died is started again beside this; drives that come before it is there would say nothing.
        """
        world: World | None = None
        for number in range(MOST_RESUMES):
            if number > 0:
                self._lane.ledger.wait_until_back()
            self.run(self.role(wake=self.waiting))
            world = self.look()
            self.waiting = world.status == "waiting_human"
            if self.waiting or world.status in OVER:
                break
        assert world is not None
        return world

    def reject(self) -> None:
        """A person rejects what waits for approval."""
        for action in self._lane.client.actions(self.run_id, Status.PREPARED):
            self._lane.client.decide(action.action_id, "reject", request_hash=action.request_hash)

    def beside(self, work: Work, *arguments: Any) -> Process:
        """A process beside the drivers, from its start to its end."""
        file = self._told.with_name(f"{self._told.name} beside {len(self.clients) + 1}.txt")
        self.clients.append(self._lane.forks.run(work, file, self.run_id, self._lane.settings, *arguments))
        return self.clients[-1]

    def evidence(self, ended: World, services: list[Path] | None = None) -> Evidence:
        """Resume the finished run once more, and close the case."""
        self._lane.ledger.wait_until_back()
        self.run(self.role())
        return Evidence(
            system=self._workload.system,
            plan=self._plan,
            processes=tuple(self.processes),
            ended=ended,
            after=self.look(),
            services=tuple(Process.read(told, 0) for told in services or [])
            + self._lane.ledger.killed_since(self._dead),
            clients=tuple(self.clients),
            refusals=self._lane.ledger.refusals(self.run_id, self._serving),
            died_at=self._died_at,
            seconds=time.monotonic() - self._began,
        )


def run_killed(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """Drivers die at their boundaries, one after the other; the last one has no fault."""
    case = Case(workload, plan, lane)
    for fault in plan.driver:
        case.run(case.role(fault=fault))
    return case.evidence(case.finish())


def run_ledger_killed(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """The service of this lane dies at its boundary. It is armed before the run begins to be driven."""
    assert plan.ledger is not None
    case = Case(workload, plan, lane)
    told = len(lane.ledger.stories)
    armed = lane.ledger.restart(fault=plan.ledger)
    ended = case.finish()
    if not armed.ends_within(CLOCK_SECONDS if plan.ledger.at.role in BY_THE_CLOCK else 0):
        # its boundary lies in a clean stop
        armed.terminate()
        armed.ends_within(STOP_SECONDS)
    return case.evidence(ended, lane.ledger.stories[told:])


def run_driver_stopped(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """A driver falls silent, is replaced when its lease is over, and wakes into a run that is no longer its own."""
    (fault,) = plan.driver
    case = Case(workload, plan, lane)
    silent = case.start(case.role(fault=fault))
    if not silent.wait_until_stopped():
        case.ended(silent)
        return case.evidence(case.finish())
    place = case.expect()
    time.sleep(lane.settings.lease_seconds)  # before that nobody may take over
    case.ended(take_over(case))
    world = case.look()
    ended = world if world.status in OVER else case.finish()
    silent.wake()
    case.processes[place] = silent.wait()
    return case.evidence(ended)


def take_over(case: Case) -> Running:
    """A driver that has the run in place of a silent one. Those that are refused before did not drive."""
    deadline = time.monotonic() + TAKE_OVER_SECONDS
    while True:
        running = case.start(case.role())
        if not running.ends_within(CLAIM_SECONDS) or time.monotonic() > deadline:
            return running
        if running.wait().end != "DrivenElsewhere":
            return running
        time.sleep(AGAIN_SECONDS)


def run_ledger_stopped(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """The service falls silent; another process of it takes its place; the run is driven on; then the first one wakes.

    The driver that waits for the silent one is ended: whoever it waits for will not answer.
    """
    assert plan.ledger is not None
    case = Case(workload, plan, lane)
    told = len(lane.ledger.stories)
    silent = lane.ledger.restart(fault=plan.ledger)
    waiting = case.start(case.role())
    if silent.wait_until_stopped():
        waiting.kill()
        case.processes.append(waiting.wait())
        lane.ledger.replace()
        case.finish()
        silent.wake()
        lane.ledger.retire(silent)
    else:
        case.processes.append(waiting.wait())
    return case.evidence(case.finish(), lane.ledger.stories[told:])


def run_requests(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """A finished run, and then somebody who asks for its actions again, as they are and changed."""
    case = Case(workload, plan, lane)
    ended = case.finish()
    case.beside(misuse.impostor)
    return case.evidence(ended)


def run_astray(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """A run that waits for its approval is woken with one that nobody gave; then a person rejects."""
    case = Case(workload, plan, lane)
    case.finish()
    case.processes.append(case.beside(misuse.wake_astray, case.role()))
    case.clients.clear()  # it drove, so it is one of the run's processes
    case.reject()
    return case.evidence(case.finish())
