"""Every state that a variant can reach, breadth first, so that the first trace to a violation is a shortest one."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from experiments.protocol_model.invariants import broken
from experiments.protocol_model.rules import initial, successors
from experiments.protocol_model.state import FAILED, SUCCEEDED, UNKNOWN, WITHDRAWN, Event, State
from experiments.protocol_model.variant import Variant

ENDS = (SUCCEEDED, FAILED, UNKNOWN, WITHDRAWN)


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """What was found: the number of states and edges, the longest shortest path, and each violation with its trace.

    `stuck`: a trace to a state from which no end can be reached; None where there is none, or where it was not asked.
    `moves`: every transition of a record that was taken. `seconds`: of one processor.
    """

    variant: Variant
    states: int
    edges: int
    depth: int
    seconds: float
    violations: dict[str, list[str]]
    stuck: list[str] | None = None
    moves: frozenset[Event] = field(default=frozenset(), repr=False)

    @property
    def as_it_must(self) -> bool:
        """Whether the verdict is the one that the variant must get."""
        found = frozenset(self.violations)
        if self.variant.breaks:
            return self.variant.breaks <= found
        return not found and self.stuck is None


class Search:
    """One breadth-first search. States that break an invariant are kept and not expanded."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.came_from: dict[State, tuple[State, str] | None] = {}
        self.before: dict[State, list[State]] = {}
        self.ends: list[State] = []
        self.violations: dict[str, State] = {}
        self.moves: set[Event] = set()
        self.edges = 0
        self.last: State | None = None

    def run(self, *, complete: bool) -> None:
        """Visit everything; or stop as soon as everything that must be found broken is found."""
        start = initial(self.variant)
        self.came_from[start] = None
        waiting = deque([start])
        while waiting:
            state = self.last = waiting.popleft()
            name = broken(self.variant, state)
            if name is not None:
                self.violations.setdefault(name, state)
                if not complete and self.variant.breaks and self.variant.breaks <= set(self.violations):
                    return
                continue
            if ended(self.variant, state):
                self.ends.append(state)
            for edge in successors(self.variant, state):
                self.edges += 1
                self.moves.update(event for _, event in edge.events)
                if self.variant.ends:
                    self.before.setdefault(edge.after, []).append(state)
                if edge.after not in self.came_from:
                    self.came_from[edge.after] = (state, edge.told)
                    waiting.append(edge.after)

    def trace(self, state: State) -> list[str]:
        """How this state was reached, as sentences."""
        told: list[str] = []
        while (step := self.came_from[state]) is not None:
            state, sentence = step
            told.append(sentence)
        return told[::-1]

    def stuck(self) -> State | None:
        """A state from which no end can be reached; when the last epoch is handed out nobody can take over."""
        reach, waiting = set(self.ends), list(self.ends)
        while waiting:
            for state in self.before.get(waiting.pop(), ()):
                if state not in reach:
                    reach.add(state)
                    waiting.append(state)
        lost = (s for s in self.came_from if s not in reach)
        return next((s for s in lost if not self.variant.drivers or s.epoch < self.variant.epochs), None)


def ended(variant: Variant, state: State) -> bool:
    """The run is over, or an action is settled or waits as UNKNOWN; a cancelled run intends nothing more."""
    if variant.drivers and state.checkpoint[0] > variant.steps:
        return True
    recorded = [action.status for _, action in state.actions if action.status is not None]
    if not recorded and state.closed:
        return True
    final = ENDS if not variant.drivers else (FAILED, UNKNOWN, WITHDRAWN)
    return any(status in final for status in recorded)


def explore(variant: Variant, *, complete: bool = False) -> Exploration:
    """Everything about one variant; of one that must be caught, all up to that, unless `complete`."""
    began = time.process_time()
    search = Search(variant)
    search.run(complete=complete)
    assert search.last is not None
    stuck = search.stuck() if variant.ends and not search.violations else None
    return Exploration(
        variant=variant,
        states=len(search.came_from),
        edges=search.edges,
        depth=len(search.trace(search.last)),
        seconds=time.process_time() - began,
        violations={name: search.trace(state) for name, state in search.violations.items()},
        stuck=None if stuck is None else search.trace(stuck),
        moves=frozenset(search.moves),
    )
