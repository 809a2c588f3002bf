"""What a service's hand does with its claim: check the deadline, write, give up, record what it was told, crash.

Between the check and the write a process can be suspended. Behind the write the request has a life of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.protocol_model.state import (
    FAILED,
    IN_FLIGHT,
    IN_THE_AIR,
    MANY,
    PREPARED,
    SUCCEEDED,
    UNKNOWN,
    WITHDRAWN,
    Action,
    Edge,
    Event,
    Hand,
    State,
    action_of,
    move,
    note,
    sender,
    with_action,
    with_hand,
)
from experiments.protocol_model.variant import Variant

ANSWERS = ("applied", "refused", "unsent")


def perform(variant: Variant, state: State) -> Iterator[Edge]:
    """What every hand may do next; what happens to its request is the world's."""
    for number, hand in enumerate(state.hands):
        if hand is None:
            continue
        yield crash(state, number, hand)
        if hand.phase == "claimed":
            yield from check(variant, state, number, hand)
        elif hand.phase == "over":
            yield give_up(state, number, hand)
        elif hand.phase == "checked":
            yield from write(variant, state, number, hand)
        elif hand.phase in ANSWERS:
            yield record(variant, state, number, hand)


def crash(state: State, number: int, hand: Hand) -> Edge:
    """The service dies, in any phase. A request that it has written lives on."""
    after = with_hand(state, number, None)
    if hand.phase == "sent":
        action = action_of(state, hand.key)
        after = with_action(after, hand.key, action._replace(loose=min(IN_THE_AIR, action.loose + 1)))
    return Edge("crash", f"{sender(hand)} crashes, {hand.phase}", after, hand=hand)


def check(variant: Variant, state: State, number: int, hand: Hand) -> Iterator[Edge]:
    """The last look before the write: is there time left? (Or, in other protocols: is the claim still mine?)"""
    action = action_of(state, hand.key)
    mine = hand.current and action.status == IN_FLIGHT
    if variant.check == "fence" and not mine:
        yield give_up(state, number, hand)
        return
    checked = with_hand(state, number, hand._replace(phase="checked"))
    yield Edge("check", f"{sender(hand)} has time left", checked, hand=hand)
    if variant.check == "deadline" and variant.not_sent:
        yield give_up(state, number, hand)


def give_up(state: State, number: int, hand: Hand) -> Edge:
    """The deadline passed before anything was written: definitely not sent."""
    told = f"{sender(hand)} may not send any more"
    return Edge("give up", told, with_hand(state, number, hand._replace(phase="unsent")), hand=hand)


def write(variant: Variant, state: State, number: int, hand: Hand) -> Iterator[Edge]:
    """The request goes into the air; or the connection is refused, and nothing has happened."""
    sent = with_hand(state, number, hand._replace(phase="sent"))
    yield Edge("write", f"{sender(hand)} sends", sent, hand=hand)
    if variant.not_sent:
        unsent = with_hand(state, number, hand._replace(phase="unsent"))
        yield Edge("not sent", f"{sender(hand)} cannot connect", unsent, hand=hand)


def record(variant: Variant, state: State, number: int, hand: Hand) -> Edge:
    """What the sender knows goes into the record, by its claim, whatever the record says by now."""
    action = action_of(state, hand.key)
    if hand.phase == "applied":
        action, events = record_applied(variant, action)
    elif hand.phase == "refused":
        action, events = record_refused(variant, action, hand)
    else:
        action, events = record_unsent(variant, action, hand, closed=state.closed)
    told = f"{sender(hand)} records: {hand.phase}"
    after = with_action(with_hand(state, number, None), hand.key, action)
    if hand.phase == "applied" and action.status in (FAILED, WITHDRAWN) and not action.alarm:
        after = after._replace(flags=after.flags | {"late truth hidden"})
    return Edge("record", told, after, tuple((hand.key, event) for event in events), hand)


def record_applied(variant: Variant, action: Action) -> tuple[Action, list[Event]]:
    """The effect is there: SUCCEEDED, from any state that is open; an alarm where something else was settled."""
    if action.status in (IN_FLIGHT, UNKNOWN, PREPARED):
        moved, event = move(action, "record", SUCCEEDED, doubt=False)
        return moved, [event]
    if action.status == SUCCEEDED and action.effects < MANY and not action.by_word:
        return action, []
    if variant.refuses_late_truth:
        return action, []
    noted, event = note(action, "duplicate", alarm=True)
    return noted, [event]


def record_refused(variant: Variant, action: Action, hand: Hand) -> tuple[Action, list[Event]]:
    """A definite no settles it; but for an action in doubt it says nothing of the earlier send."""
    doubted = action.doubt and variant.minds_doubt
    if hand.current and action.status in (IN_FLIGHT, UNKNOWN) and not doubted:
        moved, event = move(action, "refuse", FAILED)
        return moved, [event]
    if hand.current and action.status == IN_FLIGHT:
        moved, event = move(action, "lose", UNKNOWN)
        return moved, [event]
    return record_no(variant, action, hand)


def record_unsent(variant: Variant, action: Action, hand: Hand, *, closed: bool) -> tuple[Action, list[Event]]:
    """Nothing was sent by this claim: PREPARED again, and as much in doubt as it was before."""
    if hand.current and action.status in (IN_FLIGHT, UNKNOWN):
        moved, event = move(action, "unsend", PREPARED)
        return taken_back_when(variant, closed, moved, [event])
    return record_no(variant, action, hand)


def record_no(variant: Variant, action: Action, hand: Hand) -> tuple[Action, list[Event]]:
    """A no that changes nothing. It contradicts a success only if no earlier claim can have had it."""
    believed = hand.in_doubt and not variant.contradicts_in_doubt
    if hand.current and action.status == SUCCEEDED and not believed:
        noted, event = note(action, "contradiction", alarm=True)
    else:
        noted, event = note(action, "late")
    return noted, [event]


def taken_back_when(variant: Variant, closed: bool, action: Action, events: list[Event]) -> tuple[Action, list[Event]]:
    """A PREPARED action of a cancelled run is taken back in the same transaction."""
    if not closed:
        return action, events
    taken, event = take_back(variant, action)
    return taken, [*events, event]


def take_back(variant: Variant, action: Action) -> tuple[Action, Event]:
    """PREPARED is withdrawn; in doubt it cannot be: what an earlier send did is not known."""
    if action.doubt and variant.minds_doubt:
        return move(action, "doubt", UNKNOWN)
    return move(action, "withdraw", WITHDRAWN)
