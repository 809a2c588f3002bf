"""What an interrupt of somebody's graph asks a person, and which answers fit.

    value        interrupt(…): whatever JSON value the node is to get
    review       LangChain's human in the loop: `action_requests` with `review_configs`; approve or reject answer it too
    breakpoint   interrupt_before or interrupt_after: the graph stands still until somebody lets it go on

LangGraph has an id for each question, which is the same in every process; a breakpoint is known by its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from runs.errors import Conflict
from runs.foreign.plain import cut, plain

QUESTION = "question"  # the reason for which a run waits

Kind = Literal["value", "review", "breakpoint"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that is open. `value`: what was asked, as JSON, cut where it is long.

    `allowed`: for a review, the decisions that each of the requested actions allows.
    """

    question_id: str
    node: str
    kind: Kind
    value: Any = None
    allowed: tuple[tuple[str, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it stands in the event `asked`, and in what `onward show` answers."""
        return {
            "question_id": self.question_id,
            "node": self.node,
            "kind": self.kind,
            "value": self.value,
            "allowed": [list(each) for each in self.allowed],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Question:
        """The inverse."""
        allowed = tuple(tuple(map(str, each)) for each in data["allowed"])
        return cls(
            question_id=data["question_id"], node=data["node"], kind=data["kind"], value=data["value"], allowed=allowed
        )


def question_of(interrupt_id: str, node: str, value: Any) -> Question:
    """The question of an interrupt."""
    said = plain(value)
    allowed = _allowed(said)
    kind: Kind = "review" if allowed else "value"
    return Question(question_id=interrupt_id, node=node, kind=kind, value=cut(said), allowed=allowed)


def breakpoint_at(checkpoint_id: str, nodes: str) -> Question:
    """The question whether the graph may go on with these nodes."""
    return Question(question_id=f"breakpoint-{checkpoint_id}", node=nodes, kind="breakpoint")


def _allowed(value: Any) -> tuple[tuple[str, ...], ...]:
    """For each requested action the decisions that its configuration allows; () where it is no such question."""
    asked = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    requests, configs = asked.get("action_requests"), asked.get("review_configs")
    if not isinstance(requests, list) or not isinstance(configs, list) or not requests:
        return ()
    by_name = {
        config["action_name"]: tuple(map(str, config["allowed_decisions"]))
        for config in cast(list[Any], configs)
        if isinstance(config, dict) and "action_name" in config and isinstance(config.get("allowed_decisions"), list)
    }
    named = [cast(dict[str, Any], each).get("name") for each in cast(list[Any], requests) if isinstance(each, dict)]
    return tuple(by_name.get(name, ("approve", "edit", "reject")) for name in named)


def approval(question: Question) -> Any:
    """The answer that approves. Raises Conflict where the question has no such answer."""
    if question.kind == "breakpoint":
        return True
    return _decided(question, "approve", {"type": "approve"})


def rejection(question: Question, reason: str) -> Any:
    """The answer that rejects, with a reason for the model. Raises Conflict where the question has no such answer."""
    return _decided(question, "reject", {"type": "reject", "message": reason})


def _decided(question: Question, word: str, decision: dict[str, Any]) -> Any:
    if question.kind != "review":
        what = (
            "a breakpoint, which can only be let go" if question.kind == "breakpoint" else "a question of its own form"
        )
        raise Conflict(f"The node {question.node} asks {what}; answer it with `onward answer RUN_ID JSON`.")
    for number, allowed in enumerate(question.allowed, start=1):
        if word not in allowed:
            raise Conflict(
                f"Action {number} of the question of {question.node} allows only {', '.join(allowed)}; answer it with "
                "`onward answer RUN_ID '{\"decisions\": […]}'`."
            )
    return {"decisions": [decision] * len(question.allowed)}
