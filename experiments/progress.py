"""Live progress: how many cases are done, how fast, how long it will take, and what was found so far."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from experiments.checker import NOTHING_STRUCK
from experiments.plan import GROUPS, Plan
from experiments.results import Outcome

Told = Callable[[str], None]

EVERY_SECONDS = 4.0
# The first cases open databases and ledgers; before this many the rate says nothing.
FIRST_CASES = 8


class Progress:
    """Counts cases, and tells a line every few seconds, and at once what is wrong."""

    def __init__(self, total: int, tell: Told, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._tell = tell
        self._clock = clock
        self._began = self._told_at = clock()
        self._lock = threading.Lock()
        self._words: Counter[str] = Counter()
        self._done = 0
        tell(f"{total} cases: {self._about()}")

    @staticmethod
    def _about() -> str:
        return "each a run under faults, resumed in another process, and counted"

    def done(self, plan: Plan, outcome: Outcome) -> None:
        """One more case."""
        with self._lock:
            self._done += 1
            if outcome.case.system == "plain":
                self._words["control wrong" if outcome.case.duplicates else "control clean"] += 1
            else:
                self._words[outcome.word] += 1
            bad = [v for v in (*outcome.violations, *outcome.invalid) if v.seen != NOTHING_STRUCK]
            if bad:
                first = bad[0]
                self._tell(f"{outcome.word.upper()} {GROUPS.get(plan.group, plan.group)}, {plan.name}: {first}")
            self._say(plan.group)

    def hunted(self, name: str, caught: bool) -> None:
        """One more mutant."""
        with self._lock:
            self._done += 1
            self._words["mutants caught" if caught else "mutants alive"] += 1
            if not caught:
                self._tell(f"the mutant {name} was not caught")
            self._say("mutants")

    def _say(self, group: str) -> None:
        now = self._clock()
        if now - self._told_at < EVERY_SECONDS and self._done < self._total:
            return
        self._told_at = now
        rate = self._done / max(now - self._began, 1e-9)
        left = f", about {(self._total - self._done) / rate:.0f} s left" if self._done >= FIRST_CASES else ""
        found = ", ".join(f"{count} {word}" for word, count in sorted(self._words.items()))
        self._tell(f"[{self._done}/{self._total}] {group}: {rate:.1f} cases a second{left}; {found}")
