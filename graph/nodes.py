"""The five steps. Each reads the state, does one thing, and returns only what it adds to the state.

A node may run again after a crash. So what it computes is a function of the state and of content-addressed files, and
what it does to the world goes through `context.actions`, whose records say what was intended and what came of it.
"""

from __future__ import annotations

import json
from typing import Any, cast

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from graph import figures, workspace
from graph.asking import ask, language_model
from graph.context import Context
from graph.delivery import approval_request, draft_objects, draft_of, publication, saved_objects
from graph.errors import ActionFailed, OutcomeUnknown
from graph.prompts import MAX_ROWS_SHOWN, plan_messages, read_draft, read_plan, write_messages
from graph.state import Draft, State, Update
from graph.steps import step_of
from onward_ledger.action import Action, Status
from tools.compose import data_notes, key_figures
from tools.draft import check_draft
from tools.report import render

REVISIONS = 2  # drafts that may follow a failed verification, before the run ends as unverified


def plan(state: State, runtime: Runtime[Context]) -> Update:
    """Read the workbook, describe it, and have the model plan from the description."""
    context = runtime.context
    context.recorder.step_started("plan")
    tables, profile = workspace.take_in(context, state["input"])
    asks = state["asks"]
    answer = ask(context, "plan", plan_messages(profile, asks), lambda message: read_plan(message, profile, asks))
    context.recorder.step_finished("plan")
    return {
        "tables": tables,
        "profile": workspace.put_json(context, profile),
        "plan": {**answer, "language_model": language_model(context)},
        "unanswered": answer["unanswered"],
        "cursor": 0,
        "results": [],
        "failures": 0,
        "remarks": [],
    }


def analyze(state: State, runtime: Runtime[Context]) -> Update:
    """Answer the next open question; one question per super-step, so a kill costs one question at most."""
    context, cursor = runtime.context, state["cursor"]
    question = state["plan"]["questions"][cursor]
    step = step_of("analyze", state)
    context.recorder.step_started(step)
    context.recorder.progress(step, question["text"], done=cursor, total=len(state["plan"]["questions"]))
    answer = figures.answer(context, state, question)
    context.recorder.step_finished(step)
    if isinstance(answer, str):
        unanswered = {"ask": question["text"], "reason": answer, "columns": figures.columns_looked_at(question)}
        return {"cursor": cursor + 1, "unanswered": [*state["unanswered"], unanswered]}
    result = {"question_id": question["id"], **workspace.put_json(context, answer)}
    return {"cursor": cursor + 1, "results": [*state["results"], result]}


def write_draft(state: State, runtime: Runtime[Context]) -> Update:
    """Write the report and save it. The draft in the state is the one that the ledger recorded.

    The model is asked inside `build`, which is not called when an older epoch recorded the intent: a model that would
    write something else now cannot change what was intended, and is not paid twice.
    """
    context = runtime.context
    revision = state["draft"]["revision"] + 1 if "draft" in state else 1
    step = step_of("write_draft", state)
    context.recorder.step_started(step)

    def build() -> tuple[str, dict[str, Any]]:
        objects = draft_objects(context, _write(context, state, step))
        return f"drafts/{context.run_id}/{revision}", objects

    action = _settled(context.actions.perform(step, "draft", "draft.save", build))
    context.recorder.step_finished(step)
    return {
        "draft": Draft(
            revision=revision,
            digest=action.params["digest"],
            objects=saved_objects(action),
            action_id=action.action_id,
        )
    }


