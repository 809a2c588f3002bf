"""The five steps on real input, with fixed rules and with language models that behave and misbehave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from graph.errors import NoUsableAnswer
from graph.models import ModelNotFound, OfflineAnalyst, load_model
from tests.support.graph_world import Run, World, ledger_service, model_server
from tools.query import QueryServer

CSV = "region,revenue\nNorth,10\nSouth,20.5\nNorth,5\nWest,\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("graph")
    with ledger_service(folder) as (client, objects), QueryServer() as queries:
        yield World(client=client, objects=objects, scratch=folder, queries=queries)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    with model_server(tmp_path_factory.mktemp("model")) as found:
        yield found


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text(CSV)
    return path


@pytest.fixture
def model(server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`model("good")`: a language model with that behaviour, over LangChain's own client."""
    monkeypatch.setenv("OPENAI_BASE_URL", server[0])
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return lambda behaviour: load_model(f"openai:{behaviour}")


def approve(run: Run, decision: str = "approve", **more: Any) -> None:
    """Decide on what waits, and go on."""
    action = next(a for a in run.world.client.actions(run_id=run.run_id) if a.status == "PREPARED")
    run.world.client.decide(action.action_id, decision, request_hash=action.request_hash, **more)
    run.state = run.invoke(Command(resume={"wake": "up"}))


def test_a_run_waits_for_a_person_and_publishes_what_was_approved(world: World, sales: Path) -> None:
    run = world.run(OfflineAnalyst(), sales)
    assert run.state["verification"]["passed"]
    assert "outcome" not in run.state
    assert run.state["__interrupt__"][0].value["approval"]["resource"] == "reports/sales"
    approve(run)
    assert run.state["outcome"] == "published"
    assert run.state["delivery"]["receipt"]["digest"] == run.state["draft"]["digest"]
    actions = world.client.actions(run_id=run.run_id)
    assert [(a.kind, str(a.status)) for a in actions] == [("draft.save", "SUCCEEDED"), ("report.publish", "SUCCEEDED")]


def test_a_wake_up_without_a_decision_waits_again(world: World, sales: Path) -> None:
    run = world.run(OfflineAnalyst(), sales)
    run.state = run.invoke(Command(resume={"decision": "approve"}))  # claims what the ledger does not say
    assert "outcome" not in run.state
    assert run.state["__interrupt__"]
    approve(run)
    assert run.state["outcome"] == "published"


def test_a_rejection_ends_the_run(world: World, sales: Path) -> None:
    run = world.run(OfflineAnalyst(), sales)
    approve(run, "reject", reason="wrong file")
    assert run.state["outcome"] == "rejected"
    assert [str(a.status) for a in world.client.actions(run_id=run.run_id)] == ["SUCCEEDED", "WITHDRAWN"]


def test_a_revision_writes_a_second_draft_with_the_remark(world: World, sales: Path) -> None:
    run = world.run(OfflineAnalyst(), sales)
    first = run.state["draft"]
    approve(run, "revise", reason="Name the source")
    assert run.state["draft"]["revision"] == 2
    assert run.state["draft"]["digest"] != first["digest"]
    assert b"Name the source" in run.draft("report.html")
    approve(run)
    assert run.state["outcome"] == "published"
    kinds = [(a.step, a.kind, str(a.status)) for a in world.client.actions(run_id=run.run_id)]
    assert kinds == [
        ("write_draft", "draft.save", "SUCCEEDED"),
        ("deliver", "report.publish", "WITHDRAWN"),
        ("write_draft#2", "draft.save", "SUCCEEDED"),
        ("deliver#2", "report.publish", "SUCCEEDED"),
    ]


def test_an_edit_publishes_the_edited_title_once(world: World, sales: Path) -> None:
    run = world.run(OfflineAnalyst(), sales)
    approve(run, "edit", changes={"title": "Third quarter"})
    assert run.state["outcome"] == "published"
    assert run.state["delivery"]["receipt"]["title"] == "Third quarter"
    actions = world.client.actions(run_id=run.run_id)
    assert [(a.rev, str(a.status)) for a in actions if a.slot == "publish"] == [(1, "WITHDRAWN"), (2, "SUCCEEDED")]


def test_two_runs_of_the_same_input_have_the_same_report(world: World, sales: Path) -> None:
    first, second = world.run(OfflineAnalyst(), sales), world.run(OfflineAnalyst(), sales)
    assert first.run_id != second.run_id
    assert first.state["draft"]["digest"] == second.state["draft"]["digest"]
    assert first.draft("report.html") == second.draft("report.html")


def test_an_ask_without_an_answer_is_named_with_the_columns_looked_at(world: World, sales: Path) -> None:
    run = world.run(OfflineAnalyst(), sales, "total revenue by region", "why do customers leave?")
    assert [q["text"] for q in run.state["plan"]["questions"]] == ["total revenue by region"]
    assert run.state["unanswered"][0]["ask"] == "why do customers leave?"
    assert "not answerable without a model" in run.state["unanswered"][0]["reason"]
    assert b"why do customers leave?" in run.draft("report.html")


