"""Each invariant passes a clean case and finds a planted violation: a checker that finds nothing proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments import checker
from experiments.boundaries import Point
from experiments.evidence import Evidence
from experiments.nemesis import Fault
from experiments.story import Process
from tests.support.evidence import (
    CASE,
    DIGEST,
    FIRST,
    PLAN,
    REFERENCE,
    REST,
    SECOND,
    THIRD,
    WORLD,
    checkpoint,
    effect,
    plain,
)


def found(case: Evidence) -> set[str]:
    """The numbers of the invariants that a case contradicts."""
    violations = checker.check(case, REFERENCE, checker.ONWARD) + checker.check(case, REFERENCE, checker.VALIDITY)
    return {violation.number for violation in violations}


def world(**changes: object) -> Evidence:
    """The case with another world, before and after the last process alike."""
    changed = replace(WORLD, **changes)
    return replace(CASE, ended=changed, after=changed)


def test_a_clean_case_contradicts_nothing() -> None:
    assert found(CASE) == set()
    assert found(REFERENCE) == set()


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({"effects": (*WORLD.effects, effect("draft.save", entry=3))}, {"I1"}),
        ({"effects": WORLD.effects[:1]}, {"I1", "I3"}),
        ({"published": (DIGEST, DIGEST)}, {"I1"}),
        ({"published": ()}, {"I1"}),
        ({"records": WORLD.records[:1]}, {"I2"}),
        ({"records": (replace(WORLD.records[0], status="IN_FLIGHT", receipt_digest=None), WORLD.records[1])}, {"I2"}),
        ({"records": (replace(WORLD.records[0], receipt_digest="e" * 64), WORLD.records[1])}, {"I3"}),
        ({"saved": "e" * 64}, {"I4"}),
        ({"saved": None}, {"I4"}),
        ({"published": ("e" * 64,)}, {"I4"}),
        ({"checkpoints": ()}, {"I5"}),
        ({"checkpoints": (checkpoint(1, None), checkpoint(2, 1), checkpoint(3, 1))}, {"I5"}),
        ({"checkpoints": (checkpoint(1, None), checkpoint(2, None))}, {"I5"}),
        ({"checkpoints": (checkpoint(1, None), checkpoint(3, 2))}, {"I5"}),
        ({"epochs": (2, 2)}, {"I6"}),
        ({"epochs": (2, 1)}, {"I6"}),
        ({"epochs": (1,)}, {"I6"}),
        ({"status": "waiting_human"}, {"I7"}),
    ],
)
def test_a_planted_violation_of_the_world_is_found(changes: dict[str, object], numbers: set[str]) -> None:
    assert found(world(**changes)) == numbers


def processes(first: Process = FIRST, second: Process = SECOND, third: Process = THIRD) -> Evidence:
    return replace(CASE, processes=(first, second, third))


@pytest.mark.parametrize(
    ("case", "numbers"),
    [
        # The second process had the effect performed again, and got another receipt.
        (processes(second=Process(exit_code=0, lines=("TOOL committed receipt draft-9", *REST))), {"I3"}),
        # Everything ran again after one kill.
        (processes(second=Process(exit_code=0, lines=(*PLAN, "TOOL reuse receipt draft-1", *REST))), {"I8"}),
        # The fault was armed and never reached, fired elsewhere, or only one of its two signs is there.
        (processes(first=replace(FIRST, exit_code=0, lines=FIRST.lines[:-1])), {"I8", "I9"}),
        (
            processes(first=replace(FIRST, lines=(*FIRST.lines[:-1], "CRASH before effect, its request not sent"))),
            {"I9"},
        ),
        (processes(first=replace(FIRST, exit_code=1)), {"I9"}),
        (processes(second=replace(SECOND, exit_code=None)), {"I9"}),
        # The finished run was worked on.
        (
            processes(third=Process(exit_code=0, lines=("EXECUTE deliver", "TOOL reuse receipt report-2"))),
            {"I8", "I10"},
        ),
        (replace(CASE, ended=replace(WORLD, checkpoints=WORLD.checkpoints[:2])), {"I10"}),
    ],
)
def test_a_planted_violation_by_a_process_is_found(case: Evidence, numbers: set[str]) -> None:
    assert found(case) == numbers


def test_a_control_with_duplicates_is_evidence_and_a_clean_one_is_not() -> None:
    assert plain().duplicates == 1
    assert checker.silent_controls([plain()]) == []
    assert checker.silent_controls([plain(effects=WORLD.effects)]) == [
        "write_draft: after effect: the control shows no duplicate"
    ]


def test_a_control_that_does_not_end_is_no_control() -> None:
    violations = checker.check(plain(status="None"), plain(), checker.CONTROL)
    assert [violation.number for violation in violations] == ["I7"]
    assert checker.check(plain(), plain(), checker.CONTROL) == []


def test_a_case_before_the_effect_expects_no_duplicate_of_the_control() -> None:
    before = replace(plain(effects=WORLD.effects), fault=Fault(point=Point(step="deliver", when="before effect")))
    assert checker.silent_controls([before]) == []
