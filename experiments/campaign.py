"""The campaign: record, then kill at every moment, with the control and the mutants beside it; and one verdict.

    pass        every fault fired, nothing contradicts an invariant, the control repeats effects, all mutants are caught
    disproved   a case contradicts an invariant
    invalid     nothing was tested: a fault did not fire, the control stayed clean, a mutant survived, or what must
                happen sometimes never happened

A verdict is not a matter of degree: one contradiction in one case is enough.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments import checker, sweep
from experiments.case import (
    run_astray,
    run_driver_stopped,
    run_killed,
    run_ledger_killed,
    run_ledger_stopped,
    run_requests,
)
from experiments.cluster import cluster
from experiments.evidence import Evidence
from experiments.lane import Lane
from experiments.mutants import MUTANTS, Mutant
from experiments.plan import NO_FAULT, Plan
from experiments.progress import Progress, Told
from experiments.randomly import draw, run_random
from experiments.recordings import Recording, record_driver, record_ledger, record_recovery
from experiments.results import Hunted, Outcome, Results, Verdict, reached
from experiments.workers import ORDINARY, Job, LaneOptions, Lanes, Workers
from experiments.workload import Onward, Plain, Workload
from runs.settings import StoreKind

# A boundary that a process did not come to this time (a connection that the pool did not need) is tried again.
MOST_TRIES = 3

# With a defect planted by hand the campaign ends when so many cases have shown it.
ENOUGH_WRONG = 3

# Where somebody falls silent, only time can tell: short times make short cases.
IMPATIENT = LaneOptions(lease_seconds=1.0, deadline_seconds=1.0, grace_seconds=0.5)

NOT_ON_SQLITE = ("a ledger that falls silent: SQLite has one ledger at a time, so no other can take its place",)

Run = Callable[[Workload, Plan, Lane], Evidence]
RUNS: dict[str, Run] = {
    "none": run_killed,
    "points": run_killed,
    "driver": run_killed,
    "order": run_killed,
    "control": run_killed,
    "pairs": run_killed,
    "ledger": run_ledger_killed,
    "plain provider": run_ledger_killed,
    "stopped driver": run_driver_stopped,
    "stopped ledger": run_ledger_stopped,
    "requests": run_requests,
    "decisions": run_astray,
    "random": run_random,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run. `only`: a group, or a text in the names of cases. `planted`: the product with this defect.

    `pairs`, or `random` (so many cases, by `seed`): another campaign than the default one. `minutes`: no new case
    begins after that time.
    """

    store: StoreKind = "postgres"
    only: str | None = None
    planted: str | None = None
    keep: Path | None = None
    pairs: bool = False
    random: int | None = None
    seed: int = 1
    minutes: float | None = None

    @property
    def whole(self) -> bool:
        """Whether everything is run that a verdict of "pass" rests on."""
        return self.only is None and not self.pairs and self.random is None