def test_the_report_says_whether_a_language_model_was_used(world: World, sales: Path, model: Any) -> None:
    offline, online = world.run(OfflineAnalyst(), sales), world.run(model("good"), sales)
    assert b"No language model was used" in offline.draft("report.html")
    assert b"No language model was used" not in online.draft("report.html")
    assert b"good" in online.draft("report.html")


def test_a_language_model_plans_and_writes_and_its_calls_are_recorded(world: World, sales: Path, model: Any) -> None:
    run = world.run(model("good"), sales)
    assert run.state["verification"] == {
        "revision": 1,
        "passed": True,
        "recomputed": 1,
        "reexecuted": 1,
        "problems": [],
    }
    started, finished = run.recorder.told("model_call_started"), run.recorder.told("model_call_finished")
    assert [c["step"] for c in started] == ["plan", "write_draft"]
    assert [c["call_id"] for c in started] == [c["call_id"] for c in finished]
    assert [(c["finish_reason"], c["input_tokens"], c["output_tokens"]) for c in finished] == [("stop", 100, 50)] * 2
    assert b"South" in run.draft("report.md")
    assert b"20.5" in run.draft("report.md")


def test_an_answer_cut_off_by_its_length_is_not_used(world: World, sales: Path, model: Any) -> None:
    run = world.run(model("cutoff"), sales)
    reasons = [c["finish_reason"] for c in run.recorder.told("model_call_finished")]
    assert reasons == ["length", "stop", "length", "stop"]
    assert run.state["verification"]["passed"]


def test_a_figure_written_by_hand_is_found_and_corrected(world: World, sales: Path, model: Any) -> None:
    run = world.run(model("digits"), sales)
    assert run.state["draft"]["revision"] == 2
    assert run.state["verification"]["passed"]
    assert b"42 percent" not in run.draft("report.html")


def test_a_model_that_insists_on_a_wrong_figure_ends_unverified_and_keeps_its_last_draft(
    world: World, sales: Path, model: Any
) -> None:
    run = world.run(model("wrong"), sales)
    assert run.state["outcome"] == "unverified"
    assert run.state["draft"]["revision"] == 3
    assert any("42" in problem for problem in run.state["verification"]["problems"])
    assert b"42 percent" in run.draft("report.html")
    assert [a.kind for a in world.client.actions(run_id=run.run_id)] == ["draft.save"] * 3


def test_a_model_without_a_usable_answer_ends_the_step_with_a_sentence(world: World, sales: Path, model: Any) -> None:
    with pytest.raises(NoUsableAnswer, match=r"no usable answer in 3 tries.*not one JSON object"):
        world.run(model("garbage"), sales)


def test_a_draft_that_was_intended_is_not_written_again(world: World, sales: Path, model: Any) -> None:
    """A new epoch after the effect and before the checkpoint: the recorded intent is used, the model is not paid."""
    run = world.run(model("good"), sales)
    calls = len(run.recorder.told("model_call_started"))
    digest = run.state["draft"]["digest"]
    history = [
        s for s in _history(run) if s.next == ("write_draft",)
    ]  # the checkpoint before write_draft: as if its own had not been written
    run.state = _again_from(run, history[0])
    assert run.state["draft"]["digest"] == digest
    assert len(run.recorder.told("model_call_started")) == calls
    assert [r["replayed"] for r in run.recorder.told("receipt") if r["action"].kind == "draft.save"] == [False, True]


def _history(run: Run) -> list[Any]:
    from graph.build import build

    graph = build().compile(checkpointer=run.saver)
    return list(graph.get_state_history({"configurable": {"thread_id": run.run_id}}))


def _again_from(run: Run, snapshot: Any) -> dict[str, Any]:
    """Forget every checkpoint behind this one, then go on."""
    keep = snapshot.config["configurable"]["checkpoint_id"]
    for namespace in run.saver.storage[run.run_id].values():
        for checkpoint_id in [c for c in namespace if c > keep]:
            del namespace[checkpoint_id]
    for key in [k for k in run.saver.writes if k[0] == run.run_id and k[2] >= keep]:
        del run.saver.writes[key]
    return run.invoke(None)


def test_a_missing_provider_package_is_named() -> None:
    with pytest.raises(ModelNotFound, match="langchain-mistralai"):
        load_model("mistralai:large")


@pytest.mark.parametrize("spec", ["nonsense", ":x", "x:"])
def test_a_model_that_is_neither_form_is_refused(spec: str) -> None:
    with pytest.raises(ModelNotFound, match="neither provider:name nor module:object"):
        load_model(spec)


def test_an_object_of_a_module_must_be_a_chat_model() -> None:
    assert isinstance(load_model("graph.models:OfflineAnalyst"), OfflineAnalyst)
    with pytest.raises(ModelNotFound, match="not a LangChain chat model"):
        load_model("json:JSONDecoder")


def test_the_checkpoints_hold_json_values_only(world: World, sales: Path) -> None:
    """No class name in the bytes: msgpack's extension types are how LangGraph's serializer names classes."""
    run = world.run(OfflineAnalyst(), sales)
    for snapshot in _history(run):
        assert json.loads(json.dumps(snapshot.values)) == snapshot.values
