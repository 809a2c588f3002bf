"""A run as one object: what it says in every state, from values alone."""

import json

import pytest

from onward_ledger.action import Status
from onward_ledger.objects import Objects
from runs.commands.answer import exit_code_of
from runs.next_steps import next_action
from runs.registry import Status as RunStatus
from runs.show import location, run_line, run_view
from tests.support.runs_values import NOW, RUN_ID, a_decision, a_driven_run, a_run, an_action, events_of

PAGE = {"title": "Report on sales", "unanswered": [{"ask": "Why?", "reason": "no column", "columns": ["month"]}]}


def a_draft(objects=None):
    """A saved draft, its document really in the object store where one is given."""
    text = json.dumps(PAGE).encode()
    digest = objects.put_once(f"drafts/{RUN_ID}/1/draft.json", text).digest if objects else "d" * 64
    names = {"draft.json": digest, "report.html": "b" * 64, "report.md": "c" * 64}
    listed = [
        {"name": name, "source": "s", "digest": digest, "size": 9, "media_type": "text/plain"}
        for name, digest in names.items()
    ]
    params = {"digest": "e" * 64, "objects": listed}
    return an_action(
        "write_draft",
        "draft",
        "draft.save",
        f"drafts/{RUN_ID}/1",
        params,
        status=Status.SUCCEEDED,
        receipt={"ok": True},
    )


def a_proposal(**changed):
    params = {"title": "Report on sales", "note": "", "digest": "e" * 64, "objects": []}
    return an_action("deliver", "publish", "report.publish", "reports/sales", params, **changed)


def test_a_new_run_has_everything_still_to_come():
    view = run_view(a_run(asks=["Revenue?"]), events_of(("created", None, {}, None)), [], None)
    assert (view["run_id"], view["status"], view["epoch"]) == (RUN_ID, "queued", 0)
    assert view["goal"] == {"input": "sales.csv", "asks": ["Revenue?"]}
    assert (view["steps"], view["actions"], view["report"], view["driver"]) == ([], [], None, None)
    assert view["next_action"]["commands"] == ["onward resume 11111111"]


def test_steps_are_done_or_running_or_interrupted():
    history = events_of(
        ("claimed", None, {"before": 0, "host": "box", "pid": 1}),
        ("step_started", "plan", {"attempt": 1}),
        ("step_finished", "plan", {}),
        ("step_started", "analyze#1", {"attempt": 1}),
        ("claimed", None, {"before": 1, "host": "box", "pid": 2}, 2),
        ("step_started", "analyze#1", {"attempt": 2}, 2),
    )
    live = run_view(a_driven_run(epoch=2), history, [], None)
    assert [(s["step"], s["status"], s["attempts"], s["epochs"]) for s in live["steps"]] == [
        ("plan", "done", 1, [1]),
        ("analyze#1", "running", 2, [1, 2]),
    ]
    assert live["takeovers"] == 1
    assert live["driver"] == {
        "state": "alive",
        "pid": 4242,
        "host": "box",
        "since": history[4].created_at.isoformat(),
        "epoch": 2,
    }
    dead = run_view(a_driven_run(epoch=2, alive=False), history, [], None)
    assert dead["steps"][1]["status"] == "interrupted"


def test_a_dead_driver_is_resumable_and_a_hanging_one_says_so():
    gone = next_action(a_driven_run(alive=False))
    assert gone["text"].startswith("Driver gone, resumable")
    assert gone["commands"] == ["onward resume 11111111"]
    hanging = next_action(a_driven_run(seconds_left=-1))
    assert "does not answer" in hanging["text"]
    assert "onward show" in next_action(a_driven_run())["commands"][0]


def test_what_waits_for_a_person_is_named_with_the_three_answers():
    run = a_run(status=RunStatus.WAITING_HUMAN, reason="approval", epoch=1)
    view = run_view(run, [], [a_draft(), a_proposal()], None)
    assert view["approval"]["title"] == "Report on sales"
    assert view["approval"]["digest"] == "e" * 64
    assert [command.split()[1] for command in view["next_action"]["commands"]] == ["approve", "revise", "reject"]
    assert view["report"]["published"] is False
    assert view["report"]["html"] == f"/data/objects/drafts/{RUN_ID}/1/report.html"


