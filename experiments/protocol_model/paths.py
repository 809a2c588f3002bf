"""Whether the history of a real action is a path of the model.

A history shows only what was recorded; what the network, the provider and suspended senders did in between is not in
it. So all states are followed that the model can be in behind each line, and a line is wrong where there is none left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, Protocol, TypeVar

from experiments.protocol_model.callers import ONLY
from experiments.protocol_model.rules import initial, successors
from experiments.protocol_model.state import IN_FLIGHT, UNKNOWN, Edge, Event, Key, State
from experiments.protocol_model.variant import Variant
from experiments.protocol_model.variants import OURS

# The outbox's own notes: it decides when a call is made, and in the model a call can be made at any time.
NOT_MODELLED = frozenset({"dead", "retry"})


class Line(Protocol):
    """A line of an action's history, as the ledger gives it."""

    @property
    def word(self) -> str:
        """A transition's, or a note's."""
        ...

    @property
    def from_status(self) -> str | None:
        """The status before; None for the first line."""
        ...

    @property
    def to_status(self) -> str:
        """The status after."""
        ...

    @property
    def claim_token(self) -> str | None:
        """The claim that the record knew as its last one."""
        ...

    @property
    def detail(self) -> dict[str, object] | None:
        """What else is kept; `claim_token` in it is the claim of who speaks."""
        ...


L = TypeVar("L", bound=Line)

# A state, and the events of its last step that are still to come in the history.
Place = tuple[State, tuple[Event, ...]]


@dataclass
class Follower:
    """Where the model can be, line after line. `variant` has no drivers: a history knows nothing of them."""

    variant: Variant
    key: Key = ONLY
    _edges: dict[State, list[tuple[State, tuple[Event, ...]]]] = field(default_factory=dict, repr=False)
    _steps: dict[tuple[frozenset[Place], Event], frozenset[Place]] = field(default_factory=dict, repr=False)

    def start(self) -> frozenset[Place]:
        """Where it can be before the first line."""
        return self._closed({(initial(self.variant), ())})

    def behind(self, places: frozenset[Place], event: Event) -> frozenset[Place]:
        """Where it can be behind this line; nowhere, if it is no path of the model."""
        known = self._steps.get((places, event))
        if known is None:
            reached: set[Place] = set()
            for state, waiting in places:
                steps = [(state, waiting)] if waiting else self._steps_from(state)
                reached.update((after, events[1:]) for after, events in steps if events and events[0] == event)
            known = self._steps[places, event] = self._closed(reached)
        return known

    def _closed(self, places: set[Place]) -> frozenset[Place]:
        """All places that are reached from these without a line in the history."""
        reached, waiting = set(places), [state for state, events in places if not events]
        while waiting:
            for after, events in self._steps_from(waiting.pop()):
                if not events and (after, ()) not in reached:
                    reached.add((after, ()))
                    waiting.append(after)
        return frozenset(reached)

    def _steps_from(self, state: State) -> list[tuple[State, tuple[Event, ...]]]:
        known = self._edges.get(state)
        if known is None:
            known = [(edge.after, self._lines_of(edge)) for edge in successors(self.variant, state)]
            self._edges[state] = known
        return known

    def _lines_of(self, edge: Edge) -> tuple[Event, ...]:
        events = (event for key, event in edge.events if key == self.key)
        by_sender = edge.rule == "record"
        return tuple((before, spoken(word, by_sender=by_sender), after) for before, word, after in events)


def spoken(word: str, *, by_sender: bool) -> str:
    """A word of which it matters whether the sender says it, or somebody who has asked the provider."""
    return f"{word} by its sender" if word == "unsend" and by_sender else word


@cache
def follower(variant: Variant) -> Follower:
    """The one follower of a variant: what it has worked out once serves every history."""
    return Follower(variant)


def is_path(variant: Variant, lines: Iterable[L]) -> Literal[True] | L:
    """True where the history is a path of the model; else the first line that is not."""
    following = follower(replace(variant, duplicates=False))  # a second copy of a request leaves no line of its own
    places = following.start()
    claim: str | None = None
    for line in lines:
        if line.word in NOT_MODELLED:
            continue
        before = None if line.from_status is None else str(line.from_status)
        word = spoken(line.word, by_sender="claim_token" in (line.detail or {}))
        places = following.behind(places, (before, word, str(line.to_status)))
        if not places or not speaks_for(line, claim):
            return line
        claim = line.claim_token if line.word == "claim" else claim
    return True


def speaks_for(line: Line, claim: str | None) -> bool:
    """Whether a definite no comes from the claim that the record knows as its last one; other claims prove nothing."""
    definite = line.word in ("refuse", "unsend") and line.from_status in (IN_FLIGHT, UNKNOWN)
    told_by = (line.detail or {}).get("claim_token")
    return not definite or told_by is None or told_by == claim


def variant_of(provider_class: str, *, resend_after_absent: bool = False, approval: bool = False) -> Variant:
    """The variant whose paths the actions of a kind take, by what its provider declares."""
    name = "queryable, resend_after_absent" if resend_after_absent else str(provider_class)
    variant = next(variant for variant in OURS if variant.name == name)
    return replace(variant, approval=approval, drivers=0)
