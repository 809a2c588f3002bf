"""Random cases: faults at any time, drawn by a seed, and not at the moments that a recording knows.

A seed and a number give the same plan again; what it hits depends on the machine's timing, so a case that found
something is told with its whole story.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from experiments import misuse
from experiments.case import Case, take_over
from experiments.evidence import Evidence
from experiments.lane import Lane
from experiments.plan import Plan, Strike, What
from experiments.processes import Running
from experiments.workload import Workload

# How often each is drawn. A silent driver costs a lease time, so it is drawn less often.
WEIGHTS: dict[What, int] = {"kill driver": 5, "kill ledger": 3, "silence driver": 1, "ask again": 2}
MOST_STRIKES = 4
# Cases in which a provider would not notice a second sending.
PLAIN_PROVIDER_SHARE = 0.4


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A plan, and what kind of provider it meets."""

    plan: Plan
    plain_provider: bool


def draw(seed: int, number: int) -> Drawn:
    """The plan with this number, the same on every machine. Strikes fall within the length of a run."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - a plan to be repeated, no secret
    count = rng.randint(1, MOST_STRIKES)
    strikes = tuple(
        Strike(what=rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0], after_share=rng.random())
        for _ in range(count)
    )
    plan = Plan(group="random", name=f"seed {seed} number {number}", strikes=strikes, restless=rng.random() < 0.2)
    return Drawn(plan=plan, plain_provider=rng.random() < PLAIN_PROVIDER_SHARE)


def run_random(workload: Workload, plan: Plan, lane: Lane) -> Evidence:
    """Each strike falls so long after the driver of that time was started; after one that dies another is started."""
    case = Case(workload, plan, lane)
    silent: list[tuple[int, Running]] = []
    driver = case.start(case.role())
    for strike in plan.strikes:
        if driver.ends_within(strike.after_share * plan.run_seconds):
            case.ended(driver)
            driver = case.start(case.role())
            continue
        if strike.what == "kill ledger":
            lane.ledger.kill()
        elif strike.what == "ask again":
            case.beside(misuse.impostor)
        elif strike.what == "kill driver":
            driver.kill()
            case.ended(driver)
            driver = case.start(case.role())
        else:
            driver.stop()
            silent.append((case.expect(), driver))
            driver = take_over(case)
    case.ended(driver)
    ended = case.finish()
    for place, process in silent:
        process.wake()
        case.processes[place] = process.wait()
    if silent and ended.unknown:
        ended = case.finish()  # who was silent may have known it
    return case.evidence(case.look() if silent else ended)


def at_most(wrong: int, cases: int, confidence: float = 0.95) -> float:
    """The largest rate of wrong cases that what was seen leaves likely: the one-sided Clopper–Pearson bound."""
    if cases == 0 or wrong >= cases:
        return 1.0
    low, high = wrong / cases, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(wrong, cases, middle) > 1 - confidence else (low, middle)
    return high


def _at_most(wrong: int, cases: int, rate: float) -> float:
    """The probability of so few wrong cases, if each is wrong at this rate."""
    term = total = (1 - rate) ** cases
    for k in range(1, wrong + 1):
        term *= (cases - k + 1) / k * rate / (1 - rate)
        total += term
    return total
