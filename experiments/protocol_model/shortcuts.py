"""What runs without a ledger do: a driver sends by itself, with its epoch for the only protection."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.protocol_model.callers import key_of
from experiments.protocol_model.state import IN_THE_AIR, Driver, Edge, State, action_of, with_action, with_driver
from experiments.protocol_model.variant import Variant
from experiments.protocol_model.world import effect


def send_directly(variant: Variant, state: State) -> Iterator[Edge]:
    """A driver at an effect sends the request; the answer reaches it, or nothing does until it crashes."""
    for number, driver in enumerate(state.drivers):
        if driver is None or driver.step == 0:
            continue
        key = key_of(variant, driver)
        action = action_of(state, key)
        if driver.phase == "run":
            sent = with_action(state, key, action._replace(loose=min(IN_THE_AIR + 1, action.loose + 1)))
            after = with_driver(sent, number, driver._replace(phase="sent"))
            yield Edge("write", f"driver {number} sends {key} by itself", after)
        elif driver.phase == "sent" and action.loose:
            yield answer(variant, state, number, driver)


def answer(variant: Variant, state: State, number: int, driver: Driver) -> Edge:
    """A request in the air is applied, and this driver hears it."""
    key = key_of(variant, driver)
    action = action_of(state, key)
    applied, how = effect(variant, action._replace(loose=action.loose - 1))
    after = with_driver(with_action(state, key, applied), number, driver._replace(phase="got"))
    return Edge("deliver", f"the provider {how} {key}, and driver {number} hears it", after)
