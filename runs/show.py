"""A run as JSON: the one object that `run`, `resume`, `show` and the decisions answer with.

Everything comes from durable state: the run's row, its events, the ledger's records, and the saved draft. Fields:

    run_id, status, reason, message, epoch, version, owner, workflow_version, parent, store, model
    goal           {"input", "asks"}                       what was asked for
    input          {"name", "key", "digest", "size"}
    asks           [text]                                  as in goal
    unanswered     [{"ask", "reason", "columns"}]          known once a draft is saved
    steps          [{"step", "status", "attempts", "epochs", "started_at", "finished_at"}]
                   status: done | running | waiting | interrupted
    verification   {"step", "summary"} | null              what the last finished test found, in words
    report         {"digest", "revision", "title", "html", "markdown", "objects", "published", "resource",
                   "publication"} | null                   the last saved draft; publication is its receipt
    actions        [action] | null                         see `action_view`; null: the ledger cannot be asked now
    approval       {"action_id", "title", "resource", "digest", "request_hash"} | null    what waits for a person
    driver         {"state", "pid", "host", "since", "epoch"} | null    state: alive | hanging | gone
    takeovers      number of take-overs after the first claim
    model_calls    {"started", "finished", "paid_amount_unknown", "input_tokens", "output_tokens", "cost_usd"}
    failures       [{"at", "epoch", "step", "error", "message"}]
    graph          {"questions", "result"} | null           of somebody's own graph, see `graph_view`
    cancel         {"principal", "reason", "requested_at", "stopped_at", "sent", "compensations", "unknown",
                   "withdrawn"} | null                     null: nobody asked; the lists are empty before it has stopped
    deadline_at, budget_usd, created_at, updated_at, finished_at
    next_action    {"text", "commands"}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from runs.events import Event
from runs.next_steps import next_action
from runs.registry import FOREIGN, Run, Status

if TYPE_CHECKING:
    from onward_ledger.action import Action
    from onward_ledger.objects import Objects

Json = dict[str, Any]


def location(objects_url: str, key: str) -> str:
    """Where an object lies: a path of this machine for a local store, else a URL."""
    parts = urlsplit(objects_url)
    if parts.scheme == "file":
        return f"{unquote(parts.path).rstrip('/')}/{key}"
    return f"{objects_url.rstrip('/')}/{key}"


def action_view(action: Action) -> Json:
    """One action: the record's public fields, and the decision that stands."""
    decision = action.decision
    return {
        "action_id": action.action_id,
        "run_id": action.run_id,
        "step": action.step,
        "slot": action.slot,
        "rev": action.rev,
        "kind": action.kind,
        "resource": action.resource,
        "status": str(action.status),
        "epoch": action.epoch,
        "provider_id": action.provider_id,
        "receipt": action.receipt,
        "reason": action.reason,
        "alarm": action.alarm,
        "request_hash": action.request_hash,
        "decision": decision.to_json() if decision is not None else None,
        "created_at": action.created_at.isoformat(),
        "updated_at": action.updated_at.isoformat(),
    }


def run_line(run: Run, *, served: bool = True) -> Json:
    """The few fields of one line of `list`. `served`: whether anybody serves the run's workflow version."""
    return {
        "run_id": run.run_id,
        "status": str(run.status),
        "reason": run.reason,
        "epoch": run.epoch or 0,
        "input": run.input_name,
        "owner": run.owner,
        "store": run.store,
        "driver": run.driver,
        "workflow_version": run.workflow_version,
        "served": served,
        "age_seconds": round((run.now_at - run.created_at).total_seconds(), 1),
        "created_at": run.created_at.isoformat(),
        "updated_at": run.updated_at.isoformat(),
    }


