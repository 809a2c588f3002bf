"""A person's answer to a question of somebody's graph. The first one stands, and queues the run when none is left open.

The answer and the run's way back to the queue are one commit. A driver that comes to wait meanwhile looks once more
behind its own commit, so nothing is lost between the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from onward_ledger.database import Database, Transaction, statement
from runs import events, registry
from runs.errors import Conflict, UsageError
from runs.foreign.plain import cut
from runs.foreign.questions import QUESTION, Question
from runs.registry import Run, Status


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer that stands. `is_new`: it has just been recorded."""

    question_id: str
    value: Any
    principal: str
    answered_at: datetime
    is_new: bool = False

    @property
    def words(self) -> str:
        """For people: what was answered, by whom, when."""
        at = f"{self.answered_at:%Y-%m-%d %H:%M:%S} UTC"
        return f"{json.dumps(self.value, ensure_ascii=False)} by {self.principal} at {at}"


def asked(database: Database, run_id: str) -> list[Question]:
    """What the run's graph asked when it last stood still, answered or not."""
    rows = database.read("last_event", run_id=run_id, kind="asked")
    return [Question.from_json(each) for each in rows[0]["data"]["questions"]] if rows else []


def answers(database: Database, run_id: str) -> dict[str, Answer]:
    """The answers that stand, by question id."""
    return {row["interrupt_id"]: _answer(row) for row in database.read("answers", run_id=run_id)}


def choose(run: Run, questions: list[Question], known: dict[str, Answer], question_id: str | None) -> Question:
    """The question that is meant: the one named, by its id or a unique beginning; else the only one that is open.

    Without a name and with nothing open, the only one there was: whoever answers it again is told what stands.
    Raises Conflict when nothing was asked, and UsageError when it is not clear which is meant.
    """
    if not questions:
        raise Conflict(f"The run {run.run_id} is {run.status}, and its graph has not asked anything.")
    if question_id is not None:
        found = [each for each in questions if each.question_id.startswith(question_id)]
        what = f"begins with {question_id}"
    else:
        found = [each for each in questions if each.question_id not in known]
        found = found or (questions if len(questions) == 1 else [])
        what = "is open" if len(found) != 1 else ""
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{each.question_id} ({each.node})" for each in found or questions)
    count = "several questions" if found else "no question"
    raise UsageError(f"There is {count} of which the id {what}; name one with --interrupt: {ids}.")


def record(database: Database, run: Run, question: Question, value: Any, principal: str) -> Answer:
    """Record the answer, and queue the run when it waits for nothing more. Raises Conflict when another one stands."""
    with database.transaction() as tx:
        tx.send("lock_run", run_id=run.run_id)
        inserted = tx.run(
            "insert_answer",
            run_id=run.run_id,
            interrupt_id=question.question_id,
            value=json.dumps(value, ensure_ascii=False),
            principal=principal,
        )
        if inserted:
            told = {"question_id": question.question_id, "value": cut(value), "principal": principal}
            events.send(tx, run.run_id, "answered", told)
        rows = tx.all("answers", run_id=run.run_id)
        _queue(tx, run.run_id, {row["interrupt_id"] for row in rows})
    standing = next(_answer(row) for row in rows if row["interrupt_id"] == question.question_id)
    if standing.value != value:
        raise Conflict(f"Another answer stands: {standing.words}. The first one counts; nothing has changed.")
    return replace(standing, is_new=bool(inserted))


def wake_if_answered(database: Database, run: Run) -> Run:
    """Queue a waiting run if its questions are answered; the run as it stands then."""
    with database.transaction() as tx:
        tx.send("lock_run", run_id=run.run_id)
        _queue(tx, run.run_id, {row["interrupt_id"] for row in tx.all("answers", run_id=run.run_id)})
    return registry.get(database, run.run_id)


def _queue(tx: Transaction, run_id: str, answered: set[str]) -> None:
    """waiting_human → queued, if every question that the run waits with has its answer."""
    now, last = tx.at_once(statement("run", run_id=run_id), statement("last_event", run_id=run_id, kind="asked"))
    assert now.row is not None
    run = Run.from_row(now.row)
    asked_last = last.row["data"]["questions"] if last.row is not None else []
    waits = run.status is Status.WAITING_HUMAN and run.reason == QUESTION
    if waits and {each["question_id"] for each in asked_last} <= answered:
        registry.move(tx, run, "decide")


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(
        question_id=row["interrupt_id"], value=row["value"], principal=row["principal"], answered_at=row["created_at"]
    )
