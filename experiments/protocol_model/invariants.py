"""What must hold in every state, one function each, in the order in which they are told.

An operator's word is the operator's: a record that a person settled may be wrong about the world, but once the sender
has told the ledger otherwise it carries an alarm.
"""

from __future__ import annotations

from collections.abc import Callable

from experiments.protocol_model.state import (
    FAILED,
    IN_FLIGHT,
    MANY,
    PREPARED,
    SUCCEEDED,
    UNKNOWN,
    WITHDRAWN,
    Action,
    Key,
    State,
    hands_of,
)
from experiments.protocol_model.variant import Variant

Invariant = Callable[[Variant, State], bool]


def one_effect(variant: Variant, state: State) -> bool:
    """The effect of a step happens at most once, under whatever ids it was asked for."""
    counts: dict[int, int] = {}
    for (step, _), action in state.actions:
        counts[step] = counts.get(step, 0) + action.effects
    return all(count < MANY for count in counts.values())


def success_has_its_effect(variant: Variant, state: State) -> bool:
    """SUCCEEDED says that the effect is there, or that a person said so."""
    return all(a.effects > 0 or a.by_word for _, a in state.actions if a.status == SUCCEEDED)


def passed_steps_have_their_effects(variant: Variant, state: State) -> bool:
    """The run has not gone on behind an effect that is missing."""
    passed = range(1, min(state.checkpoint[0], variant.steps + 1))
    if not variant.drivers:
        return True
    done = {step for (step, _), action in state.actions if action.effects or action.by_word}
    return all(step in done for step in passed)


def no_means_no(variant: Variant, state: State) -> bool:
    """FAILED and WITHDRAWN, unless a person said so or there is an alarm: it did not happen, and it cannot any more."""
    return all(
        action.effects == 0 and not may_still_happen(state, key, action)
        for key, action in state.actions
        if action.status in (FAILED, WITHDRAWN) and not action.by_word and not action.alarm
    )


def may_still_happen(state: State, key: Key, action: Action) -> bool:
    """Whether a request is in the air, or a sender between its check and its write."""
    return action.loose > 0 or any(hand.phase in ("checked", "sent") for hand in hands_of(state, key))


def nothing_is_settled_silently(variant: Variant, state: State) -> bool:
    """Where the effect may have happened, the record is not PREPARED without doubt."""
    return all(
        action.effects == 0 or action.look_first
        for _, action in state.actions
        if action.status == PREPARED and not action.doubt
    )


def late_truth_raises_an_alarm(variant: Variant, state: State) -> bool:
    """Nothing that a sender told the ledger is hidden."""
    return "late truth hidden" not in state.flags


def alarms_are_true(variant: Variant, state: State) -> bool:
    """An alarm stands only where record and world disagree, or a person's word is not the sender's."""
    return all(not true_without_alarm(action) or not action.alarm for _, action in state.actions)


def true_without_alarm(action: Action) -> bool:
    """Whether the record says what the world says."""
    return action.status == SUCCEEDED and action.effects == 1 and not action.by_word


def the_result_is_the_effects(variant: Variant, state: State) -> bool:
    """What the run goes on with is what was done."""
    step, value = state.checkpoint
    return all(
        action.value == value
        for (of, _), action in state.actions
        if of < step and action.status == SUCCEEDED and variant.drivers
    )


def approved(variant: Variant, state: State) -> bool:
    """Where the kind needs an approval nothing is sent or applied without one that was used up by the claim."""
    if not variant.approval:
        return True
    claimed = (IN_FLIGHT, SUCCEEDED, UNKNOWN)
    return all(a.approval == "used" for _, a in state.actions if a.status in claimed or a.effects)


def checkpoint_goes_forward(variant: Variant, state: State) -> bool:
    """No driver that was replaced writes over what came after it."""
    return "checkpoint goes back" not in state.flags


INVARIANTS: dict[str, Invariant] = {
    "duplicate effect": one_effect,
    "succeeded without effect": success_has_its_effect,
    "lost effect": passed_steps_have_their_effects,
    "settled against the truth": no_means_no,
    "unknown settled silently": nothing_is_settled_silently,
    "late truth hidden": late_truth_raises_an_alarm,
    "false alarm": alarms_are_true,
    "result differs from effect": the_result_is_the_effects,
    "effect without approval": approved,
    "checkpoint goes back": checkpoint_goes_forward,
}


def broken(variant: Variant, state: State) -> str | None:
    """The first invariant that this state breaks, by name."""
    for name, holds in INVARIANTS.items():
        if name not in variant.tolerates and not holds(variant, state):
            return name
    return None