def run_view(run: Run, events: Sequence[Event], recorded: Sequence[Action] | None, objects: Objects | None) -> Json:
    """The whole object; see the module's docstring. Without `objects` the draft's own texts are not read."""
    history = History.of(run, events)
    actions = recorded or ()
    draft = _draft(actions)
    page = _page(draft, objects)
    waiting = _waiting_action(run, actions)
    return {
        "run_id": run.run_id,
        "status": str(run.status),
        "reason": run.reason,
        "message": run.message,
        "epoch": run.epoch or 0,
        "version": run.version,
        "owner": run.owner,
        "workflow_version": run.workflow_version,
        "parent": run.parent,
        "store": run.store,
        "model": run.model,
        "goal": {"input": run.input_name, "asks": list(run.asks)},
        "input": run.input,
        "asks": list(run.asks),
        "unanswered": page.get("unanswered", []),
        "steps": history.steps,
        "graph": history.graph if run.kind == FOREIGN else None,
        "verification": history.verification,
        "report": _report(run, draft, page, actions),
        "actions": None if recorded is None else [action_view(action) for action in recorded],
        "approval": _approval(waiting),
        "driver": _driver(run, history),
        "takeovers": history.takeovers,
        "model_calls": history.model_calls | {"cost_usd": run.spent_micros / 1_000_000},
        "failures": history.failures,
        "cancel": history.cancel,
        "deadline_at": run.deadline_at.isoformat() if run.deadline_at else None,
        "budget_usd": run.budget_micros / 1_000_000 if run.budget_micros is not None else None,
        "created_at": run.created_at.isoformat(),
        "updated_at": run.updated_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "next_action": next_action(
            run,
            waiting,
            [a.action_id for a in actions if a.status == "UNKNOWN"],
            [each for each in history.graph["questions"] if each["answer"] is None],
        ),
    }


@dataclass
class History:
    """What the events tell, read once in their order."""

    steps: list[Json] = field(default_factory=list[Json])
    failures: list[Json] = field(default_factory=list[Json])
    verification: Json | None = None
    graph: Json = field(default_factory=lambda: Json(questions=[], result=None))
    takeovers: int = 0
    claimed_at: str | None = None
    cancel: Json | None = None
    model_calls: Json = field(
        default_factory=lambda: {
            "started": 0,
            "finished": 0,
            "paid_amount_unknown": 0,
            "input_tokens": 0,
            "output_tokens": 0,
        }
    )

    @classmethod
    def of(cls, run: Run, events: Sequence[Event]) -> History:
        """Read a run's events."""
        history = cls()
        for event in events:
            reader = _READERS.get(event.kind)
            if reader is not None:
                reader(history, event)
        for step in history.steps:
            if step["status"] == "running":
                step["status"] = _open_step(run, step)
        calls = history.model_calls
        calls["paid_amount_unknown"] = calls["started"] - calls["finished"]
        return history

    def step(self, name: str) -> Json | None:
        """The entry of a step that has started."""
        return next((step for step in self.steps if step["step"] == name), None)


def _open_step(run: Run, step: Json) -> str:
    """What a step is that began and did not finish."""
    if run.driver == "alive" and step["epochs"][-1] == run.epoch:
        return "running"
    return "waiting" if run.status is Status.WAITING_HUMAN else "interrupted"


def _read_start(history: History, event: Event) -> None:
    at = event.created_at.isoformat()
    step = history.step(event.step or "")
    if step is None:
        step = Json(step=event.step, status="running", attempts=0, epochs=[], started_at=at)
        history.steps.append(step)
    step |= {"status": "running", "attempts": event.data.get("attempt", step["attempts"] + 1), "finished_at": None}
    if event.epoch not in step["epochs"]:
        step["epochs"].append(event.epoch)


def _read_finish(history: History, event: Event) -> None:
    step = history.step(event.step or "")
    if step is not None:
        step |= {"status": "done", "finished_at": event.created_at.isoformat()}


def _read_progress(history: History, event: Event) -> None:
    # The last thing that `test` says is what it found.
    if (event.step or "").partition("#")[0] == "test":
        history.verification = {"step": event.step, "summary": event.data.get("text")}


def _read_asked(history: History, event: Event) -> None:
    """`answer` of each question: {"value", "principal"}, or null while it is open."""
    known = {each["question_id"]: each["answer"] for each in history.graph["questions"]}
    asked = event.data["questions"]
    history.graph["questions"] = [each | {"answer": known.get(each["question_id"])} for each in asked]


def _read_answered(history: History, event: Event) -> None:
    for question in history.graph["questions"]:
        if question["question_id"] == event.data["question_id"]:
            question["answer"] = {"value": event.data["value"], "principal": event.data["principal"]}


def _read_result(history: History, event: Event) -> None:
    """`values` are cut where they are long; the object holds all of them."""
    history.graph["result"] = dict(event.data)


def _read_claim(history: History, event: Event) -> None:
    history.claimed_at = event.created_at.isoformat()
    history.takeovers += 1 if event.data.get("before") else 0


def _read_error(history: History, event: Event) -> None:
    told = {"error": event.data.get("error"), "message": event.data.get("message")}
    at = event.created_at.isoformat()
    history.failures.append({"at": at, "epoch": event.epoch, "step": event.step, **told})