@dataclass(frozen=True, kw_only=True)
class Task:
    """One case to be run, and in what world."""

    plan: Plan
    options: LaneOptions = ORDINARY

    @property
    def workload(self) -> Workload:
        """Whose run it is."""
        return Plain() if self.plan.group == "control" else Onward(approved=not self.plan.rejected)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What was recorded, and the runs without a fault to compare with."""

    reference: Evidence
    control_reference: Evidence
    driver: Recording
    order: Recording
    ledger: Recording
    plain_provider: Recording
    control: Recording


def run_campaign(options: Options, tell: Told) -> Results:
    """Start a cluster, record, run every case in it, and judge. `tell` gets lines of progress."""
    began = time.monotonic()
    tell(f"starting {options.store}, the ledger and the oracle in a temporary home")
    with cluster(options.store, keep=options.keep) as services, Workers(services) as workers:
        recorded = record(workers, options.planted)
        tasks = [task for task in _chosen(workers, recorded, options, tell) if _wanted(task.plan, options.only)]
        mutants = list(MUTANTS.values()) if options.whole and options.planted is None else []
        campaign = _Campaign(recorded, Progress(len(tasks) + len(mutants), tell), len(tasks))
        over = began + (options.minutes * 60 if options.minutes is not None else math.inf)

        def enough() -> bool:
            return time.monotonic() > over or (options.planted is not None and campaign.wrong() >= ENOUGH_WRONG)

        jobs = [*(campaign.hunt(mutant) for mutant in mutants)]
        jobs += [campaign.job(task) for task in tasks if task.options.lease_seconds is None]
        patient = [campaign.job(task) for task in tasks if task.options.lease_seconds is not None]
        workers.work_off(jobs, patient=patient, stop=enough)
    verdict, reasons = conclude(campaign, options)
    return Results(
        store=options.store,
        verdict=verdict,
        reasons=tuple(reasons),
        reference=recorded.reference,
        outcomes=tuple(campaign.in_order(tasks, "onward")),
        control=tuple(campaign.in_order(tasks, "plain")),
        hunted=tuple(sorted(campaign.hunted, key=lambda hunted: list(MUTANTS).index(hunted.mutant.name))),
        boundaries={
            "driver": len(recorded.driver.boundaries),
            "order": sum(len(moment.boundaries) for moment in sweep.commits(recorded.order)),
            "ledger": len(recorded.ledger.boundaries),
        },
        seconds=time.monotonic() - began,
        planted=options.planted,
        not_run=NOT_ON_SQLITE if options.store == "sqlite" and options.whole else (),
        seed=options.seed if options.random is not None else None,
    )


def record(workers: Workers, planted: str | None) -> Recorded:
    """Runs without a fault: what they pass, and what they make."""
    onward, plain = Onward(), Plain()
    found: dict[str, Any] = {}

    def drivers(lanes: Lanes) -> None:
        lane = lanes.get(LaneOptions(planted=planted))
        found["reference"] = run_killed(onward, NO_FAULT, lane)
        found["driver"] = record_driver(onward, lane)
        found["order"] = record_driver(onward, lane, "checkpoint first")

    def control(lanes: Lanes) -> None:
        lane = lanes.get(ORDINARY)
        found["control_reference"] = run_killed(plain, NO_FAULT, lane)
        found["control"] = record_driver(plain, lane)

    def ledger(name: str, options: LaneOptions) -> Job:
        def do(lanes: Lanes) -> None:
            found[name] = record_ledger(onward, lanes.get(options))

        return do

    plain_provider = LaneOptions(planted=planted, plain_provider=True)
    jobs = [drivers, control, ledger("ledger", LaneOptions(planted=planted)), ledger("plain_provider", plain_provider)]
    workers.work_off(jobs)
    return Recorded(**found)


def _tasks(recorded: Recorded, planted: str | None, *, alone: bool) -> list[Task]:
    """Every case of the default campaign. Those that wait longest begin first.

    `alone`: one ledger at a time has the store, so that no other one can take the place of a silent one.
    """
    ordinary = LaneOptions(planted=planted)
    plain_provider = LaneOptions(planted=planted, plain_provider=True)
    impatient = replace(IMPATIENT, planted=planted)
    impatient_plain = replace(impatient, plain_provider=True)
    groups: list[tuple[LaneOptions, list[Plan]]] = [
        (impatient, [] if alone else sweep.stopped_ledger_plans()),
        (impatient_plain, [] if alone else sweep.stopped_plain_provider_plans()),
        (impatient, sweep.stopped_driver_plans(recorded.driver)),
        (ordinary, sweep.point_plans()),
        (ordinary, sweep.request_plans()),
        (ordinary, sweep.decision_plans()),
        (ordinary, sweep.driver_plans(recorded.driver)),
        (ordinary, sweep.order_plans(recorded.order)),
        (ordinary, sweep.ledger_plans(recorded.ledger)),
        (plain_provider, sweep.plain_provider_plans(recorded.plain_provider)),
        (ordinary, sweep.control_plans(recorded.control)),
    ]
    return [Task(plan=plan, options=options) for options, plans in groups for plan in plans]


def _chosen(workers: Workers, recorded: Recorded, options: Options, tell: Told) -> list[Task]:
    """The cases of the campaign that is asked for."""
    if options.pairs:
        return _pair_tasks(workers, recorded, options, tell)
    if options.random is not None:
        return _random_tasks(recorded, options)
    tasks = _tasks(recorded, options.planted, alone=options.store == "sqlite")
    # A defect that was planted by hand is looked for first where it must show.
    first = _hunting(MUTANTS[options.planted], recorded) if options.planted is not None else []
    return list(dict.fromkeys([*first, *tasks]))


def _hunting(mutant: Mutant, recorded: Recorded) -> list[Task]:
    """The cases that must catch a mutant, in the world that it needs."""
    options = LaneOptions(planted=mutant.name, plain_provider=mutant.plain_provider)
    if mutant.hunt == "stopped driver":
        options = replace(IMPATIENT, planted=mutant.name)
    plans = sweep.hunt_plans(mutant.hunt, recorded.driver, restless=mutant.restless)
    return [Task(plan=plan, options=options) for plan in plans]


def _pair_tasks(workers: Workers, recorded: Recorded, options: Options, tell: Told) -> list[Task]:
    """Every moment of every recovery that differs from the others.

    Many first kills leave the same behind (nothing durable lies between them), and the recoveries from them pass the
    same boundaries; one of each kind stands for the others.
    """
    firsts = [plan for plan in sweep.driver_plans(recorded.driver) if _wanted(plan, options.only)]
    tell(f"recording the recovery after each of {len(firsts)} kills")
    recoveries: dict[Plan, Recording] = {}

    def recording(plan: Plan) -> Job:
        def do(lanes: Lanes) -> None:
            lane = lanes.get(LaneOptions(planted=options.planted))
            recoveries[plan] = record_recovery(Onward(), lane, plan)

        return do

    workers.work_off([recording(plan) for plan in firsts])
    kinds: dict[tuple[str, ...], Plan] = {}
    for plan in firsts:
        kinds.setdefault(recoveries[plan].shape, plan)
    tell(f"they are of {len(kinds)} kinds")
    pairs = [pair for plan in kinds.values() for pair in sweep.pair_plans(plan, recoveries[plan])]
    return [Task(plan=pair, options=LaneOptions(planted=options.planted)) for pair in pairs]


def _random_tasks(recorded: Recorded, options: Options) -> list[Task]:
    assert options.random is not None
    drawn = [draw(options.seed, number) for number in range(1, options.random + 1)]
    impatient = replace(IMPATIENT, planted=options.planted)
    length = recorded.reference.seconds
    return [
        Task(plan=replace(d.plan, run_seconds=length), options=replace(impatient, plain_provider=d.plain_provider))
        for d in drawn
    ]


def _wanted(plan: Plan, only: str | None) -> bool:
    """Whether the case is asked for: by its group, or by a text in its name."""
    return only is None or (plan.group == only if only in RUNS else only in plan.name)


@dataclass
class _Campaign:
    """The cases as they come in. Workers add to it from several threads; appending to a list is one step."""

    recorded: Recorded
    progress: Progress
    planned: int
    outcomes: dict[Task, Outcome] = field(default_factory=dict[Task, Outcome])
    hunted: list[Hunted] = field(default_factory=list[Hunted])

    def job(self, task: Task) -> Job:
        """A case, tried again when its fault did not fire."""

        def do(lanes: Lanes) -> None:
            outcome = None
            for tries in range(1, MOST_TRIES + 1):
                case = RUNS[task.plan.group](task.workload, task.plan, lanes.get(task.options))
                outcome = judge(case, self.recorded, tries)
                if not outcome.invalid:
                    break
            assert outcome is not None
            self.outcomes[task] = outcome
            self.progress.done(task.plan, outcome)

        return do

    def hunt(self, mutant: Mutant) -> Job:
        """The cases that must catch a mutant, until one does."""

        def do(lanes: Lanes) -> None:
            tasks = _hunting(mutant, self.recorded)
            caught, tried = None, 0
            while caught is None and tried < len(tasks):
                task = tasks[tried]
                case = RUNS[task.plan.group](task.workload, task.plan, lanes.get(task.options))
                outcome = judge(case, self.recorded, 1)
                caught = outcome if outcome.word == "wrong" else None
                tried += 1
            self.hunted.append(Hunted(mutant=mutant, caught=caught, tried=tried))
            self.progress.hunted(mutant.name, caught is not None)

        return do

    def wrong(self) -> int:
        """How many cases have contradicted an invariant so far."""
        return sum(outcome.word == "wrong" for outcome in list(self.outcomes.values()))

    def in_order(self, tasks: Sequence[Task], system: str) -> list[Outcome]:
        """The outcomes of a system in the order of the plans."""
        found = [self.outcomes[task] for task in tasks if task in self.outcomes]
        return [outcome for outcome in found if outcome.case.system == system]


def judge(case: Evidence, recorded: Recorded, tries: int) -> Outcome:
    """A case, compared with the one without a fault. A case whose fault did not fire proves and contradicts nothing."""
    if case.system == "plain":
        invalid = checker.check(case, recorded.control_reference, checker.CONTROL)
        return Outcome(case=case, reference=recorded.control_reference, invalid=tuple(invalid), tries=tries)
    invalid = checker.check(case, recorded.reference, checker.VALIDITY)
    violations = [] if invalid else checker.check(case, recorded.reference, checker.ONWARD)
    return Outcome(
        case=case,
        reference=recorded.reference,
        violations=tuple(violations),
        invalid=tuple(invalid),
        tries=tries,
    )


def conclude(campaign: _Campaign, options: Options) -> tuple[Verdict, list[str]]:
    """The verdict and why. One contradiction disproves the claim, also where another case proves nothing."""
    outcomes = list(campaign.outcomes.values())
    wrong = [f"{o.case.plan.group}, {o.case.name}: {v}" for o in outcomes for v in o.violations]
    unproved = [(o, v) for o in outcomes for v in o.invalid if v.seen != checker.NOTHING_STRUCK]
    invalid = [f"{o.case.plan.group}, {o.case.name}: {v}" for o, v in unproved]
    invalid += [f"without any fault: {v}" for v in _broken_reference(campaign.recorded)]
    if not outcomes:
        invalid.append("no case was run")
    elif len(outcomes) < campaign.planned and options.random is None and not (wrong and options.planted):
        invalid.append(f"only {len(outcomes)} of {campaign.planned} cases were run in the time given")
    if options.whole:
        invalid += _silent(campaign, outcomes)
    if options.whole or options.random is not None:
        invalid += _never(outcomes)
    if wrong:
        return "disproved", wrong + invalid
    return ("invalid", invalid) if invalid else ("pass", [])


def _broken_reference(recorded: Recorded) -> list[checker.Violation]:
    found = checker.check(recorded.reference, recorded.reference, checker.ONWARD | checker.VALIDITY)
    return found + checker.check(recorded.control_reference, recorded.control_reference, checker.CONTROL)


def _silent(campaign: _Campaign, outcomes: Sequence[Outcome]) -> list[str]:
    """What should have been seen and was not: then the campaign is not able to see it."""
    found = [f"the mutant {h.mutant.name} survived {h.tried} cases" for h in campaign.hunted if h.caught is None]
    controls = [outcome for outcome in outcomes if outcome.case.system == "plain"]
    if not any(outcome.case.duplicates for outcome in controls):
        found.append("the control shows no duplicate at any boundary")
    return found


def _never(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"it never happened that {what}" for what, times in reached(tuple(outcomes)).items() if not times]
