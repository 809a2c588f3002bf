"""One send under its hard deadline, in a thread that it has to itself: nothing can interrupt a send that hangs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from onward_ledger.providers.interface import Deadline, DeadlinePassed, NotSent, Outcome

# Threads that are kept for later sends; more than this are started when they are needed, and end.
MOST_IDLE = 16


@dataclass(frozen=True)
class Raised:
    """The send ended in an error: what it did is not known."""

    error: Exception


def within(
    deadline: Deadline, send: Callable[[], Outcome], late: Callable[[Outcome | Raised], None]
) -> Outcome | Raised | None:
    """Run the send under its hard deadline; None when it is over. A later answer goes to `late`.

    A send that hangs keeps its thread, and no other waits for it.
    """
    lock = threading.Lock()
    done = threading.Event()
    results: list[Outcome | Raised] = []
    given_up: list[bool] = []

    def run() -> None:
        try:
            result: Outcome | Raised = send()
        except DeadlinePassed as error:
            result = NotSent(str(error))
        except Exception as error:
            result = Raised(error)
        with lock:
            results.append(result)
            done.set()
        if given_up:
            late(result)

    _senders.run(run)
    done.wait(max(deadline.remaining, 0.0))
    with lock:
        if not results:
            given_up.append(True)
        return results[0] if results else None


class _Senders:
    """Threads for sends: as many as there are sends under way, kept for the next ones.

    They are daemons, so that they cannot hold up the exit; a ThreadPoolExecutor waits for its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self, work: Callable[[], None]) -> None:
        """Begin at once, in a thread that does nothing else."""
        with self._lock:
            kept = self._idle > 0
            self._idle -= kept
        if kept:
            self._work.put(work)
        else:
            threading.Thread(target=self._live, args=(work,), name="ledger-send", daemon=True).start()

    def _live(self, work: Callable[[], None]) -> None:
        work()
        while self._is_kept():
            del work  # what it holds is not needed until the next one comes
            work = self._work.get()
            work()

    def _is_kept(self) -> bool:
        with self._lock:
            kept = self._idle < MOST_IDLE
            self._idle += kept
            return kept


_senders = _Senders()
