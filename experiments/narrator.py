"""Makes a process tell its story: which node begins, and what became of each effect that it asked for."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

from experiments.story import COMMITTED, EXECUTE, REUSE, Story

NODES = ("plan", "analyze", "write_draft", "test", "deliver")


def narrate_nodes(story: Story) -> None:
    """EXECUTE lines. The graph is built after this, so it takes the wrapped functions."""
    from graph import nodes

    def telling(name: str, node: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(node)
        def run(*args: Any, **kwargs: Any) -> Any:
            story.tell(EXECUTE + name)
            return node(*args, **kwargs)

        return run

    for name in NODES:
        setattr(nodes, name, telling(name, getattr(nodes, name)))


def narrate_actions(story: Story) -> None:
    """TOOL lines, when the receipt is in the process's hands."""
    from onward_ledger.action import Action, Status
    from tools.action import Actions, Build

    perform = Actions.perform

    def performed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        action = perform(self, step, slot, kind, build, rev=rev)
        if action.status is Status.SUCCEEDED:
            word = REUSE if action.replayed else COMMITTED
            story.tell(word + receipt_name(kind, action.receipt or {}))
        return action

    Actions.perform = performed


def receipt_name(kind: str, receipt: dict[str, Any]) -> str:
    """A receipt in one word, the same for the same receipt: `draft-7854be0b31d5`, `report-…`."""
    text = json.dumps(receipt, sort_keys=True, ensure_ascii=False)
    return f"{kind.partition('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
