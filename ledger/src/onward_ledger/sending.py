"""One send under its hard deadline, in a thread of its own: nothing can interrupt a send that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from onward_ledger.providers.interface import Deadline, DeadlinePassed, NotSent, Outcome


@dataclass(frozen=True)
class Raised:
    """The send ended in an error: what it did is not known."""

    error: Exception


def within(
    deadline: Deadline, send: Callable[[], Outcome], late: Callable[[Outcome | Raised], None]
) -> Outcome | Raised | None:
    """Run the send under its hard deadline; None when it is over. A later answer goes to `late`.

    The thread is a daemon, so that it cannot hold up the exit.
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

    threading.Thread(target=run, name="ledger-send", daemon=True).start()
    done.wait(max(deadline.remaining, 0.0))
    with lock:
        if not results:
            given_up.append(True)
        return results[0] if results else None
