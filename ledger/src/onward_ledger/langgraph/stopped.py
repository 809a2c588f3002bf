"""The signal that stops a run whose next step would be a guess."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from langgraph.errors import GraphBubbleUp

from onward_ledger.errors import LedgerError

# From this version on a ToolNode lets what bubbles up pass. An older one with `handle_tool_errors` would make it a
# message to the model, which then calls the tool once more: there the signal is none of the exceptions it catches.
_LETS_PASS = (1, 1, 1)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


_Signal = GraphBubbleUp if TYPE_CHECKING or _number(version("langgraph-prebuilt")) >= _LETS_PASS else BaseException


class Stopped(_Signal):
    """The run cannot go on before somebody looks: `error` says why, and what to do. The thread stays where it is.

    Once that is done, resume it: `invoke(None, config, durability="sync")`.
    """

    def __init__(self, error: LedgerError) -> None:
        super().__init__(error.message)
        self.error = error

    def __str__(self) -> str:
        return self.error.message