def _read_call_start(history: History, event: Event) -> None:
    history.model_calls["started"] += 1


def _read_call_finish(history: History, event: Event) -> None:
    calls = history.model_calls
    calls["finished"] += 1
    for tokens in ("input_tokens", "output_tokens"):
        calls[tokens] += event.data.get(tokens) or 0


_NOT_STOPPED: Json = {"stopped_at": None, "sent": [], "compensations": [], "unknown": [], "withdrawn": []}


def _read_cancel(history: History, event: Event) -> None:
    asked = {"principal": event.data.get("principal"), "reason": event.data.get("reason")}
    history.cancel = {**asked, "requested_at": event.created_at.isoformat(), **_NOT_STOPPED}


def _read_cancel_report(history: History, event: Event) -> None:
    """The receipts themselves are told with the actions."""
    data, lists = event.data, ("sent", "compensations")
    told = {name: [_without_receipt(each) for each in data[name]] for name in lists}
    told |= {name: list(data[name]) for name in ("unknown", "withdrawn")}
    before = history.cancel or {"principal": data["principal"], "reason": data["reason"], "requested_at": None}
    history.cancel = {**before, "stopped_at": event.created_at.isoformat(), **told}


def _without_receipt(told: Json) -> Json:
    return {name: value for name, value in told.items() if name != "receipt"}


_READERS = {
    "claimed": _read_claim,
    "step_started": _read_start,
    "step_finished": _read_finish,
    "progress": _read_progress,
    "asked": _read_asked,
    "answered": _read_answered,
    "result": _read_result,
    "error": _read_error,
    "cancel_requested": _read_cancel,
    "cancel_report": _read_cancel_report,
    "model_call_started": _read_call_start,
    "model_call_finished": _read_call_finish,
}


def _driver(run: Run, history: History) -> Json | None:
    if run.driver is None:
        return None
    return {
        "state": run.driver,
        "pid": run.pid,
        "host": run.host,
        "since": history.claimed_at,
        "epoch": run.epoch,
    }


def _draft(actions: Sequence[Action]) -> Action | None:
    """The last saved draft."""
    saved = [a for a in actions if a.kind == "draft.save" and a.status == "SUCCEEDED"]
    return max(saved, key=lambda action: action.created_at, default=None)


def _page(draft: Action | None, objects: Objects | None) -> Json:
    """The draft's document, as it was saved; empty where there is none or it cannot be read now."""
    if draft is None or objects is None:
        return {}
    from onward_ledger.errors import ObjectError

    for item in draft.params["objects"]:
        if item["name"] == "draft.json":
            try:
                return json.loads(objects.read_checked(f"{draft.resource}/{item['name']}", item["digest"]))
            except ObjectError:
                return {}
    return {}


def _report(run: Run, draft: Action | None, page: Json, actions: Sequence[Action]) -> Json | None:
    if draft is None:
        return None
    names = ("name", "digest", "size", "media_type")
    objects = [
        {name: item[name] for name in names} | {"key": f"{draft.resource}/{item['name']}"}
        for item in draft.params["objects"]
    ]
    where = {item["name"]: location(run.objects, item["key"]) for item in objects}
    published = [a for a in actions if a.kind == "report.publish" and a.status == "SUCCEEDED"]
    last = published[-1] if published else None
    return {
        "digest": draft.params["digest"],
        "revision": int(draft.resource.rpartition("/")[2]),
        "title": last.params["title"] if last else page.get("title"),
        "html": where.get("report.html"),
        "markdown": where.get("report.md"),
        "objects": objects,
        "published": last is not None,
        "resource": last.resource if last else None,
        "publication": last.receipt if last else None,
    }


def _waiting_action(run: Run, actions: Sequence[Action]) -> Action | None:
    """The proposal that a person has to decide on, while the run waits for it."""
    if run.status is not Status.WAITING_HUMAN:
        return None
    open_ones = [a for a in actions if a.status == "PREPARED" and a.decision is None]
    return open_ones[-1] if open_ones else None


def _approval(action: Action | None) -> Json | None:
    if action is None:
        return None
    return {
        "action_id": action.action_id,
        "kind": action.kind,
        "title": action.params.get("title"),
        "note": action.params.get("note"),
        "resource": action.resource,
        "digest": action.params.get("digest"),
        "request_hash": action.request_hash,
    }
