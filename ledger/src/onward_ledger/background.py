"""What the service does beside its requests: rounds in a thread of their own, and hands for work that waits for others.

Neither keeps the process alive: a work that does not end in time at a stop is left behind, as a kill would leave it.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

from onward_ledger.database import Unreachable

log = logging.getLogger("onward_ledger")

# Between two rounds when nothing wakes them. A round that finds nothing costs one read.
ROUND_SECONDS = 1.0


class Rounds:
    """One round after the other: the first a second behind the start, then each second, or when `woken` is set."""

    def __init__(self, name: str, do_round: Callable[[], None], woken: threading.Event | None = None) -> None:
        self._name = name
        self._do_round = do_round
        self._woken = woken or threading.Event()
        self._stopped = False
        self._failed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """No round more; does not wait for the one under way."""
        self._stopped = True
        self._woken.set()

    def join(self, seconds: float) -> None:
        """Wait so long for the round under way."""
        self._thread.join(max(seconds, 0.0))

    def _run(self) -> None:
        while True:
            self._woken.wait(ROUND_SECONDS)
            if self._stopped:
                return
            self._woken.clear()
            self._round()

    def _round(self) -> None:
        try:
            self._do_round()
            self._failed = False
        except Exception as error:
            # The next round tries again. What ails a database is told once, not each second.
            if not self._failed:
                log.error("%s: %s", self._name, error, exc_info=None if isinstance(error, Unreachable) else error)
            self._failed = True


class Hands:
    """At most so many threads, each with the work on one action; no action is in two of them."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._held: set[str] = set()
        self._closed = False
        self._changed = threading.Condition()

    def give(self, action_id: str, work: Callable[[], None]) -> bool:
        """Wait for a free hand and give it this work. False when the action is in one already, or none takes more."""
        with self._changed:
            if action_id in self._held:
                return False
            self._changed.wait_for(lambda: self._closed or len(self._held) < self._most)
            if self._closed:
                return False
            self._held.add(action_id)
        threading.Thread(target=self._work, args=(action_id, work), name=self._name, daemon=True).start()
        return True

    def _work(self, action_id: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Unreachable as error:
            log.warning("Action %s: %s", action_id, error)
        except Exception:
            log.exception("Action %s", action_id)
        finally:
            with self._changed:
                self._held.discard(action_id)
                self._changed.notify_all()

    def close(self) -> None:
        """Take no more work."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, seconds: float) -> int:
        """Wait so long for what is in hand; how much of it goes on."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held, max(seconds, 0.0))
            return len(self._held)


class Work(ABC):
    """Rounds that give work to hands. `woken` makes the next round come at once."""

    def __init__(self, name: str, hands: int, woken: threading.Event | None = None) -> None:
        self.hands = Hands(name, hands)
        self.rounds = Rounds(name, self.do_round, woken)

    @abstractmethod
    def do_round(self) -> None:
        """Find what is to be done, and give it to hands."""

    def start(self) -> None:
        """Begin; the first round comes a second later."""
        self.rounds.start()

    def end(self) -> None:
        """Begin nothing new."""
        self.rounds.end()
        self.hands.close()

    def join(self, deadline: float) -> None:
        """Wait until that monotonic time for what is under way."""
        self.rounds.join(deadline - time.monotonic())
        left = self.hands.join(deadline - time.monotonic())
        if left:
            log.warning("%d actions were still in hand at the stop.", left)


class Background:
    """Works that begin and end with the service. What is under way at the end gets `seconds` to finish."""

    def __init__(self, *works: Work, seconds: float) -> None:
        self._works = works
        self._seconds = seconds
        self._deadline: float | None = None

    def __enter__(self) -> Self:
        for work in self._works:
            work.start()
        return self

    def end(self) -> None:
        """Begin nothing new: the service is about to stop. Does not wait; safe to call again."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds
        for work in self._works:
            work.end()

    def __exit__(self, *_: object) -> None:
        self.end()
        assert self._deadline is not None
        for work in self._works:
            work.join(self._deadline)
