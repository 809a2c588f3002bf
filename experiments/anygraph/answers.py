"""Which answer goes to which question of an interrupt, also after a crash.

In the first run of all the n-th question gets the n-th answer. In every other run a question gets the answer that the
same question of the same node got there: nodes that ask side by side do not always ask in the same order.

A question is known by the id of its interrupt, and which answer it got is in a file before the answer is given: a
process that dies with it is followed by one that gives the same answer to the same question. LangGraph alone does not
remember that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that was asked: its node, what was asked, and the number of the answer that it got."""

    node: str
    value: str
    answer: int


class Answers:
    """The answers of one thread. `file` holds what was asked; `before` is what the first run of all was asked."""

    def __init__(self, given: Sequence[Any], file: Path, before: Sequence[Question] = ()) -> None:
        self._given = given
        self._file = file
        self._before = before
        # Opened here, before anything of this process is watched.
        self._written = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def to(self, snapshot: Any) -> dict[str, Any] | None:
        """`{interrupt id: answer}` for all questions that are open, or None when one of them has no answer."""
        known = _read(self._file)
        answers: dict[str, Any] = {}
        for node, interrupt in _open(snapshot):
            if interrupt.id not in known:
                question = self._next(node, _text(interrupt.value), known)
                if question is None:
                    return None
                line = json.dumps([interrupt.id, asdict(question)])
                os.write(self._written, f"{line}\n".encode())
                known[interrupt.id] = question
            answers[interrupt.id] = self._given[known[interrupt.id].answer]
        return answers

    def _next(self, node: str, value: str, known: dict[str, Question]) -> Question | None:
        used = {question.answer for question in known.values()}
        same = [q.answer for q in self._before if (q.node, q.value) == (node, value)]
        of_node = [q.answer for q in self._before if q.node == node]
        left = [number for number in (*same, *of_node, *range(len(self._given))) if number not in used]
        return Question(node=node, value=value, answer=left[0]) if left else None


def asked(file: Path) -> tuple[Question, ...]:
    """What a thread was asked and answered."""
    return tuple(_read(file).values())


def _read(file: Path) -> dict[str, Question]:
    if not file.exists():
        return {}
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {interrupt_id: Question(**question) for interrupt_id, question in lines}


def _open(snapshot: Any) -> list[tuple[str, Any]]:
    return [(task.name, interrupt) for task in snapshot.tasks for interrupt in task.interrupts]


def _text(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, sort_keys=True)


def question(snapshot: Any) -> str:
    """What is asked, for a person."""
    values = [interrupt.value for _, interrupt in _open(snapshot)]
    return json.dumps(values[0] if len(values) == 1 else values, default=str, ensure_ascii=False)