def _write(context: Context, state: State, step: str) -> dict[str, bytes]:
    """The files of a new draft."""
    profile = workspace.get_json(context, state["profile"])
    results = workspace.results(context, state)
    plan: dict[str, Any] = {**state["plan"], "unanswered": state["unanswered"]}
    remarks = state["remarks"]
    problems = state["verification"]["problems"] if state["failures"] and "verification" in state else []
    context.recorder.progress(step, "Writing the report")
    max_rows = MAX_ROWS_SHOWN if state["plan"]["language_model"] else None
    document = ask(
        context,
        step,
        write_messages(plan, profile, results, remarks, problems, max_rows),
        lambda message: read_draft(message, plan, profile),
    )
    document |= {
        "language_model": state["plan"]["language_model"],
        "key_figures": key_figures(plan, profile, results),
        "data_notes": data_notes(profile, plan["questions"]),
        "unanswered": state["unanswered"],
        "remarks": remarks,
    }
    context.recorder.progress(step, "Drawing charts and pages")
    return render(cast(Any, document), profile, cast(Any, results))


def test(state: State, runtime: Runtime[Context]) -> Update:
    """Compute every figure again by another route, and check that the text says only what was computed."""
    context, draft = runtime.context, draft_of(state)
    step = step_of("test", state)
    context.recorder.step_started(step)
    page = next(o for o in draft["objects"] if o["name"] == "draft.json")
    document = json.loads(context.files.get(page))
    profile, results = workspace.get_json(context, state["profile"]), workspace.results(context, state)
    recomputed, reexecuted, differences = figures.check(context, state, step, results)
    problems = [str(p) for p in check_draft(document, profile, cast(Any, results), state["asks"])] + differences
    failures = state["failures"] + 1 if problems else 0
    update: Update = {
        "failures": failures,
        "verification": {
            "revision": draft["revision"],
            "passed": not problems,
            "recomputed": recomputed,
            "reexecuted": reexecuted,
            "problems": problems,
        },
    }
    if failures > REVISIONS:
        update["outcome"] = "unverified"
    summary = f"{recomputed} recomputed, {reexecuted} re-executed, {len(problems)} problems"
    context.recorder.progress(step, summary)
    context.recorder.step_finished(step)
    return update


def deliver(state: State, runtime: Runtime[Context]) -> Update:
    """Propose the publication, wait for a person's decision, and do what the ledger says was decided.

    The decision is read from the ledger, never from what the graph was resumed with: that value is not durable.
    """
    context = runtime.context
    step = step_of("deliver", state)
    context.recorder.step_started(step)
    action = _proposal(context, state, step)
    if action.decision is None or action.decision.is_half:
        return _wait_for_person(context, action)
    decided = action.decision.decision
    if decided == "revise":
        context.recorder.step_finished(step)
        remark = action.decision.reason or "Please revise."
        return {"decision": "revise", "remarks": [*state["remarks"], remark], "failures": 0}
    if decided != "reject":
        action = _settled(
            context.actions.perform(step, "publish", "report.publish", lambda: publication(state), rev=action.rev)
        )
    if action.status is Status.PREPARED:
        return _wait_for_person(context, action)  # the approval ran out before it was used
    context.recorder.step_finished(step)
    if action.status is Status.WITHDRAWN:
        return {"decision": "reject", "outcome": "rejected"}
    return {
        "decision": "approve",
        "delivery": {"action_id": action.action_id, "receipt": action.receipt or {}},
        "outcome": "published",
    }


def _proposal(context: Context, state: State, step: str) -> Action:
    """The publication as it is proposed now: the first revision, or the one that an edit put in its place."""
    action = context.actions.propose(step, "publish", "report.publish", lambda: publication(state))
    if action.decision is not None and action.decision.successor_action_id is not None:
        return context.actions.live(step, "publish") or action
    return action


def _wait_for_person(context: Context, action: Action) -> Update:
    """Pause. What comes back is only the wake-up: the next super-step reads the ledger, and waits again if need be."""
    interrupt(approval_request(action, context))
    return {"decision": None}


def _settled(action: Action) -> Action:
    """An action that is not FAILED and not UNKNOWN."""
    if action.status is Status.FAILED:
        raise ActionFailed(action)
    if action.status is Status.UNKNOWN:
        raise OutcomeUnknown(action)
    return action
