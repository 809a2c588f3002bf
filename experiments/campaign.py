"""The campaign: every case with Onward and with the control, judged, and one verdict.

    pass        every fault fired, nothing contradicts an invariant, and the control shows the duplicates it must show
    disproved   a case contradicts an invariant
    invalid     nothing was tested: a fault did not fire, the control stayed clean, or the run fails without any fault

A verdict is not a matter of degree: one contradiction in one case is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from experiments import checker
from experiments.boundaries import POINTS
from experiments.cluster import Cluster, cluster
from experiments.evidence import Evidence
from experiments.nemesis import Fault
from experiments.processes import ForkServer
from experiments.report import Outcome, Results, Verdict
from experiments.story import Process
from experiments.workload import Onward, Plain, Workload
from runs.settings import StoreKind

Told = Callable[[str], None]


def run_campaign(
    store: StoreKind,
    tell: Told,
    *,
    only: str | None = None,
    planted: str | None = None,
    keep: Path | None = None,
) -> Results:
    """Start a cluster, run every case in it, and judge. `tell` gets a line of progress per case.

    `only` names one point; without it all of them are tried. A case without a fault is always run, to compare with.
    """
    began = time.monotonic()
    tell(f"starting {store}, the ledger and the oracle in a temporary home")
    faults = [None, *(Fault(point=point) for point in POINTS if only in (None, str(point)))]
    outcomes: list[Outcome] = []
    forks = ForkServer()
    with cluster(store, planted=planted, keep=keep) as services, ThreadPoolExecutor(1) as pool, forks:
        forks.warm_up(services.folder)
        onward, plain = Onward(services, planted), Plain(services)
        for number, fault in enumerate(faults, 1):
            # The control runs beside the case, in a world of its own.
            control = pool.submit(run_case, plain, fault, forks, services)
            case = run_case(onward, fault, forks, services)
            outcomes.append(judge(case, control.result(), outcomes[0] if outcomes else None))
            tell(_progress(number, len(faults), outcomes[-1]))
            if fault is None and outcomes[0].invalid:
                break  # faults on a run that fails by itself show nothing
    verdict, reasons = conclude(outcomes)
    return Results(
        store=store,
        verdict=verdict,
        reasons=tuple(reasons),
        outcomes=tuple(outcomes),
        seconds=time.monotonic() - began,
        planted=planted,
    )


def run_case(workload: Workload, fault: Fault | None, forks: ForkServer, services: Cluster) -> Evidence:
    """One fresh run: a process with the fault, a process that resumes it, and one that resumes the finished run."""
    began = time.monotonic()
    run_id = workload.begin()
    told = services.stories / f"{workload.system} {fault.point if fault else 'no fault'}".replace(": ", " ")

    def process(number: int, armed: Fault | None) -> Process:
        file = told.with_name(f"{told.name} {number}.txt")
        return forks.run(workload.work, file, *workload.arguments(run_id, armed))

    driving = [process(1, fault)]
    if fault is not None:
        driving.append(process(2, None))
    ended = workload.look(run_id, driving)
    again = process(len(driving) + 1, None)
    return Evidence(
        system=workload.system,
        fault=fault,
        processes=(*driving, again),
        ended=ended,
        after=workload.look(run_id, [*driving, again]),
        seconds=time.monotonic() - began,
    )


def judge(case: Evidence, control: Evidence, without_fault: Outcome | None) -> Outcome:
    """A case and its control, compared with the case without a fault (which is compared with itself).

    A case whose fault did not fire contradicts nothing and proves nothing; the same holds for a contradiction without
    any fault, since then it is not the fault that shows it.
    """
    reference = without_fault.case if without_fault else case
    control_reference = without_fault.control if without_fault else control
    invalid = checker.check(case, reference, checker.VALIDITY)
    violations = [] if invalid else checker.check(case, reference, checker.ONWARD)
    if case.fault is None:
        invalid, violations = invalid + violations, []
    invalid += checker.check(control, control_reference, checker.CONTROL)
    return Outcome(case=case, control=control, violations=tuple(violations), invalid=tuple(invalid))


def conclude(outcomes: list[Outcome]) -> tuple[Verdict, list[str]]:
    """The verdict and why. One contradiction disproves the claim, also where another case proves nothing."""
    wrong = [f"{outcome.case.name}: {violation}" for outcome in outcomes for violation in outcome.violations]
    invalid = [f"{outcome.case.name}: {violation}" for outcome in outcomes for violation in outcome.invalid]
    if len(outcomes) == 1:
        return "invalid", invalid or ["no fault was tried"]
    invalid += checker.silent_controls([outcome.control for outcome in outcomes])
    if wrong:
        return "disproved", wrong + invalid
    return ("invalid", invalid) if invalid else ("pass", [])


def _progress(number: int, of: int, outcome: Outcome) -> str:
    verdict = "INVALID" if outcome.invalid else "WRONG" if outcome.violations else "ok"
    effects, control = (sum(checker.counts(e).values()) for e in (outcome.case, outcome.control))
    return (
        f"[{number}/{of}] {outcome.case.name}: {verdict}, {effects} effects, "
        f"the control {control} ({max(outcome.case.seconds, outcome.control.seconds):.1f} s)"
    )
