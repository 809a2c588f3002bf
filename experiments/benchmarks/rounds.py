"""Rounds: everything that is compared is measured side by side, in an order that changes from round to round.

A machine's speed wanders over minutes. What is measured in one round meets the same minute, and no subject is always
the one that comes behind another's garbage.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from typing import TextIO, cast

WARM_UP = 3
TELL_SECONDS = 5.0

# Does its work once and says what it took, in the unit of the figure; several things by name. What it prepares for
# itself is not in it.
Subject = Callable[[], float | Mapping[str, float]]


class Teller:
    """Progress for a person: what is measured now, how far it is, and how long it will take."""

    def __init__(self, stream: TextIO | None, name: str = "bench") -> None:
        self._stream = stream
        self._name = name

    def say(self, text: str) -> None:
        """One line."""
        if self._stream is not None:
            print(f"{self._name}: {text}", file=self._stream, flush=True)

    def counter(self, name: str, total: int) -> Callable[[int], None]:
        """Tells, every few seconds, how many of the rounds are done."""
        began = told = time.monotonic()

        def done(count: int) -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= TELL_SECONDS and count < total:
                told = now
                left = (now - began) / count * (total - count)
                self.say(f"{name}: {count} of {total} rounds, about {left:.0f} s left")

        return done


def interleave(
    name: str, subjects: Mapping[str, Subject], *, rounds: int, teller: Teller, warm_up: int | None = None
) -> dict[str, list[float]]:
    """Samples of every subject, one per round, after rounds that do not count.

    Samples are by the subject's name; what a subject says by name stands under `subject, name`.
    """
    warm_up = min(WARM_UP, rounds // 2) if warm_up is None else warm_up
    order = list(subjects)
    chance = random.Random(rounds)  # noqa: S311 - an order, not a secret
    samples: dict[str, list[float]] = {}
    done = teller.counter(name, warm_up + rounds)
    for number in range(-warm_up, rounds):
        if number == 0:  # what the warm-up made is looked at by the collector once, and in no measured round
            gc.collect()
            gc.freeze()
        chance.shuffle(order)
        for subject in order:
            taken = subjects[subject]()
            if number >= 0:
                _note(samples, subject, taken)
        done(number + warm_up + 1)
    gc.unfreeze()
    return samples


def _note(samples: dict[str, list[float]], subject: str, taken: float | Mapping[str, float]) -> None:
    named = {f"{subject}, {name}": value for name, value in taken.items()} if isinstance(taken, Mapping) else None
    for name, value in ({subject: taken} if named is None else named).items():
        samples.setdefault(name, []).append(cast(float, value))


def milliseconds(work: Callable[[], object]) -> float:
    """How long the work took."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
