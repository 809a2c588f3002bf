"""What would bring a run on: one sentence, and the commands for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runs.registry import FOREIGN, Run, Status

if TYPE_CHECKING:
    from onward_ledger.action import Action

Json = dict[str, Any]


def next_action(
    run: Run, waiting: Action | None = None, unknown: Sequence[str] = (), questions: Sequence[Json] = ()
) -> Json:
    """What would bring the run on, in words and as commands."""
    short = run.run_id[:8]
    resume = [f"onward resume {short}"]
    if run.status is Status.CANCEL_REQUESTED:
        return _stopping(run, short)
    if run.driver == "alive":
        return _next(f"Nothing to do: process {run.pid} on {run.host} drives it.", [f"onward show {short}"])
    if run.driver == "gone":
        return _next("Driver gone, resumable: nobody drives it, and another process can go on at once.", resume)
    if run.driver == "hanging":
        return _next(f"Its driver, process {run.pid} on {run.host}, does not answer. Take over.", resume)
    if run.status is Status.WAITING_HUMAN:
        if run.reason == "unknown_outcome":
            return _unknown(unknown, short)
        return _unanswered(questions, short) if questions else _undecided(waiting, short)
    if run.status is Status.QUEUED:
        return _next("Nobody drives it. Go on.", resume)
    if run.status is Status.CANCELLED and unknown:
        return _unknown_for_ever(unknown)
    if run.status is Status.SUCCEEDED:
        return _next("Nothing: the graph is at its end." if run.kind == FOREIGN else _PUBLISHED, [])
    return _next("Nothing: the run has ended. Start a new one with `onward run`.", [])


def _stopping(run: Run, short: str) -> Json:
    if run.driver == "alive":
        text = f"Stopping: process {run.pid} on {run.host} ends what it does."
        return _next(text, [f"onward cancel {short} --wait"])
    return _next("To be cancelled, and nobody drives it: bring it to its end.", [f"onward cancel {short}"])


def _next(text: str, commands: Sequence[str]) -> Json:
    return {"text": text, "commands": list(commands)}


def _unknown(actions: Sequence[str], short: str) -> Json:
    words = [
        command
        for action_id in actions
        for command in (
            f"onward ledger resolve {action_id} --reason TEXT --receipt JSON",
            f"onward ledger resolve {action_id} --reason TEXT --failed",
        )
    ]
    text = "Find out whether this effect happened, and say so (with what proves it, or --failed); then go on."
    return _next(text, [*words, f"onward resume {short}"])


def _unknown_for_ever(actions: Sequence[str]) -> Json:
    text = "The run is cancelled. Find out whether this effect happened, and say so, so that the record is whole."
    return _next(text, [f"onward ledger resolve {action_id} --reason TEXT" for action_id in actions])


_PUBLISHED = "Nothing: the report is published."


def _unanswered(questions: Sequence[Json], short: str) -> Json:
    """What answers the questions that are open."""
    words: list[str] = []
    for question in questions:
        which = f" --interrupt {question['question_id']}" if len(questions) > 1 else ""
        if not which and question["kind"] in ("review", "breakpoint"):
            words += [f"onward approve {short}"]
            words += [f"onward reject {short} --reason TEXT"] if question["kind"] == "review" else []
        words.append(f"onward answer {short} JSON{which}")
    nodes = ", ".join(question["node"] for question in questions)
    return _next(f"A person has to answer what {nodes} asks.", words)


def _undecided(waiting: Action | None, short: str) -> Json:
    title = f" the publication of {waiting.params.get('title')!r}" if waiting is not None else ""
    decisions = [
        f"onward approve {short}",
        f"onward revise {short} --reason TEXT",
        f"onward reject {short} --reason TEXT",
    ]
    return _next(f"A person has to decide on{title or ' it'}.", decisions)
