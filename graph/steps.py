"""The names of steps: which step a node would begin, told from the state alone.

A step's name is part of an action's identity, so it never depends on an attempt, and a fork finds by it the checkpoint
that lies just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def step_of(node: str, state: Mapping[str, Any]) -> str:
    """`analyze#3`, `write_draft`, `test#2`: the step that a node begins with this state."""
    if node == "analyze":
        return f"analyze#{state['cursor'] + 1}"
    if node == "write_draft":
        return _numbered(node, state["draft"]["revision"] + 1 if "draft" in state else 1)
    return _numbered(node, state["draft"]["revision"] if "draft" in state else 1)


def _numbered(node: str, number: int) -> str:
    return node if number == 1 else f"{node}#{number}"
