"""What a worker does again and again in a thread of its own, while services come and go.

Trouble passes: the next round tries again. It is told once when a service stops answering, and once when it answers
again, however many threads notice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from onward_ledger.database import DatabaseError
from onward_ledger.errors import LedgerError
from runs.errors import RunError

DATABASE, LEDGER = "database", "ledger"
# Behind a round that met trouble.
_PAUSE_SECONDS = 0.5


class Troubles:
    """Which services do not answer now. `tell` gets one, and the error, or None when it answers again."""

    def __init__(self, tell: Callable[[str, Exception | None], None]) -> None:
        self._tell = tell
        self._now: set[str] = set()
        self._lock = threading.Lock()

    def met(self, service: str, error: Exception) -> None:
        """It did not answer."""
        with self._lock:
            if service not in self._now:
                self._now.add(service)
                self._tell(service, error)

    def passed(self, service: str) -> None:
        """It answers."""
        with self._lock:
            if service in self._now:
                self._now.discard(service)
                self._tell(service, None)


def rounds(
    service: str, work: Callable[[], None], *, stopped: threading.Event, wait: Callable[[], object], troubles: Troubles
) -> None:
    """Do `work` and `wait`, in turns, until `stopped`. `service`: what the work asks, beside the database."""
    while not stopped.is_set():
        try:
            work()
        except (DatabaseError, psycopg.Error) as error:
            troubles.met(DATABASE, error)
            stopped.wait(_PAUSE_SECONDS)
        except (LedgerError, RunError) as error:
            troubles.met(service, error)
            stopped.wait(_PAUSE_SECONDS)
        else:
            troubles.passed(DATABASE)
            troubles.passed(service)
        wait()
