"""The claims that a service process has in hand: by one of its threads, or by a caller that performs them itself."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable

# More callers at once than this are not known to be alive: what they claimed is then UNKNOWN to the next who asks.
MOST_CALLERS = 100_000


class Performing(set[str]):
    """Claim tokens. A thread adds and discards its own; a caller's is kept until its deadline, and then forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._ends: list[tuple[float, str]] = []
        self._lock = threading.Lock()

    def keep(self, token: str, seconds: float) -> None:
        """A caller's claim, in hand for so long unless it is discarded before."""
        now = self._clock()
        with self._lock:
            self.add(token)
            heapq.heappush(self._ends, (now + seconds, token))
            while self._ends and (self._ends[0][0] <= now or len(self._ends) > MOST_CALLERS):
                self.discard(heapq.heappop(self._ends)[1])
