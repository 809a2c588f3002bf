"""The control: no ledger. Whoever is asked performs the charge. It must repeat it, or nothing was tested."""

from __future__ import annotations

from experiments.peers.order import Answer, Order, Place, Word, charge
from experiments.story import Story


def make(place: Place) -> None:
    """Nothing is kept."""


def call(story: Story, order: Order, place: Place) -> str:
    """One call, in a process of its own."""
    try:
        return Answer(word="done", says=charge(order, story, order.case)["charge"]).to_text()
    except OSError as error:
        return Answer.of("failed", error).to_text()


def look(order: Order, place: Place) -> Word:
    """Nobody knows."""
    return "failed"
