"""What the network and the provider do, and what time does: none of it asks the ledger.

A request in the air is delivered, refused or lost, with its sender waiting or without. Where the network duplicates, a
copy of it stays in the air. Time gives certainty back: after the settle window nothing of a send is under way.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.protocol_model.state import (
    IN_THE_AIR,
    MANY,
    UNKNOWN,
    Action,
    Edge,
    Hand,
    Key,
    State,
    action_of,
    hands_of,
    sender,
    with_action,
    with_hand,
)
from experiments.protocol_model.variant import Variant


def happen(variant: Variant, state: State) -> Iterator[Edge]:
    """Everything that may happen next outside of the ledger and its callers."""
    for number, hand in enumerate(state.hands):
        if hand is not None and hand.phase == "sent":
            yield from to_a_sender(variant, state, number, hand)
    for key, action in state.actions:
        if action.loose:
            yield from to_nobody(variant, state, key, action)
        yield from time_passes(variant, state, key, action)


def to_a_sender(variant: Variant, state: State, number: int, hand: Hand) -> Iterator[Edge]:
    """The request of a sender that waits. One whose answer is lost waits for nothing: it is as if it were gone."""
    who, key = sender(hand), hand.key
    applied, how = effect(variant, action_of(state, key))
    answered = with_hand(state, number, hand._replace(phase="applied"))
    unanswered = with_hand(state, number, None)
    heard = f"{who} hears that the provider {how} it"
    yield Edge("deliver", heard, with_action(answered, key, applied), hand=hand)
    unheard = f"the provider {how} {key}, and the answer is lost"
    yield Edge("deliver unheard", unheard, with_action(unanswered, key, applied), hand=hand)
    yield Edge("lose request", f"the network loses the request of {key}", unanswered, hand=hand)
    if variant.refuses:
        refused = with_hand(state, number, hand._replace(phase="refused"))
        yield Edge("refuse", f"{who} hears that the provider refuses", refused, hand=hand)
    if variant.duplicates:
        copied = applied._replace(loose=min(IN_THE_AIR, applied.loose + 1))
        told = f"{heard}; the network keeps a copy"
        yield Edge("deliver copied", told, with_action(answered, key, copied), hand=hand)
    if variant.error_means_not_done:
        unsent = with_hand(state, number, hand._replace(phase="unsent"))
        told = f"the provider {how} {key}, and {who} gets an error"
        yield Edge("deliver as error", told, with_action(unsent, key, applied), hand=hand)


def to_nobody(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """A request whose sender is gone: late, or lost."""
    without = action._replace(loose=action.loose - 1)
    applied, how = effect(variant, without)
    yield Edge("deliver late", f"late, the provider {how} {key}; nobody hears it", with_action(state, key, applied))
    yield Edge("lose late", f"the network loses the late request of {key}", with_action(state, key, without))
    if variant.duplicates:
        copied, how = effect(variant, action)
        told = f"late, the provider {how} {key}; the network keeps a copy"
        yield Edge("deliver late copied", told, with_action(state, key, copied))


def effect(variant: Variant, action: Action) -> tuple[Action, str]:
    """What the provider does with a request that it accepts: one more effect, unless it remembers the key."""
    if variant.idempotent and action.remembered:
        return action, "recognizes"
    applied = action._replace(effects=min(MANY, action.effects + 1), remembered=variant.idempotent)
    return applied, "applies"


def time_passes(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """The declared times: the settle window, and the life of the key."""
    if variant.window and not action.settled and action.status is not None:
        yield from settles(variant, state, key, action)
    if variant.forgets and not action.old and action.claimed:
        aged = with_action(state, key, action._replace(old=True))
        yield Edge("grow old", f"the key of {key} is about to be forgotten", aged)
    if variant.forgets and action.remembered and (action.old or not variant.minds_age):
        yield from forget(variant, state, key, action)


def settles(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """Nothing of an earlier send is under way: its requests came to an end, and its senders can only give up."""
    hands = hands_of(state, key)
    if variant.window != "deadline" and action.status != UNKNOWN:
        return  # it is quiet, but a send of this claim could still start
    if action.loose or any(hand.phase == "sent" for hand in hands):
        return
    if variant.window == "quiesced" and any(hand.phase in ("claimed", "checked") for hand in hands):
        return
    if not variant.suspends and any(hand.phase == "checked" for hand in hands):
        return
    after = with_action(state, key, action._replace(settled=True))
    if variant.window == "deadline":
        after = past_the_deadline(after, key)
    yield Edge("settle window", f"the settle window of {key} is over", after)


def forget(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """The provider forgets the key. Where its age is minded, no request that could still arrive was sent that late."""
    if variant.minds_age:
        if action.loose or any(hand.phase == "sent" for hand in hands_of(state, key)):
            return
        if not variant.suspends and any(hand.phase == "checked" for hand in hands_of(state, key)):
            return
        state = past_the_deadline(state, key)
    after = with_action(state, key, action._replace(remembered=False))
    yield Edge("forget", f"the provider forgets the key of {key}", after)


def past_the_deadline(state: State, key: Key) -> State:
    """Senders that have not written yet find their deadline over when they wake."""
    hands = tuple(
        hand._replace(phase="over") if hand is not None and hand.key == key and hand.phase == "claimed" else hand
        for hand in state.hands
    )
    return state._replace(hands=hands)
