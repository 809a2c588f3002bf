"""The model: every step that can be taken from a state, by anybody."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.protocol_model.callers import call_ledger, calls, drive
from experiments.protocol_model.services import perform
from experiments.protocol_model.settling import settle
from experiments.protocol_model.shortcuts import send_directly
from experiments.protocol_model.state import Edge, State
from experiments.protocol_model.variant import Variant
from experiments.protocol_model.world import happen


def initial(variant: Variant) -> State:
    """Nothing has been done, and nobody drives."""
    checkpoint = (0, 0) if variant.drivers else (1, 0)
    return State(checkpoint=checkpoint, drivers=(None,) * variant.drivers, hands=(None,) * variant.hands)


def successors(variant: Variant, state: State) -> Iterator[Edge]:
    """All steps from this state."""
    yield from drive(variant, state)
    if variant.ledger:
        for call in calls(variant, state):
            yield from call_ledger(variant, state, call)
        yield from perform(variant, state)
        yield from settle(variant, state)
    else:
        yield from send_directly(variant, state)
    yield from happen(variant, state)
