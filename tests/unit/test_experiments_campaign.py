"""The verdict: one contradiction disproves; a campaign that could have seen nothing is invalid, and never passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.campaign import RUNS, Options, Recorded, Task, _Campaign, _wanted, conclude, judge
from experiments.evidence import Evidence
from experiments.mutants import MUTANTS
from experiments.plan import GROUPS, Plan
from experiments.progress import Progress
from experiments.recordings import Recording
from experiments.results import Hunted, Outcome
from experiments.story import Process
from tests.support.evidence import (
    CASE,
    DRAFT_UNKNOWN,
    FIRST,
    LEDGER_CASE,
    PLAIN_REFERENCE,
    POINTS,
    REFERENCE,
    SECOND,
    THIRD,
    WORLD,
    changed,
    plain,
)
from tests.support.evidence_campaign import CAUGHT

NOTHING = Recording.of(())
RECORDED = Recorded(
    reference=REFERENCE,
    control_reference=PLAIN_REFERENCE,
    driver=NOTHING,
    order=NOTHING,
    ledger=NOTHING,
    plain_provider=NOTHING,
    control=NOTHING,
)
REACHED = replace(
    changed(
        LEDGER_CASE, records=(replace(DRAFT_UNKNOWN, status="SUCCEEDED", receipt_digest="d" * 64), WORLD.records[1])
    ),
    refusals=("params-conflict", "stale-epoch"),
)


def campaign(*cases: Evidence, recorded: Recorded = RECORDED, caught: Outcome | None = CAUGHT) -> _Campaign:
    """These cases, judged, and one mutant."""
    told = _Campaign(recorded, Progress(len(cases), lambda line: None), planned=len(cases))
    for number, case in enumerate(cases):
        task = Task(plan=replace(case.plan, name=f"{case.plan.name} {number}"))
        told.outcomes[task] = judge(case, recorded, 1)
    told.hunted.append(Hunted(mutant=MUTANTS["no-replay"], caught=caught, tried=3))
    return told


def verdict(*cases: Evidence, recorded: Recorded = RECORDED, caught: Outcome | None = CAUGHT) -> tuple[str, list[str]]:
    return conclude(campaign(*cases, recorded=recorded, caught=caught), Options())


WHOLE = (CASE, REACHED, plain())


def test_a_whole_campaign_passes() -> None:
    assert verdict(*WHOLE) == ("pass", [])


def test_a_contradiction_disproves_also_where_another_case_proves_nothing() -> None:
    wrong = changed(status="failed")
    quiet = replace(CASE, processes=(replace(FIRST, exit_code=0, lines=FIRST.lines[:-1]), SECOND, THIRD))
    said, reasons = verdict(quiet, wrong, *WHOLE)
    assert said == "disproved"
    assert reasons == [
        "points, write_draft: after effect: I7 the run ends: the run is failed, not succeeded; nobody says why",
        "points, write_draft: after effect: I9 the fault fired: process 1 ended with 0 and crash None",
    ]


def test_a_fault_that_did_not_fire_proves_and_contradicts_nothing() -> None:
    quiet = replace(changed(status="failed"), processes=(replace(FIRST, exit_code=0), SECOND, THIRD))
    outcome = judge(quiet, RECORDED, 3)
    assert (outcome.word, outcome.violations, outcome.tries) == ("invalid", (), 3)
    assert verdict(quiet, *WHOLE)[0] == "invalid"


def test_a_control_that_repeats_nothing_proves_nothing() -> None:
    clean = plain(effects=WORLD.effects)
    assert verdict(CASE, REACHED, clean) == ("invalid", ["the control shows no duplicate at any boundary"])
    assert verdict(CASE, REACHED)[0] == "invalid"  # no control at all
    assert verdict(CASE, REACHED, clean, plain())[0] == "pass"  # one place is enough


def test_a_control_that_does_not_end_proves_nothing() -> None:
    said, reasons = verdict(*WHOLE, plain(status="None"))
    assert said == "invalid"
    assert reasons == [
        "control, write_draft: after effect: I7 the control ends: the run is None, not published; nobody says why"
    ]


def test_a_mutant_that_survives_makes_the_checker_worth_nothing() -> None:
    assert verdict(*WHOLE, caught=None) == ("invalid", ["the mutant no-replay survived 3 cases"])


@pytest.mark.parametrize(
    ("case", "never"),
    [
        (changed(REACHED, records=WORLD.records), "an outcome was UNKNOWN"),
        (replace(REACHED, refusals=("stale-epoch",)), "other parameters were refused"),
        (replace(REACHED, refusals=("params-conflict",)), "a stale epoch was refused"),
    ],
)
def test_what_must_happen_sometimes_and_never_did_makes_it_invalid(case: Evidence, never: str) -> None:
    assert verdict(CASE, case, plain()) == ("invalid", [f"it never happened that {never}"])


def test_a_run_without_a_fault_is_held_to_the_invariants_too() -> None:
    broken = replace(RECORDED, reference=changed(REFERENCE, decisions=()))
    said, reasons = conclude(campaign(recorded=broken), Options(only="x"))
    assert (said, reasons[0]) == (
        "invalid",
        "without any fault: I11 the ledger decides: it was published, and the decisions are []",
    )
    broken = replace(RECORDED, control_reference=changed(PLAIN_REFERENCE, status="None"))
    assert conclude(campaign(CASE, recorded=broken), Options(only="x"))[0] == "invalid"


def test_no_case_is_no_evidence() -> None:
    assert conclude(campaign(), Options(only="nothing is called so")) == ("invalid", ["no case was run"])


def test_a_campaign_that_time_cut_short_is_no_pass() -> None:
    cut = campaign(*WHOLE)
    cut.planned = 100
    assert conclude(cut, Options(minutes=2)) == ("invalid", ["only 3 of 100 cases were run in the time given"])
    assert conclude(cut, Options(minutes=2, random=100)) == ("pass", [])  # a sample of random cases is one too


def test_a_part_of_the_campaign_is_not_asked_for_control_and_mutants() -> None:
    assert conclude(campaign(CASE, caught=None), Options(only="points")) == ("pass", [])


def test_an_outcome_in_one_word() -> None:
    nothing = {"effects": (), "published": (), "saved": None, "records": (DRAFT_UNKNOWN,)}
    waiting = changed(LEDGER_CASE, status="waiting_human", reason="unknown_outcome", **nothing)
    words = [judge(case, RECORDED, 1).word for case in (CASE, changed(status="failed"), waiting)]
    assert words == ["ok", "wrong", "unknown"]


def test_only_takes_a_group_or_a_part_of_a_name() -> None:
    def wanted(only: str | None) -> bool:
        return _wanted(POINTS, only)

    assert wanted(None) and wanted("points") and wanted("after effect")
    assert not wanted("driver") and not wanted("no such case")
    # the name of a group is no part of a name: "ledger" asks for that group alone
    assert not _wanted(Plan(group="driver", name="before send PUT to the ledger"), "ledger")


def test_every_group_has_a_title_and_a_way_to_be_run() -> None:
    assert set(RUNS) - {"control"} == set(GROUPS)


def test_a_process_that_hangs_is_no_evidence() -> None:
    stuck = replace(CASE, processes=(FIRST, Process(exit_code=None, lines=SECOND.lines), THIRD))
    assert judge(stuck, RECORDED, 1).word == "invalid"
