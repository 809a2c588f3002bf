"""The judgement on cancelled runs: a clean case breaks no rule, and each rule finds its planted violation."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from experiments.boundaries import Boundary
from experiments.cancelled import judging
from experiments.cancelled.campaign import Control, Judged, Options, Results
from experiments.cancelled.case import Place, Seen
from experiments.cancelled.report import figures
from experiments.evidence import Evidence, World
from experiments.plan import Plan
from experiments.story import Process
from onward_ledger.action import Action, Status
from runs.events import Event
from tests.support.evidence import DIGEST, effect
from tests.support.runs_values import NOW, an_action, events_of

ROOT = Path(__file__).resolve().parents[2]
AT = Boundary(role="main", label="commit")
DRAFT = an_action(
    "write_draft", "draft", "draft.save", "drafts/1", {}, status=Status.SUCCEEDED, receipt={"digest": DIGEST}
)
PUBLISHED = an_action(
    "deliver", "publish", "report.publish", "reports/x", {}, status=Status.SUCCEEDED, receipt={"digest": DIGEST}
)
CLOSED = NOW - timedelta(seconds=1)


def undo_of(action: Action, **changes: Any) -> Action:
    key = action.key.undo
    made = an_action(key.step, key.slot, "draft.retract", "drafts/1", {}, status=Status.SUCCEEDED, receipt={})
    return replace(made, action_id=key.action_id, **changes)


def told(*actions: Action) -> dict[str, Any]:
    return {
        "sent": [{"action_id": a.action_id, "receipt": a.receipt, "status": str(a.status)} for a in actions],
        "compensations": [],
    }


def history(end: str, report: dict[str, Any] | None = None) -> tuple[Event, ...]:
    lines: list[tuple[Any, ...]] = [("status", None, {"to": "cancel_requested"})]
    lines += [("cancel_report", None, report)] if report is not None else []
    return tuple(events_of(*lines, ("status", None, {"to": end})))


def evidence(status: str, *effects: str) -> Evidence:
    world = World(
        status=status,
        effects=tuple(effect(kind, entry=n) for n, kind in enumerate(effects, 1)),
        checkpoints=(),
        saved=DIGEST if "draft.save" in effects else None,
        published=(DIGEST,) if "report.publish" in effects else (),
    )
    processes = (Process(exit_code=0, lines=("EXECUTE plan", "END exit 1")), Process(exit_code=0, lines=("END x",)))
    return Evidence(system="onward", plan=Plan(group="none", name="x"), processes=processes, ended=world, after=world)


def seen(status: str, **changes: Any) -> Seen:
    values: dict[str, Any] = {
        "place": Place(at=AT, way="goes on"),
        "met": True,
        "raced": False,
        "evidence": evidence(status, "draft.save", *(("report.publish",) if status == "succeeded" else ())),
        "actions": (DRAFT,) if status == "cancelled" else (DRAFT, replace(PUBLISHED, updated_at=CLOSED)),
        "history": history(status, told(DRAFT) if status == "cancelled" else None),
        "closed_at": CLOSED,
        "accepted": False,
        "undone": (),
        "seconds": 1.0,
    }
    return Seen(**{**values, **changes})


CANCELLED, SUCCEEDED = seen("cancelled"), seen("succeeded")
UNDONE = replace(CANCELLED, actions=(DRAFT, undo_of(DRAFT)), undone=(DRAFT.key.undo.action_id,))


@pytest.mark.parametrize(("case", "world"), [(CANCELLED, "plain"), (SUCCEEDED, "plain"), (UNDONE, "compensating")])
def test_a_clean_case_breaks_no_rule(case: Seen, world: Any) -> None:
    assert judging.violations(case, world) == ()
    assert judging.invalid(case) is None


IN_FLIGHT = replace(PUBLISHED, status=Status.IN_FLIGHT, receipt=None)
AGAIN = Process(exit_code=0, lines=("EXECUTE deliver", "END exit 0"))
PLANTED: list[tuple[str, Seen]] = [
    ("one end", replace(CANCELLED, history=(*CANCELLED.history, *history("succeeded")))),
    ("one end", replace(CANCELLED, evidence=evidence("cancel_requested", "draft.save"))),
    ("one end", replace(CANCELLED, evidence=evidence("failed", "draft.save"), history=history("failed"))),
    ("published", replace(CANCELLED, evidence=evidence("cancelled", "draft.save", "report.publish"))),
    ("published", replace(SUCCEEDED, evidence=evidence("succeeded", "draft.save"))),
    ("drafts", replace(CANCELLED, evidence=evidence("cancelled", "draft.save", "draft.save"))),
    ("drafts", replace(CANCELLED, evidence=evidence("cancelled"))),
    ("settled", replace(CANCELLED, actions=(DRAFT, IN_FLIGHT))),
    ("too late", replace(SUCCEEDED, actions=(DRAFT, PUBLISHED))),
    ("taken back", replace(SUCCEEDED, undone=("somebody's",))),
    ("closed", replace(CANCELLED, accepted=True)),
    ("closed", replace(CANCELLED, closed_at=None)),
    ("closed", replace(CANCELLED, closed_at=NOW + timedelta(hours=1))),
    ("listed", replace(CANCELLED, history=history("cancelled"))),
    ("listed", replace(CANCELLED, history=history("cancelled", told()))),
    ("listed", replace(CANCELLED, history=history("cancelled", told(replace(DRAFT, receipt={"digest": "other"}))))),
    ("afterwards", replace(CANCELLED, evidence=replace(CANCELLED.evidence, processes=(AGAIN,)))),
    ("afterwards", replace(CANCELLED, evidence=replace(CANCELLED.evidence, after=evidence("cancelled").ended))),
]


@pytest.mark.parametrize(("rule", "case"), PLANTED, ids=[f"{n} {rule}" for n, (rule, _) in enumerate(PLANTED)])
def test_each_rule_finds_its_violation(rule: str, case: Seen) -> None:
    assert rule in {violation.partition(":")[0] for violation in judging.violations(case, "plain")}


@pytest.mark.parametrize(
    "case",
    [
        CANCELLED,  # nothing was taken back
        replace(UNDONE, undone=UNDONE.undone * 2),
        replace(UNDONE, undone=()),
        replace(UNDONE, actions=(DRAFT, undo_of(DRAFT, status=Status.UNKNOWN, receipt=None))),
    ],
)
def test_what_can_be_taken_back_has_to_be_once(case: Seen) -> None:
    (violation,) = judging.violations(case, "compensating")
    assert violation.startswith("taken back: 1 wanted")


def results(*cases: Seen, controls: tuple[Control, ...] = (), **options: Any) -> Results:
    judged = tuple(
        Judged(world="plain", seen=c, violations=judging.violations(c, "plain"), invalid=judging.invalid(c))
        for c in cases
    )
    return Results(
        options=Options(**{"every": 2, **options}),
        recorded={"of a drive": 2},
        asked=len(cases),
        judged=judged,
        controls=controls,
        seconds=1.0,
    )


def test_the_verdict() -> None:
    assert results(CANCELLED, SUCCEEDED).verdict == "pass"
    assert results(CANCELLED, replace(SUCCEEDED, undone=("x",))).verdict == "disproved"
    assert results(CANCELLED, replace(SUCCEEDED, met=False)).verdict == "invalid"
    assert results().verdict == "invalid"
    passed = Control(name="no fence", cases=3, noticed=None)
    assert results(CANCELLED, controls=(passed,)).verdict == "invalid"
    whole = results(CANCELLED, SUCCEEDED, every=1)
    assert "never reached: a race for a lock" in whole.doubts and whole.verdict == "invalid"


def test_the_figures_name_every_case_and_version() -> None:
    shown = figures(results(CANCELLED, replace(SUCCEEDED, undone=("x",))))
    assert (shown["verdict"], len(shown["cases"]), len(shown["contradictions"])) == ("disproved", 2, 1)
    (row,) = shown["rows"]
    assert (row["cancels"], row["cancelled"], row["succeeded"], row["wrong"]) == (2, 1, 1, 1)
    assert set(shown["versions"]) >= {"python", "langgraph", "onward-ledger"}


def test_help_teaches_and_a_wrong_option_ends_with_2() -> None:
    command = [sys.executable, "experiments/cancels.py"]
    shown = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "cut off         the row alone" in shown.stdout and "exit 10" in shown.stdout
    wrong = subprocess.run([*command, "--way", "gently"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
