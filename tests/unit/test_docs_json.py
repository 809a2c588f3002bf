"""docs/json.md names every field that `-o json` writes, and no other: whole objects are made and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from experiments import demo
from experiments.results import to_json
from graph.migrations import Migrated
from graph.versions import VERSIONS
from onward_ledger.action import Decision, Status
from onward_ledger.values import Event as LedgerEvent
from runs import retention
from runs.commands import migrate, prune
from runs.doctor import Check
from runs.migrate import Migration
from runs.registry import Status as RunStatus
from runs.show import action_view, run_line, run_view
from runs.thinning import Thinned, Thinning
from tests.support.evidence import CASE, FIRST, REFERENCE, an_outcome, plain
from tests.support.evidence_campaign import results
from tests.support.markdown import codes, document
from tests.support.runs_values import NOW, RUN_ID, a_decision, a_driven_run, a_run, an_action, events_of

DOC = document("docs/json.md")

# Objects whose members are somebody else's: a receipt is the provider's, params are the kind's.
FREE = {"receipt", "params", "report.publication", "events[].detail", "data"}
# Figures by name; and cases and processes that hold what others hold, which are documented by those.
FREE |= {"versions", "boundaries_by_group", "reached", "outcomes[].effects", "outcomes[].receipts"}
LIKE_OTHERS = {"control[]", "hunts[].caught_by", "outcomes[].services[]", "outcomes[].clients[]"}
FREE |= LIKE_OTHERS


def documented(section: str) -> set[str]:
    """The fields of the tables `field | what it is` of a section."""
    text = DOC.text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [row for header, rows in type(DOC)(DOC.path, text).tables() if header[0] == "field" for row in rows]
    assert rows, section
    return {name for row in rows for name in codes(row[0])}


def paths(value: Any, path: str = "") -> Iterator[str]:
    """`steps[].step` and the like; an empty list or object, a scalar and a list of scalars are leaves."""
    if isinstance(value, dict) and value and path not in FREE:
        for name, member in value.items():
            yield from paths(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from paths(item, f"{path}[]")
    else:
        yield path


def fields_of(*objects: Any) -> set[str]:
    """What these objects of one kind hold; `x` alone is left out where one of them shows what is in it."""
    found = {path for value in objects for path in paths(value)}
    return {path for path in found if not any(other.startswith((f"{path}.", f"{path}[]")) for other in found)}


def a_draft() -> Any:
    listed = [{"name": "report.md", "source": "s", "digest": "b" * 64, "size": 9, "media_type": "text/markdown"}]
    params = {"digest": "e" * 64, "objects": listed}
    return an_action(
        "write_draft", "draft", "draft.save", f"drafts/{RUN_ID}/1", params, status=Status.SUCCEEDED, receipt={"a": 1}
    )


def a_proposal(**changed: Any) -> Any:
    params = {"title": "Sales", "note": "", "digest": "e" * 64, "objects": []}
    return an_action("deliver", "publish", "report.publish", "reports/sales", params, **changed)


TOLD = {"action_id": "a", "step": "s", "kind": "k", "resource": "r", "status": "SUCCEEDED", "provider_id": "p"}
REPORT = {"principal": "anna", "reason": None, "closed_at": None, "unknown": [], "withdrawn": []}
REPORT |= {
    "sent": [{**TOLD, "receipt": {}, "not_taken_back": None}],
    "compensations": [{**TOLD, "receipt": {}, "of": "a"}],
}

HISTORY = events_of(
    ("cancel_requested", None, {"principal": "anna", "reason": None}),
    ("cancel_report", None, REPORT),
    ("claimed", None, {"before": 0, "host": "box", "pid": 1}),
    ("step_started", "test", {"attempt": 1}),
    ("progress", "test", {"text": "1 recomputed"}),
    ("error", "test", {"error": "X", "message": "x"}),
    ("step_finished", "test", {}),
)


def test_a_run():
    published = a_proposal(status=Status.SUCCEEDED, receipt={"publication_id": 1})
    unanswered = {"ask": "Why?", "reason": "no column", "columns": ["month"]}
    question = {"question_id": "q", "node": "ask", "kind": "value", "value": 1, "allowed": []}
    foreign = events_of(
        ("asked", None, {"questions": [question]}),
        ("answered", None, {"question_id": "q", "value": 2, "principal": "anna"}),
        ("result", None, {"values": 3, "object": "a reference"}),
    )
    views = [
        run_view(a_run(kind="graph"), foreign, [], None),
        run_view(a_driven_run(), HISTORY, [a_draft(), published], None),
        run_view(a_run(status=RunStatus.WAITING_HUMAN, reason="approval"), HISTORY, [a_draft(), a_proposal()], None),
        {"unanswered": [unanswered]},  # read from the saved draft, which is not at hand here
    ]
    views = [{**view, "actions": []} for view in views]  # documented by themselves
    assert fields_of(*views) == documented("The run")


def test_events():
    assert fields_of(HISTORY[3].to_json()) == documented("Events")


def test_a_list_of_runs():
    assert fields_of({"runs": [run_line(a_driven_run())]}) == documented("Lists of runs")


def test_a_migration():
    run = a_run(status=RunStatus.WAITING_HUMAN, reason="approval")
    migrated = Migrated(values={"a": 2}, as_node="test")
    migration = Migration(run=run, target=VERSIONS["1"], head="h", before={"a": 1}, migrated=migrated, next=("plan",))
    view = migrate.view_of(migration, "deliver") | {"applied": False}
    assert fields_of(view) == documented("A migration")


def test_actions():
    action = a_proposal(receipt={"a": 1}, status=Status.SUCCEEDED)
    action = a_proposal(decision=a_decision(action, "approve"))
    line = dict.fromkeys((field.name for field in fields(LedgerEvent)), None)
    view = action_view(action) | {"params": action.params, "events": [line]}
    assert fields_of(view) == documented("Actions")
    assert {f"decision.{field.name}" for field in fields(Decision)} <= documented("Actions")


def test_doctor():
    check = Check(name="disk", verdict="ok", text="9 GB free")
    assert fields_of({"ok": True, "checks": [check.to_json()]}) == documented("Doctor")


def test_prune():
    amount = retention.Amount(runs=1, checkpoints=2, events=3, objects=4, bytes=5)
    gone = retention.Gone(run_id=RUN_ID, status="succeeded", finished_at=NOW, amount=amount)
    kept = retention.Kept(run_id=RUN_ID, reason="unknown_outcome", ids=("a",))
    pruned = prune.Pruned(
        store="postgres",
        removal=retention.Removal(gone=(gone,), kept=(kept,)),
        thinning=Thinning(thinned=(Thinned(run_id=RUN_ID, status="waiting_human", checkpoints=2),)),
        leftovers=retention.Leftovers(),
    )
    told = prune.told([pruned], applied=True, age=timedelta(days=30), idle=timedelta(days=7))
    assert fields_of(told) == documented("Prune")
    assert (told["older_than_seconds"], told["checkpoints_seconds"]) == (30 * 86400, 7 * 86400)
    assert set(prune.WHY) == set(codes(DOC.text.partition("stays: ")[2].partition(" |")[0]))


def test_experiments():
    showing = demo.Showing(store="sqlite", plain=plain(), onward=REFERENCE, problems=(), seconds=1.0)
    case = replace(CASE, services=(FIRST,), clients=(FIRST,))
    told = to_json(results((an_outcome(case),)))
    assert fields_of(demo.to_json(showing)) | fields_of(told) == documented("Experiments")
    (outcome,) = told["outcomes"]
    for other in (told["control"][0], told["hunts"][0]["caught_by"]):
        assert other.keys() == outcome.keys()
    for other in (*outcome["services"], *outcome["clients"]):
        assert other.keys() == outcome["processes"][0].keys()


@pytest.mark.parametrize("section", ["The run", "Events", "Lists of runs", "Actions", "Doctor", "Experiments"])
def test_a_field_is_named_once(section):
    text = DOC.text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [row for header, rows in type(DOC)(DOC.path, text).tables() if header[0] == "field" for row in rows]
    named = [name for row in rows for name in codes(row[0])]
    twice = {name for name in named if named.count(name) > 1}
    assert twice == ({"store", "seconds"} if section == "Experiments" else set())  # both commands there have these
