"""Which unit an effect is counted for."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.anygraph import attribution
from experiments.anygraph.attribution import WAIT, _Ledger
from experiments.anygraph.units import Unit


class World:
    """Effects so far, and a ledger that counts them."""

    def __init__(self, *, serial: bool) -> None:
        self.lines: list[str] = []
        self.ledger = _Ledger(lambda: {"lines": list(self.lines)}, serial=serial)

    def enter(self, role: str) -> str:
        return self.ledger.hear("entered", unit(role), None)

    def leave(self, role: str, outcome: Any = "returned") -> None:
        self.ledger.hear("left", unit(role), outcome)

    @property
    def made(self) -> dict[str, list[str]]:
        return {made.unit.role: made.effects.get("lines", []) for made in self.ledger.executions}


def unit(role: str) -> Unit:
    return Unit(path=role.replace(" #2", ""), role=role, kind="node", task=role)


def test_inside_and_around() -> None:
    world = World(serial=True)
    world.enter("a")
    world.lines.append("of a, first")
    world.enter("a/b")
    world.lines.append("of b")
    world.leave("a/b")
    world.lines.append("of a, then")
    world.leave("a", "interrupted")
    world.enter("c")
    world.leave("c")
    assert world.made == {"a": ["of a, first", "of a, then"], "a/b": ["of b"], "c": []}
    assert [made.outcome for made in world.ledger.executions] == ["interrupted", "returned", "returned"]


def test_with_invoke_neighbours_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(serial=True)
    assert world.enter("a") == "go on"
    assert world.enter("b") == WAIT
    assert world.enter("a/task") == "go on"
    world.leave("a/task")
    world.leave("a")
    assert world.enter("b") == "go on"
    monkeypatch.setattr(attribution, "WAITED_SECONDS", 0.0)
    assert world.enter("c") == "go on"  # for b may wait for c


def test_with_ainvoke_what_is_new_belongs_to_the_innermost_that_ends() -> None:
    world = World(serial=False)
    for role in ("a", "b", "a/task", "b/task"):
        assert world.enter(role) == "go on"
    world.lines.append("of a's task")
    world.leave("a/task")
    world.leave("a")
    world.lines.append("of b's task")
    world.leave("b/task")
    world.lines.append("of b")
    world.leave("b")
    assert world.made == {"a": [], "b": ["of b"], "a/task": ["of a's task"], "b/task": ["of b's task"]}
