"""Where somebody's graph goes on: one rule over what LangGraph's snapshot says and what people have answered.

    checkpoint   tasks     questions       move
    ─────────────────────────────────────────────────────────────────────────
    none         –         –               Start: invoke with the input
    there        pending   all answered    Resume: {question id: answer}; at a breakpoint Continue
    there        pending   some open       Wait for a person
    there        pending   none            Continue: invoke(None)
    there        none      –               Finish

Our own graph's rule is `runs.next_move`: it also asks for the receipt of what was delivered, which only it has.

A function that chooses the next node can raise behind its node's result. LangGraph takes that node for done when the
thread is resumed, and the thread for finished (langgraph#8834). That is seen here, and raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.types import All, PregelTask, StateSnapshot

from runs.foreign.errors import GraphError
from runs.foreign.questions import QUESTION, Question, breakpoint_at, question_of
from runs.next_move import Continue, Finish, Move, Resume, Start, Wait


@dataclass(frozen=True, kw_only=True)
class Position:
    """What the rule needs of a snapshot. `skipped`: the node behind whose result the choice of the next one
    raised, in words."""

    started: bool
    pending: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    skipped: str | None = None


def read_position(snapshot: StateSnapshot, *, stops_before: All | list[str], stops_behind: tuple[str, ...]) -> Position:
    """A snapshot as the rule sees it.

    `stops_before`: the nodes before which the graph has a breakpoint. `stops_behind`: nodes that have just ended, and
    have a breakpoint behind them.
    """
    if snapshot.created_at is None:
        return Position(started=False)
    asked = tuple(question_of(each.id, task.name, each.value) for task in snapshot.tasks for each in task.interrupts)
    before = [name for name in snapshot.next if stops_before == "*" or name in stops_before]
    if not asked and snapshot.next and (before or stops_behind):
        nodes = ", ".join(dict.fromkeys(before or snapshot.next))
        asked = (breakpoint_at((snapshot.config.get("configurable") or {})["checkpoint_id"], nodes),)
    skipped = next((f"{t.name} failed behind its result ({t.error})" for t in snapshot.tasks if _is_skipped(t)), None)
    pending = tuple(task.name for task in snapshot.tasks)
    return Position(started=True, pending=pending, questions=asked, skipped=skipped)


def _is_skipped(task: PregelTask) -> bool:
    return bool(task.error) and task.result is not None


def next_move(position: Position, answers: Mapping[str, Any]) -> Move:
    """The continue rule. `answers`: by question id. Raises GraphError where going on would skip what follows a node."""
    if not position.started:
        return Start()
    if position.skipped is not None:
        raise GraphError(
            f"The choice of what follows {position.skipped}, and LangGraph would go on as if "
            "nothing followed. Start a new run, or choose in a node of its own, which can be tried again."
        )
    if not position.pending:
        return Finish("done")
    open_ones = tuple(each.question_id for each in position.questions if each.question_id not in answers)
    if open_ones:
        return Wait((), QUESTION, open_ones)
    given = {q.question_id: answers[q.question_id] for q in position.questions if q.kind != "breakpoint"}
    return Resume(given) if given else Continue()
