"""What must hold after a case on several hosts: clean cases pass, and each planted violation is found."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from experiments.evidence import World
from experiments.hosts import judging, report
from experiments.hosts.judging import Seen
from experiments.hosts.load import Claim
from experiments.hosts.results import Case, Results
from tests.support.evidence import BEGAN, DRAFT_UNKNOWN, OTHER, PUBLISHED, WORLD, checkpoint, claims, effect

REFERENCE = Seen(run_id="0" * 36, world=replace(WORLD, claims=claims(1)), steps=9, epochs=(1, 1, 1))
TAKEN = Seen(run_id="1" * 36, world=WORLD, steps=10, epochs=(1, 1, 2, 2))


def found(run: Seen) -> list[str]:
    return [what.split(" ")[1] for what in judging.judge("a case", run, REFERENCE)]


def bent(**changes: Any) -> Seen:
    return replace(TAKEN, world=replace(TAKEN.world, **changes))


@pytest.mark.parametrize("run", [REFERENCE, TAKEN], ids=["no fault", "taken over"])
def test_a_clean_run_contradicts_nothing(run: Seen) -> None:
    assert judging.judge("a case", run, REFERENCE) == []


TWICE = (*WORLD.effects, effect("report.publish", entry=3))


@pytest.mark.parametrize(
    ("run", "number"),
    [
        (bent(effects=TWICE), "I1"),
        (bent(effects=WORLD.effects[:1], published=(), records=WORLD.records[:1]), "I1"),
        (bent(records=(PUBLISHED,)), "I2"),
        (bent(records=(replace(WORLD.records[0], receipt_digest=OTHER), PUBLISHED)), "I3"),
        (bent(saved=OTHER, effects=(effect("draft.save", OTHER), WORLD.effects[1])), "I4"),
        (bent(checkpoints=(checkpoint(1, None), checkpoint(2, 1), checkpoint(3, 1))), "I5"),
        (bent(claims=claims(1, 1)), "I6"),
        (replace(TAKEN, epochs=(1, 2, 1)), "I6"),
        (bent(status="queued", reason="transient"), "I7"),
        (replace(TAKEN, steps=11), "I8"),
        (bent(decisions=()), "I11"),
    ],
)
def test_each_violation_is_found(run: Seen, number: str) -> None:
    assert number in found(run)


def test_an_unknown_outcome_that_waits_for_a_person_is_right_and_counted() -> None:
    world = replace(
        WORLD,
        status="waiting_human",
        reason="unknown_outcome",
        effects=WORLD.effects[:1],
        published=(),
        records=(DRAFT_UNKNOWN,),
        claims=claims(1),
    )
    run = replace(REFERENCE, world=world)
    assert judging.judge("a case", run, REFERENCE) == []
    assert not run.stuck
    assert run.evidence("a case").after.unknown == 1


@pytest.mark.parametrize(("status", "stuck"), [("queued", True), ("running", True), ("failed", False)])
def test_a_run_that_neither_ends_nor_waits_for_a_person_is_stuck(status: str, stuck: bool) -> None:
    assert bent(status=status).stuck is stuck


def test_a_run_that_was_taken_from_a_living_driver_is_a_theft() -> None:
    first = Claim(run_id="r", epoch=1, host="worker-1", why="queued", at=BEGAN)
    of_a_dead_one = replace(first, epoch=2, host="worker-2", why="gone", at=BEGAN + timedelta(seconds=1))
    of_a_living_one = replace(of_a_dead_one, epoch=3, robbed=True)
    assert judging.thefts([first, of_a_dead_one, of_a_living_one]) == [of_a_living_one]


def test_what_changes_when_a_finished_run_is_driven_again_is_told() -> None:
    changed: World = replace(WORLD, effects=TWICE)
    assert judging.repeated({"r": WORLD}, {"r": WORLD}) == []
    assert len(judging.repeated({"r": WORLD}, {"r": changed})) == 1


# --- the verdict and the table ----------------------------------------------------------------------------------------

NO_FAULT = Case(name="no fault", group="none", seconds=1.0, runs=4, completed=4)
HIT = Case(
    name="a cut", group="cut", seconds=1.0, runs=4, completed=4, hit=2, takeovers=2, robbed=1, progress=0.25, back=3.0
)
NOT_RUN = Case(name="a clock", group="clock", seconds=0.0, not_run="There is no C compiler.")
NOT_STRUCK = Case(name="too late", group="cut", seconds=1.0, invalid="No run was driven any more.")
BROKEN = replace(HIT, broken=("r: I1 one effect per intended action: 1 too many, 0 missing",), duplicates=1)


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ((NO_FAULT, HIT), "pass"),
        ((NO_FAULT, HIT, NOT_RUN), "pass"),
        ((NO_FAULT,), "invalid"),
        ((NO_FAULT, NOT_RUN), "invalid"),
        ((NO_FAULT, HIT, NOT_STRUCK), "invalid"),
        ((NO_FAULT, BROKEN, NOT_STRUCK), "disproved"),
    ],
)
def test_only_cases_that_fired_and_hold_are_a_pass(cases: tuple[Case, ...], verdict: str) -> None:
    assert Results(cases=cases, seconds=1.0).verdict == verdict


def test_the_table_says_what_fired_and_what_did_not_run() -> None:
    out = io.StringIO()
    report.print_results(Results(cases=(NO_FAULT, HIT, NOT_RUN), seconds=9.4), out)
    lines = out.getvalue().splitlines()
    assert lines[2].split() == ["a", "cut", "2", "runs", "4/4", "0", "0", "0", "0", "2", "1", "0.25", "-", "-", "3.00"]
    assert "not run" in lines[3]
    assert "a clock: There is no C compiler." in lines
    assert lines[-1] == (
        "pass: 1 faults fired, 4 of 4 runs completed, 0 duplicates, 0 lost, 0 UNKNOWN, 0 stuck; 1 cases not run. 9 s."
    )


def test_json_has_every_case_and_what_it_was_run_on() -> None:
    told = Results(cases=(NO_FAULT, HIT), seconds=9.4).to_json()
    assert [case["name"] for case in told["cases"]] == ["no fault", "a cut"]
    assert told["cases"][1]["fired"] is True
    assert set(told["versions"]) >= {"langgraph", "psycopg"}
