"""The figures in the JSON are computed from the cases: each one changes when a case does."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from experiments.checker import Violation
from experiments.evidence import Evidence
from experiments.results import Outcome, reached, to_json
from tests.support.evidence import (
    BEGAN,
    CASE,
    DIGEST,
    DRAFT_SAVED,
    DRAFT_UNKNOWN,
    LEDGER_CASE,
    OTHER,
    REFERENCE,
    WORLD,
    an_outcome,
    changed,
    effect,
    plain,
)
from tests.support.evidence_campaign import WRONG, results

# What other programs may rely on.
ASKED = (
    *("boundaries", "killed", "duplicates", "lost", "wrong", "unknown", "control_duplicates"),
    *("mutants", "mutants_caught", "reexecuted_steps", "median_recovery_ms", "seconds", "versions", "seed"),
)
FIGURES = ("cases", "killed", "not_fired", "duplicates", "lost", "wrong", "unknown", "reexecuted_steps")


def figures(*outcomes: Outcome, **changes: Any) -> dict[str, Any]:
    told = to_json(results(outcomes, **changes))
    assert json.loads(json.dumps(told)) == told
    return told


def test_the_figures_of_a_campaign_that_passed() -> None:
    told = figures(an_outcome())
    assert [name for name in ASKED if name not in told] == []
    assert {name: told[name] for name in FIGURES} == dict(zip(FIGURES, (1, 1, 0, 0, 0, 0, 0, 1), strict=True))
    assert (told["boundaries"], told["boundaries_by_group"]) == (12, {"driver": 10, "ledger": 2})
    assert (told["control_cases"], told["control_wrong"], told["control_duplicates"]) == (1, 1, 1)
    assert (told["mutants"], told["mutants_caught"]) == (1, 1)
    assert (told["median_recovery_ms"], told["seconds"], told["seed"]) == (250.0, 1.2, None)
    assert (told["verdict"], told["reasons"], told["store"], told["planted"]) == ("pass", [], "sqlite", None)
    assert (told["digest"], told["versions"]) == (DIGEST, {"python": "3.11.7"})


DOUBLED = changed(effects=(*WORLD.effects, effect("draft.save", entry=3), effect("draft.save", entry=4)))
UNKNOWN = changed(LEDGER_CASE, effects=(), published=(), saved=None, records=(DRAFT_UNKNOWN,))
NEVER = Violation(number="I9", invariant="the fault fired", seen="no")


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (an_outcome(DOUBLED, violations=(WRONG,)), {"duplicates": 2, "wrong": 1}),
        (an_outcome(changed(effects=(), published=(), saved=None), violations=(WRONG,)), {"lost": 2, "wrong": 1}),
        (an_outcome(UNKNOWN), {"unknown": 1, "reexecuted_steps": 1}),
        (an_outcome(invalid=(NEVER,)), {"not_fired": 1, "killed": 1}),
        (an_outcome(REFERENCE), {"killed": 1, "reexecuted_steps": 1}),  # nobody was killed, nothing ran again
    ],
    ids=["duplicates", "lost", "unknown", "not fired", "no fault"],
)
def test_each_case_counts_where_it_belongs(outcome: Outcome, shown: dict[str, int]) -> None:
    told = figures(an_outcome(), outcome)
    clean = dict(zip(FIGURES, (2, 2, 0, 0, 0, 0, 0, 2), strict=True))
    assert {name: told[name] for name in FIGURES} == clean | shown


def test_the_median_of_the_recoveries() -> None:
    def died(ms: int) -> Outcome:
        return an_outcome(replace(CASE, died_at=BEGAN + timedelta(milliseconds=1000 - ms)))

    assert figures(died(100), died(900), died(300))["median_recovery_ms"] == 300.0
    assert figures(an_outcome(REFERENCE))["median_recovery_ms"] is None


def test_a_mutant_that_lives_is_not_counted_as_caught() -> None:
    hunted = results().hunted
    told = figures(hunted=(*hunted, replace(hunted[0], caught=None, tried=5)))
    assert (told["mutants"], told["mutants_caught"]) == (2, 1)
    first, second = told["hunts"]
    assert (first["mutant"], first["tried"], first["caught_by"]["outcome"]) == ("no-replay", 1, "wrong")
    assert (second["tried"], second["caught_by"]) == (5, None)


def test_one_case_says_all_that_was_seen() -> None:
    (case,) = figures(an_outcome(tries=2))["outcomes"]
    processes = case.pop("processes")
    assert [(process["exit_code"], process["executed"]) for process in processes] == [
        (86, ["plan", "analyze", "write_draft"]),
        (0, ["write_draft", "test", "deliver"]),
        (0, []),
    ]
    assert case == {
        "group": "points",
        "case": "write_draft: after effect",
        "outcome": "ok",
        "violations": [],
        "invalid": [],
        "tries": 2,
        "effects": {"write_draft": 1, "deliver": 1},
        "duplicates": 0,
        "lost": 0,
        "receipts": {"new": 2, "reused": 1},
        "epochs": [1, 2],
        "status": "succeeded",
        "digest": DIGEST,
        "same_report": True,
        "checkpoints": 3,
        "reexecuted": 1,
        "recovery_ms": 250.0,
        "services": [],
        "clients": [],
        "seconds": 1.5,
    }
    (other,) = figures(an_outcome(changed(saved=OTHER)))["outcomes"]
    assert (other["same_report"], other["digest"]) == (False, OTHER)


def test_the_control_has_figures_of_its_own() -> None:
    clean = plain(effects=WORLD.effects)
    told = figures(control=(an_outcome(plain()), an_outcome(clean)))
    assert (told["control_cases"], told["control_wrong"], told["control_duplicates"]) == (2, 1, 1)
    assert (told["cases"], told["duplicates"]) == (0, 0)
    assert [case["effects"]["write_draft"] for case in told["control"]] == [2, 1]


def test_what_was_reached_is_counted_by_case() -> None:
    settled = changed(records=(replace(DRAFT_SAVED, was_unknown=True),))  # UNKNOWN at some time is enough
    conflict: Evidence = replace(CASE, refusals=("params-conflict", "params-conflict", "in-progress"))
    stale: Evidence = replace(CASE, refusals=("stale-epoch",))
    told = [an_outcome(case) for case in (CASE, settled, conflict, stale, stale)]
    assert list(reached(tuple(told)).values()) == [1, 1, 2]
