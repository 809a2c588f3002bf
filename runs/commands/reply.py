"""`onward answer`, and `approve` and `reject` for somebody's own graph: a person's answer to a question of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runs.commands.output import Format, say
from runs.commands.services import Opened, check_may_act, found
from runs.commands.start_graph import json_text
from runs.errors import Conflict, UsageError
from runs.foreign import answering, questions
from runs.registry import FOREIGN

if TYPE_CHECKING:
    from runs.registry import Run
    from runs.settings import StoreKind


def answer(
    run_id: str, value: str, *, question_id: str | None, resume: bool, store: StoreKind | None, output: Format
) -> int:
    """See `onward answer`; `value` is JSON as typed."""
    given = json.loads(json_text("The answer", value))
    with found(run_id, store) as (opened, run):
        check_may_act(opened)
        if run.kind != FOREIGN:
            raise Conflict(f"The run {run.run_id} asks for a decision: onward approve, revise or reject.")
        said, decided = record(opened, run, given, question_id)
        say(said)
        from runs.commands.decide import then

        return then(opened, decided, resume, output)


def record(opened: Opened, run: Run, value: Any, question_id: str | None = None) -> tuple[str, Run]:
    """Record an answer; what was recorded in words, and the run as it stands then. Raises Conflict, UsageError."""
    asked = answering.asked(opened.database, run.run_id)
    known = answering.answers(opened.database, run.run_id)
    return _record(opened, run, answering.choose(run, asked, known, question_id), value)


def decide(opened: Opened, run: Run, word: str, reason: str | None, has_changes: bool) -> tuple[str, Run]:
    """The same for `approve` and `reject`: the answer in the form that the question wants."""
    if word == "revise":
        raise Conflict("A graph of your own cannot be sent back; answer its question with `onward answer`.")
    if has_changes:
        raise UsageError("--set changes a publication; give changed arguments with `onward answer` instead.")
    asked = answering.asked(opened.database, run.run_id)
    question = answering.choose(run, asked, answering.answers(opened.database, run.run_id), None)
    approves = word == "approve"
    value = questions.approval(question) if approves else questions.rejection(question, reason or "")
    return _record(opened, run, question, value)


def _record(opened: Opened, run: Run, question: questions.Question, value: Any) -> tuple[str, Run]:
    from runs import registry

    stands = answering.record(opened.database, run, question, value, opened.settings.principal)
    said = "Recorded" if stands.is_new else "Already answered, and nothing has changed"
    return f"{said}: {stands.words}.", registry.get(opened.database, run.run_id)
