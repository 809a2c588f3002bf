"""What drivers do: take over, plan, call the ledger, checkpoint, crash. A lease can be over at any time.

A variant without drivers has one caller who is always there and whose epoch is never stale: what the ledger does is
then all that is explored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from experiments.protocol_model.state import (
    FAILED,
    IN_FLIGHT,
    PREPARED,
    SUCCEEDED,
    UNKNOWN,
    WITHDRAWN,
    Action,
    Driver,
    Edge,
    Event,
    Hand,
    Key,
    State,
    action_of,
    move,
    with_action,
    with_driver,
    with_hand,
)
from experiments.protocol_model.variant import Variant

ONLY = Key(1)  # the action of variants without drivers


class Call(NamedTuple):
    """Who calls the ledger for which action: a driver's number (None: anybody), its epoch, what it asks for."""

    driver: int | None
    epoch: int
    key: Key
    value: int


def drive(variant: Variant, state: State) -> Iterator[Edge]:
    """What every driver may do next, calls apart."""
    for number, driver in enumerate(state.drivers):
        if driver is None:
            yield from take_over(variant, state, number)
            continue
        yield Edge("crash", f"driver {number} crashes", with_driver(state, number, None))
        if driver.phase == "run" and driver.step == 0:
            yield from plan(variant, state, number, driver)
        elif driver.phase == "got":
            yield checkpoint(variant, state, number, driver)


def take_over(variant: Variant, state: State, number: int) -> Iterator[Edge]:
    """A new epoch begins where the checkpoint stands; nobody asks whether the last driver is really gone."""
    step, value = state.checkpoint
    if state.epoch == variant.epochs or step > variant.steps:
        return
    epoch = state.epoch + 1
    values = (0, 1) if variant.asks_anew and step > 0 else (value,)
    for planned in values:
        after = with_driver(state._replace(epoch=epoch), number, Driver(epoch, step, planned, "run"))
        yield Edge("take over", f"driver {number} takes over as epoch {epoch} at step {step}", after)


def plan(variant: Variant, state: State, number: int, driver: Driver) -> Iterator[Edge]:
    """A model plans, and not twice the same."""
    for value in (0, 1) if variant.replans else (0,):
        after = with_driver(state, number, driver._replace(value=value, phase="got"))
        yield Edge("plan", f"driver {number} plans {value}", after)


def checkpoint(variant: Variant, state: State, number: int, driver: Driver) -> Edge:
    """What the driver got goes into the checkpoint, unless its epoch is over and the checkpoint is fenced."""
    if variant.fences_checkpoint and driver.epoch != state.epoch:
        return Edge("stale", f"the checkpoint refuses driver {number}", with_driver(state, number, None))
    step, value = state.checkpoint
    behind = driver.step + 1 < step or (driver.step + 1 == step and driver.value != value)
    flags = state.flags | {"checkpoint goes back"} if behind else state.flags
    following = driver.step + 1
    ended = following > variant.steps
    after = state._replace(checkpoint=(following, driver.value), flags=flags)
    onward = None if ended else driver._replace(step=following, phase="run")
    told = f"driver {number} checkpoints: next is step {following}, with {driver.value}"
    return Edge("checkpoint", told, with_driver(after, number, onward))


def calls(variant: Variant, state: State) -> Iterator[Call]:
    """Everybody who may call the ledger now."""
    if not variant.drivers:
        yield Call(None, state.fence, ONLY, 0)
    for number, driver in enumerate(state.drivers):
        if driver is not None and driver.phase == "run" and driver.step > 0:
            yield Call(number, driver.epoch, key_of(variant, driver), driver.value)


def key_of(variant: Variant, driver: Driver) -> Key:
    """The action's id: of the step alone; bad protocols put the arguments or the attempt into it."""
    more = {"step": 0, "arguments": driver.value, "attempt": driver.epoch}[variant.action_id]
    return Key(driver.step, more)


def call_ledger(variant: Variant, state: State, call: Call) -> Iterator[Edge]:
    """One call: the fence, then the request, then what the record allows."""
    who = "somebody" if call.driver is None else f"driver {call.driver}"
    if variant.fences_ledger and call.epoch < state.fence:
        assert call.driver is not None
        yield Edge("stale", f"the ledger refuses {who}: stale epoch", with_driver(state, call.driver, None))
        return
    state = state._replace(fence=max(state.fence, call.epoch))
    action = action_of(state, call.key)
    if action.status is None:
        yield from propose(state, call, who)
    elif action.value != call.value and not variant.replays_blindly:
        yield from conflict(state, call, action, who)
    elif action.status == PREPARED:
        yield from claim(variant, state, call.key, action, who)
    elif action.status == IN_FLIGHT:
        yield from in_flight(variant, state, call.key, action, who)
    elif action.status == SUCCEEDED:
        yield from replay(variant, state, call, who)
    elif action.status in (FAILED, WITHDRAWN) and call.driver is not None:
        yield Edge("replay", f"{who} is told {action.status}", with_driver(state, call.driver, None))


