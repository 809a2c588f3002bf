"""What a state of the model holds. Everything is small and immutable, so that a state is its own name.

A state is one run: the actions that it intends, each with its record in the ledger and its effect at the provider, the
drivers that call, and the hands that send. A hand is one thread of a ledger service with one claim; two hands are two
instances, and killing a service is killing its hand.
"""

from __future__ import annotations

from typing import NamedTuple

from onward_ledger.action import Status

# Plain strings: a member of an enum costs more to hash, and states are hashed all the time.
PREPARED = Status.PREPARED.value
IN_FLIGHT = Status.IN_FLIGHT.value
SUCCEEDED = Status.SUCCEEDED.value
FAILED = Status.FAILED.value
UNKNOWN = Status.UNKNOWN.value
WITHDRAWN = Status.WITHDRAWN.value

MANY = 2  # effects are counted up to here: more than one is wrong, however many they are
IN_THE_AIR = 1  # requests that nobody waits for: beside one of a sender, one more is enough for every trouble

Event = tuple[str | None, str, str]  # status before, word, status after; for a note the two are the same


class Key(NamedTuple):
    """An action's id: the step, and what else a bad protocol puts into it."""

    step: int
    more: int = 0

    def __str__(self) -> str:
        return f"step {self.step}" if not self.more else f"step {self.step}/{self.more}"


class Action(NamedTuple):
    """One action: its record, and what the world holds of it.

    The record: `status`, `value` (what is asked for), `doubt` (an earlier send may have had its effect), `approval`
    ("", given, used), `settled` (nothing of the last send can be under way, and a look-up shows everything), `old`
    (the provider may forget the key before another request is sure to arrive), `claimed` (ever), `look_first` (ask
    before the first send), `answer` (what a look-up under way will say), `by_word` (a person settled it), `alarm`.
    The world: `effects` at the provider, `remembered` (it would notice a second request), `loose` (requests in the air
    that nobody waits for).
    """

    status: str | None = None
    value: int = 0
    doubt: bool = False
    approval: str = ""
    settled: bool = False
    old: bool = False
    claimed: bool = False
    look_first: bool = False
    answer: str = ""
    by_word: bool = False
    alarm: bool = False
    effects: int = 0
    remembered: bool = False
    loose: int = 0


class Hand(NamedTuple):
    """A service's thread with one claim.

    `current`: the record knows this claim as its last one. `in_doubt`: it did when it was claimed. `phase`:

        claimed -> checked -> sent -> applied | refused | unsent -> record
           └─ over: its deadline passed while it was suspended; it can only give up
    """

    key: Key
    current: bool
    in_doubt: bool
    phase: str


class Driver(NamedTuple):
    """Who executes the run under one epoch: the next step (0 is the plan), the planned value, and what it does.

    `phase`: run, got (an answer that is to be checkpointed), sent (it sends by itself and waits: no ledger).
    """

    epoch: int
    step: int
    value: int
    phase: str


class State(NamedTuple):
    """One run at one moment. `checkpoint` is the next step and the planned value; `flags` what went wrong beside it."""

    epoch: int = 0
    fence: int = 0
    closed: bool = False
    restored: bool = False
    checkpoint: tuple[int, int] = (0, 0)
    actions: tuple[tuple[Key, Action], ...] = ()
    drivers: tuple[Driver | None, ...] = ()
    hands: tuple[Hand | None, ...] = ()
    flags: frozenset[str] = frozenset()


class Edge(NamedTuple):
    """One step of the model: the rule's word, who and what as a sentence, and the state behind it.

    `events` are the lines that the records' histories get by it, with the action that each belongs to. `hand`: whose
    step it is, as it was before.
    """

    rule: str
    told: str
    after: State
    events: tuple[tuple[Key, Event], ...] = ()
    hand: Hand | None = None


NEW = Action()


def action_of(state: State, key: Key) -> Action:
    """The action of a key, as it stands."""
    for known, action in state.actions:
        if known == key:
            return action
    return NEW


def with_action(state: State, key: Key, action: Action) -> State:
    """The state with this action in it."""
    others = [item for item in state.actions if item[0] != key]
    return state._replace(actions=tuple(sorted([*others, (key, action)])))


def with_hand(state: State, number: int, hand: Hand | None) -> State:
    """The state with this hand instead of that number. Services are alike: their hands stand in one order."""
    hands = [*state.hands[:number], hand, *state.hands[number + 1 :]]
    return state._replace(hands=tuple(sorted(hands, key=_order)))


def _order(hand: Hand | None) -> tuple[object, ...]:
    return () if hand is None else hand


def sender(hand: Hand) -> str:
    """What a trace calls this hand."""
    return f"the sender of {hand.key}" if hand.current else f"an earlier sender of {hand.key}"


def with_driver(state: State, number: int, driver: Driver | None) -> State:
    """The state with this driver."""
    return state._replace(drivers=(*state.drivers[:number], driver, *state.drivers[number + 1 :]))


def hands_of(state: State, key: Key) -> list[Hand]:
    """The hands that hold a claim of this action."""
    return [hand for hand in state.hands if hand is not None and hand.key == key]


def move(action: Action, word: str, after: str, **changes: object) -> tuple[Action, Event]:
    """The action behind a transition, with its event. What a look-up said of it before counts no more."""
    changed = action._replace(status=after, answer="", **changes)
    return changed, (action.status, word, after)


def note(action: Action, word: str, **changes: object) -> tuple[Action, Event]:
    """The action behind an event that changes no status; a look-up that began before it counts no more either."""
    assert action.status is not None
    return action._replace(answer="", **changes), (action.status, word, action.status)
