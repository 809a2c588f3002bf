"""Which answer goes to which question of an interrupt, also after a crash.

The n-th question of a thread gets the n-th answer. A question is known by the id of its interrupt, and which answer
it got is in a file before the answer is given: a process that dies with it is followed by one that gives the same
answer to the same question. LangGraph alone does not remember that.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Answers:
    """The answers of one thread. `file` holds the ids of the questions, in the order in which they came."""

    def __init__(self, given: list[Any], file: Path) -> None:
        self._given = given
        self._file = file
        # Opened here, before anything of this process is watched.
        self._written = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def to(self, interrupts: Any) -> dict[str, Any] | None:
        """`{interrupt id: answer}` for all questions that are open, or None when one of them has no answer."""
        known = [line for line in self._file.read_text(encoding="utf-8").splitlines() if line]
        for interrupt in interrupts:
            if interrupt.id not in known:
                if len(known) == len(self._given):
                    return None
                os.write(self._written, f"{interrupt.id}\n".encode())
                known.append(interrupt.id)
        return {interrupt.id: self._given[known.index(interrupt.id)] for interrupt in interrupts}


def used(file: Path) -> int:
    """How many answers were asked for."""
    return len(file.read_text(encoding="utf-8").split()) if file.exists() else 0


def question(interrupts: Any) -> str:
    """What is asked, for a person."""
    asked = [interrupt.value for interrupt in interrupts]
    return json.dumps(asked[0] if len(asked) == 1 else asked, default=str, ensure_ascii=False)