def propose(state: State, call: Call, who: str) -> Iterator[Edge]:
    """The intent is recorded before anything is tried; a cancelled run intends nothing more."""
    if state.closed:
        return
    action, event = move(action_of(state, call.key), "propose", PREPARED, value=call.value)
    # After a restore the record is gone, and what the world holds of the effect is not.
    if state.restored:
        action = action._replace(look_first=True)
    after = with_action(state, call.key, action)
    yield Edge("propose", f"{who} proposes {call.key}", after, ((call.key, event),))


def conflict(state: State, call: Call, action: Action, who: str) -> Iterator[Edge]:
    """Another request under a known id: refused, nothing is sent, and the caller takes what is recorded."""
    if call.driver is None:
        return
    driver = state.drivers[call.driver]
    assert driver is not None
    after = with_driver(state, call.driver, driver._replace(value=action.value))
    yield Edge("conflict", f"{who} asks for {call.value} and is told that {action.value} is recorded", after)


def claim(variant: Variant, state: State, key: Key, action: Action, who: str) -> Iterator[Edge]:
    """PREPARED becomes IN_FLIGHT under a new claim by a free hand; earlier claims are not current any more."""
    if state.closed:
        return
    if variant.approval and action.approval == "" and not variant.approves_everything:
        return
    if variant.transactional:
        yield from apply(variant, state, key, action, who)
        return
    if action.doubt and action.old and variant.minds_age and not variant.minds_age_at_look_up_only:
        doubted, event = move(action, "doubt", UNKNOWN)
        told = f"{who} calls for {key}: its key may be forgotten"
        yield Edge("doubt", told, with_action(state, key, doubted), ((key, event),))
        return
    if action.look_first and variant.looks_first:
        return
    after_status = SUCCEEDED if variant.succeeds_early else IN_FLIGHT
    word = "record" if variant.succeeds_early else "claim"
    approval = "used" if action.approval == "given" else action.approval
    claimed, event = move(action, word, after_status, approval=approval, settled=False, look_first=False, claimed=True)
    yield from with_free_hand(state, key, claimed, event, who)


def with_free_hand(state: State, key: Key, claimed: Action, event: Event, who: str) -> Iterator[Edge]:
    """The claim of the first service that has a hand free; which of them it is makes no difference."""
    if None not in state.hands:
        return
    number = state.hands.index(None)
    hands = tuple(h._replace(current=False) if h is not None and h.key == key else h for h in state.hands)
    after = with_action(state._replace(hands=hands), key, claimed)
    after = with_hand(after, number, Hand(key, True, claimed.doubt, "claimed"))
    yield Edge("claim", f"{who} calls: a service claims {key}", after, ((key, event),))


def apply(variant: Variant, state: State, key: Key, action: Action, who: str) -> Iterator[Edge]:
    """A transactional effect and its record are one commit: both, or none."""
    approval = "used" if action.approval == "given" else action.approval
    applied, event = move(action, "apply", SUCCEEDED, effects=action.effects + 1, approval=approval)
    yield Edge("apply", f"{who} calls: {key} is applied", with_action(state, key, applied), ((key, event),))
    if variant.refuses:
        refused, event = move(action, "refuse", FAILED, approval=approval)
        yield Edge("apply refused", f"{who} calls: {key} is refused", with_action(state, key, refused), ((key, event),))


def in_flight(variant: Variant, state: State, key: Key, action: Action, who: str) -> Iterator[Edge]:
    """Somebody performs it, or is taken for gone: then it is UNKNOWN. Whether he is gone is never certain."""
    if variant.resends_in_flight:
        claimed, event = move(action, "claim", IN_FLIGHT)
        yield from with_free_hand(state, key, claimed, event, who)
        return
    lost, event = move(action, "lose", UNKNOWN)
    told = f"{who} calls: the sender of {key} is taken for gone"
    yield Edge("lose", told, with_action(state, key, lost), ((key, event),))


def replay(variant: Variant, state: State, call: Call, who: str) -> Iterator[Edge]:
    """What is recorded is answered, and nothing is sent."""
    if variant.performs_again:
        action = action_of(state, call.key)
        yield from with_free_hand(state, call.key, action, (SUCCEEDED, "again", SUCCEEDED), who)
    if call.driver is None:
        return
    driver = state.drivers[call.driver]
    assert driver is not None
    after = with_driver(state, call.driver, driver._replace(phase="got"))
    yield Edge("replay", f"{who} gets the receipt of {call.key}", after)