def test_a_decided_proposal_waits_for_nobody():
    proposal = a_proposal()
    decided = a_proposal(decision=a_decision(proposal, "approve"))
    view = run_view(a_run(status=RunStatus.QUEUED, epoch=1), [], [decided], None)
    assert view["approval"] is None
    assert view["actions"][0]["decision"]["principal"] == "bob"


def test_the_published_report_and_what_it_could_not_answer(tmp_path):
    objects = Objects(tmp_path.as_uri())
    receipt = {"publication_id": "1"}
    published = a_proposal(status=Status.SUCCEEDED, receipt=receipt, provider_id="1")
    run = a_run(status=RunStatus.SUCCEEDED, finished_at=NOW, objects=objects.url, epoch=1)
    view = run_view(run, [], [a_draft(objects), published], objects)
    assert view["report"]["published"] is True
    assert view["report"]["publication"] == receipt
    assert view["report"]["digest"] == "e" * 64
    assert view["unanswered"] == PAGE["unanswered"]
    assert [action["status"] for action in view["actions"]] == ["SUCCEEDED", "SUCCEEDED"]
    json.dumps(view)


def test_a_draft_that_cannot_be_read_hides_nothing_else(tmp_path):
    view = run_view(a_run(), [], [a_draft()], Objects(tmp_path.as_uri()))
    assert view["unanswered"] == []
    assert view["report"]["digest"] == "e" * 64


def test_a_ledger_that_cannot_be_asked_is_not_an_empty_one():
    assert run_view(a_run(), [], None, None)["actions"] is None


def test_model_calls_without_an_end_count_as_paid():
    history = events_of(
        ("model_call_started", "plan", {"call_id": "a", "model": "m"}),
        ("model_call_finished", None, {"call_id": "a", "input_tokens": 5, "output_tokens": 7}),
        ("model_call_started", "plan", {"call_id": "b", "model": "m"}),
    )
    calls = run_view(a_run(spent_micros=1500), history, [], None)["model_calls"]
    assert calls == {
        "started": 2,
        "finished": 1,
        "paid_amount_unknown": 1,
        "input_tokens": 5,
        "output_tokens": 7,
        "cost_usd": 0.0015,
    }


def test_the_verification_is_the_last_test_s_word():
    history = events_of(
        ("progress", "test", {"text": "3 recomputed, 0 re-executed, 1 problems"}),
        ("progress", "write_draft#2", {"text": "Writing the report"}),
        ("progress", "test#2", {"text": "3 recomputed, 0 re-executed, 0 problems"}),
    )
    found = run_view(a_run(), history, [], None)["verification"]
    assert found == {"step": "test#2", "summary": "3 recomputed, 0 re-executed, 0 problems"}


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("succeeded", None, 0),
        ("failed", "error", 1),
        ("failed", "rejected", 1),
        ("failed", "deadline", 7),
        ("failed", "budget", 7),
        ("cancelled", "cancelled", 1),
        ("waiting_human", "approval", 5),
        ("waiting_human", "unknown_outcome", 8),
        ("queued", None, 6),
        ("running", None, 6),
    ],
)
def test_a_state_as_an_exit_code(status, reason, code):
    assert exit_code_of(a_run(status=RunStatus(status), reason=reason)) == code


def test_a_line_of_the_list():
    line = run_line(a_driven_run(alive=False))
    assert (line["run_id"], line["status"], line["driver"], line["age_seconds"]) == (RUN_ID, "running", "gone", 300.0)


def test_where_an_object_lies():
    assert location("file:///a%20b/objects", "k/1") == "/a b/objects/k/1"
    assert location("s3://bucket/prefix/", "k/1") == "s3://bucket/prefix/k/1"
