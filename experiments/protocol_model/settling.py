"""What settles an action without its sender: look-ups, and people.

A look-up is two steps, asking and settling, and the record can move in between: then what it said counts no more.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.protocol_model.services import take_back, taken_back_when
from experiments.protocol_model.state import (
    FAILED,
    IN_FLIGHT,
    IN_THE_AIR,
    PREPARED,
    SUCCEEDED,
    UNKNOWN,
    WITHDRAWN,
    Action,
    Edge,
    Event,
    Key,
    State,
    move,
    note,
    with_action,
)
from experiments.protocol_model.variant import Variant


def settle(variant: Variant, state: State) -> Iterator[Edge]:
    """Everything that look-ups and people may do next."""
    for key, action in state.actions:
        if action.status is None:
            continue
        yield from look_up(variant, state, key, action)
        if variant.operator and action.status == UNKNOWN:
            yield from resolve(state, key, action)
        if variant.cancels and action.status == PREPARED:
            taken, event = take_back(variant, action)
            yield Edge("withdraw", f"a person takes back {key}", with_action(state, key, taken), ((key, event),))
        if variant.approval and action.status == PREPARED:
            yield from decide(state, key, action)
    if variant.cancels and not state.closed:
        yield close(variant, state)
    if variant.restores and not state.restored:
        yield from restore(variant, state)


def look_up(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """Ask the provider about what is UNKNOWN, or what was never sent since a restore; then settle by its answer."""
    asks = action.status == UNKNOWN or (action.status == PREPARED and action.look_first and variant.looks_first)
    if not asks or not variant.looks_up:
        return
    for answer in answers(variant, action):
        if answer != action.answer:
            asked = with_action(state, key, action._replace(answer=answer))
            yield Edge("ask", f"the provider says of {key}: {answer}", asked)
    if action.answer:
        yield from settle_by(variant, state, key, action)


def answers(variant: Variant, action: Action) -> list[str]:
    """What a look-up can say now. Before the window is over it may miss what has happened; then it says: absent."""
    if variant.assumes_absent:
        return ["absent"]
    told = {0: [], 1: ["one"]}.get(action.effects, ["several"])
    if action.settled:
        return told or ["absent, settled"]
    return [*told, "absent"] if variant.lags or not told else told


def settle_by(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """One transaction, on the record as it was when the provider was asked."""
    if action.answer == "one":
        moved, event = move(action, "find", SUCCEEDED, doubt=False, look_first=False)
        yield Edge("find", f"{key} is found", with_action(state, key, moved), ((key, event),))
    elif action.answer == "several":
        moved, event = move(action, "find", SUCCEEDED, doubt=False, look_first=False)
        noted, alarm = note(moved, "duplicate", alarm=True)
        yield Edge("find", f"{key} is found twice", with_action(state, key, noted), ((key, event), (key, alarm)))
    elif action.status == PREPARED:
        free = with_action(state, key, action._replace(look_first=False, answer=""))
        yield Edge("look", f"{key} is absent: its first send may go", free)
    else:
        yield from absent(variant, state, key, action)


def absent(variant: Variant, state: State, key: Key, action: Action) -> Iterator[Edge]:
    """Absent: sent again where the provider notices a second request, or where nothing can be under way."""
    settled = action.answer == "absent, settled" or (variant.believes_early_look_up and action.settled)
    if variant.absent == "hold" or (variant.absent == "when settled" and not settled):
        return
    if variant.absent == "when remembered" and (state.closed or (action.old and variant.minds_age)):
        return
    never = settled or variant.absent == "at once"
    moved, event = move(action, "unsend", PREPARED, doubt=not never)
    moved, events = taken_back_when(variant, state.closed, moved, [event])
    told = f"{key} is absent and may be sent again"
    yield Edge("unsend", told, with_action(state, key, moved), tuple((key, event) for event in events))


def resolve(state: State, key: Key, action: Action) -> Iterator[Edge]:
    """A person's word settles it; truth that comes later raises an alarm."""
    for status in (SUCCEEDED, FAILED):
        moved, event = move(action, "resolve", status, by_word=True, doubt=False)
        told = f"a person says that {key} {status}"
        yield Edge("resolve", told, with_action(state, key, moved), ((key, event),))


def decide(state: State, key: Key, action: Action) -> Iterator[Edge]:
    """A person approves, the approval expires unused, or a person rejects what was never claimed."""
    if action.approval == "given":
        expired = with_action(state, key, action._replace(approval=""))
        yield Edge("expire", f"the approval of {key} expires", expired)
        revoked, event = note(action, "revoke", approval="")
        yield Edge(
            "revoke", f"a person revokes the approval of {key}", with_action(state, key, revoked), ((key, event),)
        )
    elif action.approval == "":
        given, event = note(action, "decide", approval="given")
        yield Edge("approve", f"a person approves {key}", with_action(state, key, given), ((key, event),))
        noted, event = note(action, "decide")
        rejected, withdrawal = move(noted, "withdraw", WITHDRAWN)
        events = ((key, event), (key, withdrawal))
        yield Edge("reject", f"a person rejects {key}", with_action(state, key, rejected), events)


def close(variant: Variant, state: State) -> Edge:
    """The run is cancelled: no later claim, and what is PREPARED is taken back in the same transaction."""
    after, events = state._replace(closed=True), list[tuple[Key, Event]]()
    for key, action in state.actions:
        if action.status == PREPARED:
            taken, event = take_back(variant, action)
            after = with_action(after, key, taken)
            events.append((key, event))
    return Edge("close", "a person cancels the run", after, tuple(events))


def restore(variant: Variant, state: State) -> Iterator[Edge]:
    """The ledger's database returns to an older backup, its services die, and sends wait for an operator's word.

    The operator waits until nothing that was sent can be under way. Each record is what it was at some earlier time.
    """
    if variant.waits_after_restore and any(a.loose for _, a in state.actions):
        return
    if variant.waits_after_restore and any(h is not None and h.phase == "sent" for h in state.hands):
        return
    for key, action in state.actions:
        for status in earlier(action):
            approval = action.approval if status == IN_FLIGHT else ""
            old = action._replace(status=status, doubt=False, answer="", by_word=False, alarm=False, approval=approval)
            old = old._replace(look_first=status == PREPARED and not variant.looks_first_at_proposals_only)
            lost = sum(h is not None and h.key == key and h.phase == "sent" for h in state.hands)
            after = state._replace(restored=True, closed=False, hands=(None,) * len(state.hands))
            after = with_action(after, key, old._replace(loose=min(IN_THE_AIR, old.loose + lost)))
            yield Edge("restore", f"the ledger is restored: {key} is {status or 'not recorded'}", after)


def earlier(action: Action) -> list[str | None]:
    """What the record can have been before."""
    if action.status is None:
        return []
    if action.status == PREPARED:
        return [None]
    return [None, PREPARED] if action.status in (IN_FLIGHT, WITHDRAWN) else [None, PREPARED, IN_FLIGHT]
