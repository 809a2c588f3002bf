"""Where a run goes on: one rule over what LangGraph's snapshot and the ledger say.

    checkpoint   tasks     questions    ledger              move
    ─────────────────────────────────────────────────────────────────────────────────────
    none         –         –            –                   Start: invoke with the input
    there        pending   all decided  –                   Resume: {interrupt id: decision}
    there        pending   some open    –                   Wait for a person
    there        pending   none         –                   Continue: invoke(None)
    there        none      none         receipt SUCCEEDED   Finish, outcome published
    there        none      none         –                   Finish, outcome rejected or unverified
    anything else                                           Broken: a bug; the run fails with the snapshot as evidence

`next == ()` is not asked: it is empty also when the writes of a step are durable and its checkpoint is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from langgraph.types import StateSnapshot

Json = dict[str, Any]
Ending = Literal["published", "rejected", "unverified", "done"]  # done: a graph of somebody's, see runs.foreign


@dataclass(frozen=True, kw_only=True)
class Question:
    """A pending interrupt. `action_id` is the action that waits for approval, where it is that kind of question."""

    interrupt_id: str
    action_id: str | None


@dataclass(frozen=True, kw_only=True)
class Position:
    """What the continue rule needs of a snapshot."""

    started: bool
    pending: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    outcome: str | None = None
    delivered_by: str | None = None  # action id of the receipt that the state claims to have
    evidence: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Start:
    """Invoke with the input."""


@dataclass(frozen=True)
class Continue:
    """Invoke with None: LangGraph runs what is pending."""


@dataclass(frozen=True)
class Resume:
    """Answer the pending interrupts. The values are only the wake-up; the ledger holds the decision."""

    answers: Mapping[str, Any]


@dataclass(frozen=True)
class Wait:
    """A person has to decide first: `reason` is "approval", "question", or "unknown_outcome".

    `action_ids` name what about, where it is about actions; `questions` are the ids of those of somebody's graph.
    """

    action_ids: tuple[str, ...]
    reason: str = "approval"
    questions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finish:
    """The graph has ended with this outcome."""

    outcome: Ending


@dataclass(frozen=True)
class Broken:
    """A combination that cannot be. A bug, shown with its evidence."""

    why: str
    evidence: Json


Move = Start | Continue | Resume | Wait | Finish | Broken


def read_position(snapshot: StateSnapshot) -> Position:
    """A snapshot as the rule sees it. Reading only: whatever the values hold, this does not raise."""
    values = cast(Json, snapshot.values or {})
    delivery = values.get("delivery")
    outcome = values.get("outcome")
    return Position(
        started=snapshot.created_at is not None,
        pending=tuple(task.name for task in snapshot.tasks),
        questions=tuple(Question(interrupt_id=i.id, action_id=_action_of(i.value)) for i in snapshot.interrupts),
        outcome=None if outcome is None else str(outcome),
        delivered_by=str(cast(Json, delivery).get("action_id")) if isinstance(delivery, dict) else None,
        evidence={
            "created_at": snapshot.created_at,
            "checkpoint_id": (snapshot.config.get("configurable") or {}).get("checkpoint_id"),
            "next": list(snapshot.next),
            "tasks": [{"name": task.name, "error": str(task.error) if task.error else None} for task in snapshot.tasks],
            "interrupts": [i.id for i in snapshot.interrupts],
            "values": sorted(values),
            "outcome": outcome if isinstance(outcome, str) else None,
        },
    )


def _action_of(value: object) -> str | None:
    """The action that a question is about, from the form `{"approval": {"action_id": …}}` that the graph asks in."""
    approval = cast(Json, value).get("approval") if isinstance(value, dict) else None
    action_id = cast(Json, approval).get("action_id") if isinstance(approval, dict) else None
    return action_id if isinstance(action_id, str) else None


def next_move(position: Position, decisions: Mapping[str, Json], receipts: Mapping[str, Json]) -> Move:
    """The continue rule.

    `decisions` maps action ids to the decision that the ledger holds for them; `receipts` maps the ids of this run's
    SUCCEEDED actions, as the ledger records them, to their receipts.
    """
    if not position.started:
        return Start()
    if position.pending:
        return _with_pending(position, decisions)
    if position.questions:
        return Broken("questions are open, but no task is pending", position.evidence)
    if position.outcome == "published":
        if position.delivered_by in receipts:
            return Finish("published")
        return Broken("the state says published, but the ledger holds no receipt of the delivery", position.evidence)
    if position.outcome == "rejected":
        return Finish("rejected")
    if position.outcome == "unverified":
        return Finish("unverified")
    return Broken(f"the graph has ended with the outcome {position.outcome!r}", position.evidence)


def _with_pending(position: Position, decisions: Mapping[str, Json]) -> Move:
    if not position.questions:
        return Continue()
    answers = {
        question.interrupt_id: decisions[question.action_id]
        for question in position.questions
        if question.action_id is not None and question.action_id in decisions
    }
    if len(answers) < len(position.questions):
        ids = tuple(q.action_id for q in position.questions if q.action_id and q.action_id not in decisions)
        return Wait(ids, "approval" if ids else "question")
    return Resume(answers)
