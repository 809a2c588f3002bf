"""The soak's plan, and what its judge finds wrong: each planted contradiction is told, and a clean world is clean."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from experiments.evidence import Checkpoint
from experiments.fake_api import Effect
from experiments.soaking import judging
from experiments.soaking.faults import WEIGHTS, Struck, plan
from experiments.soaking.results import Results
from experiments.soaking.watching import Life, Sample
from experiments.soaking.world import Action, RunSeen, Standing

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2030, 1, 2, tzinfo=UTC)


def an_effect(action_id: str, number: int = 1) -> Effect:
    return Effect(id=f"{action_id}-{number}", flavour="searchable", marker=action_id, key=None, digest="d", at=0.0)


def a_run(**changed: Any) -> RunSeen:
    """A run as it should be, taken over once."""
    values: dict[str, Any] = {
        "run_id": "11111111-2222-4333-8444-555555555555",
        "status": "succeeded",
        "reason": None,
        "message": None,
        "created_at": NOW,
        "finished_at": NOW + timedelta(seconds=1),
        "claims": [(1, NOW), (2, NOW)],
        "taken": ["queued", "gone"],
        "steps": 5,
        "checkpoints": [Checkpoint(checkpoint_id="1", parent_id=None), Checkpoint(checkpoint_id="2", parent_id="1")],
        "actions": [an_action("a"), an_action("b", step="found")],
        "effects": {"a": [an_effect("a")], "b": [an_effect("b")]},
    }
    return RunSeen(**{**values, **changed})


def an_action(action_id: str, **changed: Any) -> Action:
    values: dict[str, Any] = {
        "action_id": action_id,
        "step": "keyed",
        "kind": "thing.keyed",
        "status": "SUCCEEDED",
        "provider_id": f"{action_id}-1",
        "alarm": None,
    }
    return Action(**{**values, **changed})


def judged(run: RunSeen, settled: set[str] | None = None, strangers: list[Effect] | None = None) -> list[str]:
    """The contradictions that the rows show, without those that need a database."""
    standing = Standing(runs=[run], strangers=strangers or [], was_unknown=0, sizes={})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "_results", lambda *_: [])
        patch.setattr(judging, "_driven_again", lambda *_: [])
        return judging.judge(None, standing, settled or set())  # pyright: ignore[reportArgumentType] - not looked at


def test_a_run_as_it_should_be_is_clean():
    assert judged(a_run()) == []


TWICE = {"a": [an_effect("a"), an_effect("a", 2)], "b": [an_effect("b")]}
NEVER = {"a": [an_effect("a")], "b": []}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"effects": TWICE}, "I1 one effect per intended action: 1 too many"),
        ({"effects": NEVER}, "I1 one effect per intended action: 0 too many, 1 missing"),
        ({"actions": [an_action("a", provider_id="other"), an_action("b")]}, "I3 receipts are true"),
        ({"actions": [an_action("a", status="FAILED"), an_action("b")]}, "I3 a refusal is true"),
        ({"actions": [an_action("a", alarm="twice"), an_action("b")]}, "an alarm at keyed"),
        ({"finished_at": None, "status": "running"}, "I7 the run ends"),
        ({"status": "failed", "reason": "error"}, "I7 the run ends well"),
        ({"went_back": True}, "I6 epochs rise: the run's history"),
        ({"claims": [(2, NOW), (2, NOW)]}, "I6 epochs rise"),
        ({"steps": 6}, "I8 at most one step repeated"),
        ({"checkpoints": [Checkpoint(checkpoint_id=n, parent_id=None) for n in "12"]}, "I5 checkpoints are one chain"),
    ],
)
def test_a_planted_contradiction_is_told(changed, told):
    assert any(told in what for what in judged(a_run(**changed)))


def test_an_effect_without_a_record_is_told():
    assert judged(a_run(), strangers=[an_effect("nobody")]) == [
        "I2 no effect without a record: nobody is in the API's log"
    ]


def test_a_run_whose_effect_a_person_said_did_not_happen_may_fail():
    refused = an_action("b", step="found", status="FAILED", provider_id=None)
    run = a_run(status="failed", reason="error", actions=[an_action("a"), refused], effects=NEVER)
    assert judged(run, settled={"b"}) == []
    assert judged(run) != []


def test_the_same_seed_plans_the_same_kills_of_every_kind():
    first = list(plan(7, 600))
    assert first == list(plan(7, 600))
    assert first != list(plan(8, 600))
    assert {each.kind for each in first} == set(WEIGHTS)
    assert 300 < len(first) < 500
    assert all(0 < each.at < 600 for each in first)


def results(**changed: Any) -> Results:
    struck = [Struck(at=1.0, kind=kind, pid=1, how="SIGKILL") for kind in WEIGHTS]
    values: dict[str, Any] = {
        "seed": 1,
        "minutes": 1.0,
        "workers": 2,
        "interrupted": False,
        "seconds": {"faults": 60.0},
        "standing": Standing(runs=[a_run()], strangers=[], was_unknown=0, sizes={"onward.runs": (8192, 1)}),
        "struck": struck,
        "missed": 0,
        "restarts": 1,
        "settled": [],
        "broken": [],
        "watched": {},
    }
    return Results(**{**values, **changed})


def test_the_verdict():
    assert results().verdict == "pass"
    assert results(broken=["x"]).verdict == "disproved"
    assert results(struck=results().struck[1:]).verdict == "invalid"  # what never fired shows nothing
    unhit = replace(a_run(), claims=[(1, NOW)], taken=["queued"], steps=4)
    assert results(standing=replace(results().standing, runs=[unhit])).verdict == "invalid"


def test_the_bound_is_that_of_clopper_and_pearson():
    many = replace(results().standing, runs=[a_run() for _ in range(300)])
    told = results(standing=many).to_json()
    assert told["wrong_at_most"]["of_those_hit"] == pytest.approx(1 - 0.05 ** (1 / 300), rel=1e-6)
    assert (told["runs_hit"], told["takeovers"], told["duplicates"], told["lost"]) == (300, 300, 0, 0)
    assert told["effects"] == 600


def test_growth_is_measured_behind_the_first_seconds():
    life = Life(role="worker", pid=1, samples=[Sample(at=float(n), rss_kib=1000 + n, files=9) for n in range(136)])
    told = life.to_json()
    assert told["seconds"] == 120.0
    assert told["rss_kib"] == [1017, 1133]
    assert told["files"] == [9, 9]


@pytest.mark.parametrize("arguments", [["--minutes", "0"], ["--runs", "many"], ["--workers", "0"]])
def test_a_command_line_that_makes_no_sense(arguments):
    done = subprocess.run(
        [sys.executable, "experiments/soak.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage: soak.py" in done.stderr
