"""The dispatcher: performs what the outbox holds, beside the requests of its service.

It sends through the same ledger as everybody else, so that a closed fence, a missing approval and a held database stop
it as they stop a caller. Several services may dispatch from one database: each action is claimed by one of them.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from onward_ledger.action import Status
from onward_ledger.background import Work
from onward_ledger.database import DatabaseError
from onward_ledger.errors import BadRequest, FenceClosed, Held, InProgress, NotApplied
from onward_ledger.ledger import Ledger
from onward_ledger.store.outbox import MOST_ATTEMPTS, Due
from onward_ledger.store.outcomes import FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS

log = logging.getLogger("onward_ledger")

# Sends at once. Each waits for its provider; the database has a connection for each.
THREADS = 8

# How many due actions one look brings.
BATCH = 32

# What has failed together should not be tried again together: up to so much later.
JITTER = 0.25

# An action that still lacks something (an approval that does not suffice) is looked at again after this.
LOOK_AGAIN_SECONDS = 5.0


class Dispatcher(Work):
    """Sends what is due: in parallel, and of each line only its head."""

    def __init__(self, ledger: Ledger, *, threads: int = THREADS, chance: Callable[[], float] = random.random) -> None:
        super().__init__("ledger-dispatcher", threads, ledger.stored)
        self._ledger = ledger
        self._chance = chance

    def do_round(self) -> None:
        """Give out what is due now. What another service claims first costs one look more."""
        due = self._ledger.store.outbox.due(self._ledger.approved_kinds, BATCH)
        for each in sorted(due, key=lambda _: self._chance()):  # two services begin with different ones
            self.hands.give(each.action.action_id, lambda each=each: self._attempt(each))

    def _attempt(self, due: Due) -> None:
        if self.attempt(due):
            self._ledger.stored.set()  # a line may have a new head

    def attempt(self, due: Due) -> bool:
        """One attempt to perform an action; whether anything has changed."""
        action, ledger = due.action, self._ledger
        if due.attempts >= MOST_ATTEMPTS:
            self._bury(due, f"It was not sent in {due.attempts} attempts.")
            return True
        if action.kind not in ledger.kinds:
            return self._failed(due, f"There is no provider for the kind {action.kind}.")
        try:
            action = ledger.dispatch(action)
        except (InProgress, Held, FenceClosed):
            return False
        except NotApplied as error:
            return self._failed(due, error.message, error.retry_after_seconds or 0.0)
        except BadRequest as error:
            self._bury(due, f"Its provider does not take it: {error.message}")
            return True
        except DatabaseError:
            raise
        except Exception as error:
            log.exception("Action %s could not be dispatched.", action.action_id)
            return self._failed(due, f"{type(error).__name__}: {error}")
        if action.status is Status.PREPARED:
            ledger.store.outbox.put_off(action.action_id, attempts=due.attempts, seconds=LOOK_AGAIN_SECONDS)
        return action.status is not Status.PREPARED

    def _failed(self, due: Due, reason: str, wait_seconds: float = 0.0) -> bool:
        """Not sent: later again, or never."""
        attempts = due.attempts + 1
        if attempts >= MOST_ATTEMPTS:
            self._bury(due, f"It was not sent in {attempts} attempts. The last time: {reason}", attempts)
            return True
        seconds = min(FIRST_BACKOFF_SECONDS * 2 ** (attempts - 1), LONGEST_BACKOFF_SECONDS)
        seconds = max(seconds, wait_seconds) * (1 + JITTER * self._chance())
        self._ledger.store.outbox.put_off(due.action.action_id, attempts=attempts, seconds=seconds)
        return False

    def _bury(self, due: Due, reason: str, attempts: int | None = None) -> None:
        action_id, attempts = due.action.action_id, attempts or due.attempts
        log.warning("Action %s is a dead letter: %s", action_id, reason)
        self._ledger.store.outbox.bury(action_id, attempts=attempts, reason=reason, instance=self._ledger.instance)
