"""Each invariant passes a clean case and finds a planted violation: a checker that finds nothing proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from experiments import checker
from experiments.boundaries import Boundary
from experiments.evidence import Evidence, World
from experiments.nemesis import Fault
from experiments.plan import Plan
from experiments.story import Process
from tests.support.evidence import (
    CASE,
    DIGEST,
    DRAFT_SAVED,
    DRAFT_UNKNOWN,
    FIRST,
    LEDGER_CASE,
    OTHER,
    PLAIN_REFERENCE,
    PLAN,
    POINTS,
    PUBLISHED,
    REFERENCE,
    REST,
    SECOND,
    THIRD,
    WORLD,
    changed,
    checkpoint,
    claims,
    effect,
    plain,
)

DRAFT, PUBLICATION = WORLD.effects


def found(case: Evidence, reference: Evidence = REFERENCE) -> dict[str, list[str]]:
    """What a case contradicts: the numbers of the invariants, and what was seen."""
    violations = checker.check(case, reference, checker.ONWARD | checker.VALIDITY)
    seen: dict[str, list[str]] = {}
    for violation in violations:
        seen.setdefault(violation.number, []).append(violation.seen)
    return seen


@pytest.mark.parametrize("case", [CASE, REFERENCE, LEDGER_CASE], ids=["killed", "no fault", "ledger killed"])
def test_a_clean_case_contradicts_nothing(case: Evidence) -> None:
    assert found(case) == {}


def test_a_violation_is_told_with_its_invariant() -> None:
    (violation,) = checker.check(changed(published=(DIGEST, DIGEST)), REFERENCE, checker.ONWARD)
    assert str(violation) == "I1 one effect per intended action: the effect of deliver happened 2 times"


NOT_SEEN = "the receipt of {} names " + DIGEST[:12] + ", which nobody saw"


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        (
            {"effects": (DRAFT, PUBLICATION, effect("draft.save", entry=3))},
            {"I1": ["the effect of write_draft happened 2 times"]},
        ),
        ({"published": (DIGEST, DIGEST)}, {"I1": ["the effect of deliver happened 2 times"]}),
        (
            {"effects": (DRAFT,), "published": ()},
            {"I1": ["the effect of deliver happened 0 times"], "I3": [NOT_SEEN.format("deliver")]},
        ),
        (
            {"effects": (DRAFT, effect("draft.save", entry=2, again=True), PUBLICATION)},
            {"I1": ["the effect of write_draft was sent once more, though no ledger had died"]},
        ),
        (
            {"effects": (*WORLD.effects, *(effect("report.publish", entry=n, again=True) for n in (3, 4)))},
            {"I1": ["the effect of deliver was sent 2 more times, though no ledger had died"]},
        ),
        ({"records": (DRAFT_SAVED,)}, {"I2": ["report.publish happened, and no record says so"]}),
        (
            {"records": (DRAFT_SAVED,), "effects": (DRAFT,)},  # a witness was killed, and the row of the effect stands
            {"I2": ["report.publish happened, and no record says so"]},
        ),
        (
            {"records": (replace(DRAFT_SAVED, status="IN_FLIGHT", receipt_digest=None), PUBLISHED)},
            {"I2": ["draft.save happened, and no record says so"]},
        ),
        (
            {"records": (replace(DRAFT_SAVED, receipt_digest=OTHER), PUBLISHED)},
            {"I3": [f"the receipt of write_draft names {OTHER[:12]}, which nobody saw"]},
        ),
        (
            {"records": (replace(DRAFT_SAVED, receipt_digest=None), PUBLISHED)},
            {"I3": ["the receipt of write_draft names None, which nobody saw"]},
        ),
        ({"records": (DRAFT_SAVED, DRAFT_SAVED, PUBLISHED)}, {"I3": ["draft.save is recorded 2 times"]}),
        (
            {"saved": OTHER},
            {
                "I4": [
                    f"the report is {OTHER}, without a fault it is {DIGEST}",
                    f"another report was published: {DIGEST}",
                ]
            },
        ),
        ({"published": (OTHER,)}, {"I4": [f"another report was published: {OTHER}"]}),
        ({"checkpoints": ()}, {"I5": ["there is no checkpoint"]}),
        (
            {"checkpoints": (checkpoint(1, None), checkpoint(2, 1), checkpoint(3, 1))},
            {"I5": ["checkpoint c3 has the parent c1, not c2"]},
        ),
        (
            {"checkpoints": (checkpoint(1, None), checkpoint(2, None))},
            {"I5": ["checkpoint c2 has the parent None, not c1"]},
        ),
        (
            {"checkpoints": (checkpoint(1, None), checkpoint(3, 2))},
            {"I5": ["checkpoint c3 has the parent c2, not c1"]},
        ),
        ({"claims": claims(2, 2)}, {"I6": ["the epochs are [2, 2]"]}),
        ({"claims": claims(1, 3, 2)}, {"I6": ["the epochs are [1, 3, 2]"]}),
        (
            {"status": "queued", "errors": ("ValueError: no",)},
            {"I7": ["the run is queued, not succeeded; ValueError: no"]},
        ),
        (
            {"status": "waiting_human", "reason": "approval"},
            {"I7": ["the run is waiting_human (approval), not succeeded; nobody says why"]},
        ),
        (
            {"status": "waiting_human", "reason": "unknown_outcome"},  # and no record says UNKNOWN
            {"I7": ["the run is waiting_human (unknown_outcome), not succeeded; nobody says why"]},
        ),
        ({"decisions": ()}, {"I11": ["it was published, and the decisions are []"]}),
        ({"decisions": ("reject",)}, {"I11": ["it was published, and the decisions are ['reject']"]}),
    ],
)
def test_a_planted_violation_of_the_world_is_found(changes: dict[str, Any], seen: dict[str, list[str]]) -> None:
    assert found(changed(**changes)) == seen


def test_the_checkpoints_are_ordered_by_their_ids_and_not_by_the_database() -> None:
    assert found(changed(checkpoints=WORLD.checkpoints[::-1])) == {}


def processes(first: Process = FIRST, second: Process = SECOND, third: Process = THIRD) -> Evidence:
    return replace(CASE, processes=(first, second, third))


@pytest.mark.parametrize(
    ("case", "seen"),
    [
        pytest.param(
            processes(second=Process(exit_code=0, lines=("TOOL committed receipt draft-9", *REST))),
            {"I3": ["draft.save has several receipts: draft-1, draft-9"]},
            id="another receipt",
        ),
        pytest.param(
            processes(second=Process(exit_code=0, lines=(*PLAN, "TOOL reuse receipt draft-1", *REST))),
            {"I8": ["3 nodes ran again after 1 faults"]},
            id="everything again after one kill",
        ),
        pytest.param(
            processes(first=replace(FIRST, exit_code=0, lines=FIRST.lines[:-1])),
            {
                "I8": ["1 nodes ran again after 0 faults"],
                "I9": ["process 1 ended with 0 and crash None"],
            },
            id="never fired",
        ),
        pytest.param(
            processes(first=replace(FIRST, lines=(*FIRST.lines[:-1], "CRASH write_draft: before effect"))),
            {"I9": ["process 1 ended with 86 and crash 'write_draft: before effect'"]},
            id="fired elsewhere",
        ),
        pytest.param(
            processes(first=replace(FIRST, exit_code=1)),
            {"I9": ["process 1 ended with 1 and crash 'write_draft: after effect'"]},
            id="another end",
        ),
        pytest.param(
            processes(second=replace(SECOND, exit_code=None)),
            {"I9": ["process 2 had to be stopped"]},
            id="stuck",
        ),
        pytest.param(
            processes(second=replace(SECOND, lines=(*SECOND.lines, "CRASH write_draft: after effect"))),
            {"I9": ["2 processes crashed, 1 were to"]},
            id="crashed once more",
        ),
        pytest.param(
            processes(third=Process(exit_code=0, lines=("EXECUTE deliver", "TOOL reuse receipt report-2"))),
            {
                "I8": ["2 nodes ran again after 1 faults"],
                "I10": ["it executed deliver", "it asked for effects"],
            },
            id="worked on a finished run",
        ),
        pytest.param(
            replace(CASE, ended=replace(WORLD, checkpoints=WORLD.checkpoints[:2])),
            {"I10": ["it changed the checkpoints"]},
            id="changed a finished run",
        ),
        pytest.param(
            replace(CASE, ended=replace(WORLD, claims=claims(1), effects=WORLD.effects[:1])),
            {"I10": ["it changed the effects", "it changed the claims"]},
            id="claimed a finished run",
        ),
        pytest.param(
            replace(CASE, clients=(Process(exit_code=0, lines=("ACCEPTED draft.save",)),)),
            {"I13": ["draft.save was answered under a known id with other parameters"]},
            id="other parameters taken",
        ),
    ],
)
def test_a_planted_violation_by_a_process_is_found(case: Evidence, seen: dict[str, list[str]]) -> None:
    assert found(case) == seen


def test_a_run_that_does_not_end_tells_the_last_words_of_who_failed() -> None:
    failed = Process(exit_code=1, lines=SECOND.lines[:-1], last_words="ValueError: no")
    case = replace(processes(second=failed), ended=replace(WORLD, status="queued"))
    assert found(case)["I7"] == ["the run is queued, not succeeded; ValueError: no"]


# --- ledgers that die -------------------------------------------------------------------------------------------------


def test_a_second_sending_is_right_only_behind_the_death_of_a_ledger() -> None:
    effects = (DRAFT, effect("draft.save", entry=2, again=True), PUBLICATION)
    assert found(changed(LEDGER_CASE, effects=effects)) == {}
    assert list(found(changed(effects=effects))) == ["I1"]


def test_a_fault_of_the_ledger_hits_one_process_of_it() -> None:
    dead, alive = LEDGER_CASE.services
    where = "after put an object (send)"
    none = replace(LEDGER_CASE, services=(alive,))
    assert found(none)["I9"] == [f"the fault hit 0 ledger processes at {where}"]
    two = replace(LEDGER_CASE, services=(dead, dead, alive))
    assert found(two)["I9"] == [f"the fault hit 2 ledger processes at {where}"]


def test_what_nobody_can_know_waits_for_a_person_and_is_neither_lost_nor_wrong() -> None:
    waiting = changed(
        LEDGER_CASE,
        status="waiting_human",
        reason="unknown_outcome",
        effects=(),
        published=(),
        saved=None,
        records=(DRAFT_UNKNOWN,),
        oracle_alone=True,
    )
    assert found(waiting) == {}
    assert (waiting.lost, waiting.duplicates, waiting.after.unknown) == (0, 0, 1)
    silent = changed(waiting, status="succeeded", records=())  # the same without the UNKNOWN
    assert silent.lost == 2
    assert found(silent)["I1"] == [
        "the effect of write_draft happened 0 times",
        "the effect of deliver happened 0 times",
    ]
    doubled = changed(waiting, effects=(DRAFT, effect("draft.save", entry=2)))  # an UNKNOWN excuses no duplicate
    assert found(doubled)["I1"] == ["the effect of write_draft happened 2 times"]


# --- effects, counted -------------------------------------------------------------------------------------------------


def counted(**changes: Any) -> tuple[int, int]:
    """How often (draft, publication) happened in a world."""
    world: World = replace(WORLD, **changes)
    return world.effects_of("write_draft"), world.effects_of("deliver")


def test_effects_are_the_lines_of_the_oracle_that_changed_the_world() -> None:
    assert counted() == (1, 1)
    assert counted(effects=(*WORLD.effects, DRAFT, DRAFT)) == (3, 1)
    assert counted(effects=(*WORLD.effects, replace(DRAFT, again=True))) == (1, 1)
    assert replace(WORLD, effects=(*WORLD.effects, replace(DRAFT, again=True))).sent_again("write_draft") == 1


def test_a_witness_that_was_killed_before_it_told_hides_no_effect() -> None:
    assert counted(effects=()) == (1, 1)
    assert counted(effects=(), saved=None) == (0, 1)
    assert counted(effects=(), saved=None, published=()) == (0, 0)
    assert counted(effects=(), published=(DIGEST, DIGEST)) == (1, 2)


def test_files_are_no_effect_where_the_oracle_alone_is_the_world() -> None:
    assert counted(effects=(PUBLICATION,), oracle_alone=True) == (0, 1)
    assert counted(effects=(DRAFT, DRAFT, PUBLICATION), oracle_alone=True) == (2, 1)


# --- other kinds of cases ---------------------------------------------------------------------------------------------

SILENT = Fault(at=Boundary(role="background", label="commit", occurrence=3), how="stop")
STOPPED = replace(
    CASE,
    plan=Plan(group="stopped driver", name=str(SILENT), driver=(SILENT,)),
    processes=(
        Process(exit_code=0, lines=(*PLAN, f"STOP {SILENT}", f"WAKE {SILENT}", "EXECUTE test", "END LeaseLost")),
        Process(exit_code=0, lines=("TOOL committed receipt draft-1", *REST)),
        THIRD,
    ),
)


def test_a_driver_that_was_replaced_may_begin_a_node_and_gets_nothing_done() -> None:
    assert found(STOPPED) == {}
    awake, *others = STOPPED.processes
    for line in ("TOOL committed receipt draft-1", "TOOL reuse receipt draft-1"):
        done = replace(awake, lines=(*awake.lines, line))
        assert found(replace(STOPPED, processes=(done, *others))) == {"I12": [f"after it was woken it had {line}"]}
    before = replace(awake, lines=("TOOL committed receipt draft-1", *awake.lines))
    assert found(replace(STOPPED, processes=(before, *others))) == {}


def test_a_driver_that_was_never_stopped_is_no_evidence() -> None:
    awake, *others = STOPPED.processes
    ran = replace(awake, lines=(*PLAN, *REST))
    case = replace(STOPPED, processes=(ran, *others))
    assert found(case)["I9"] == ["process 1 was not stopped: exit 0, 'exit 0'"]


REJECTED = changed(
    replace(REFERENCE, plan=Plan(group="decisions", name="rejected", rejected=True)),
    status="failed",
    reason="rejected",
    effects=(DRAFT,),
    published=(),
    records=(DRAFT_SAVED, replace(PUBLISHED, status="WITHDRAWN", receipt_digest=None)),
    decisions=("reject",),
)


def test_what_a_person_rejects_does_not_happen() -> None:
    assert found(REJECTED) == {}
    assert (REJECTED.lost, REJECTED.duplicates) == (0, 0)
    assert found(changed(REJECTED, reason="unverified"))["I7"] == [
        "the run is failed (unverified), not failed (rejected); nobody says why"
    ]
    published = changed(REJECTED, effects=WORLD.effects, published=(DIGEST,))
    assert published.duplicates == 1
    assert found(published) == {
        "I1": ["the effect of deliver happened 1 times"],
        "I2": ["report.publish happened, and no record says so"],
        "I11": ["it was published, and the decisions are ['reject']"],
    }


def test_a_model_that_writes_something_else_has_no_reference_but_what_was_saved() -> None:
    restless = replace(CASE, plan=replace(POINTS, restless=True))
    others = [effect("draft.save", OTHER), effect("report.publish", OTHER, entry=2)]
    records = tuple(replace(record, receipt_digest=OTHER) for record in WORLD.records)
    written = {"saved": OTHER, "effects": tuple(others), "records": records}
    assert found(changed(restless, published=(OTHER,), **written)) == {}
    assert list(found(changed(published=(OTHER,), **written))) == ["I4"]
    assert found(changed(restless, **written))["I4"] == [f"another report was published: {DIGEST}"]
    assert found(changed(restless, saved=None, oracle_alone=True))["I4"][0].startswith("the report is None")


def test_the_control_is_held_to_its_end_and_to_its_fault_only() -> None:
    def against(case: Evidence) -> list[str]:
        return [violation.number for violation in checker.check(case, PLAIN_REFERENCE, checker.CONTROL)]

    assert plain().duplicates == 1
    assert against(plain()) == []
    assert against(PLAIN_REFERENCE) == []
    assert against(plain(status="None")) == ["I7"]
    assert against(replace(plain(), processes=(replace(FIRST, exit_code=1), SECOND, THIRD))) == ["I9"]


def test_recovery_is_counted_from_the_death_to_the_next_claim() -> None:
    assert CASE.recovery_ms == 250.0  # died 750 ms after the first claim, the second one a second after it
    assert REFERENCE.recovery_ms is None
    assert changed(claims=claims(1)).recovery_ms is None
