"""The sweeper: settles in the background what is in flight for nobody any more, and asks about UNKNOWN actions.

It never sends. What a look-up makes PREPARED again is performed by its caller, or by the dispatcher where it is in the
outbox.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime, timedelta

from onward_ledger.action import Action, Status
from onward_ledger.background import Work
from onward_ledger.errors import InProgress, NotFound
from onward_ledger.ledger import Ledger
from onward_ledger.providers.interface import Absent, Applied, CannotTell, Found, SendingProvider, Several

log = logging.getLogger("onward_ledger")

# Look-ups at once, and at most in one round.
THREADS = 4
MOST_IN_A_ROUND = 20

# Look-ups of one action: the next comes after twice the time of the last one; behind the last one a person settles it.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 3600.0
MOST_LOOK_UPS = 30


class Sweeper(Work):
    """Looks at what is not settled, with back-off and a budget."""

    def __init__(self, ledger: Ledger, *, threads: int = THREADS) -> None:
        super().__init__("ledger-sweeper", threads)
        self._ledger = ledger

    def do_round(self) -> None:
        """Lose what is overdue, and give out the look-ups that are due."""
        ledger = self._ledger
        due = ledger.store.look_ups.due(
            ledger.instance, kinds=ledger.kinds, asked_kinds=ledger.asked_kinds, limit=MOST_IN_A_ROUND
        )
        for action in due:
            self.hands.give(action.action_id, lambda action=action: self.settle(action))

    def settle(self, action: Action) -> None:
        """One action: make it UNKNOWN, or ask about it."""
        if action.status is Status.IN_FLIGHT:
            with suppress(InProgress, NotFound):  # it has moved since
                action = self._ledger.store.meet(action.action_id, self._ledger.sender)
                log.warning("Action %s is %s: %s", action.action_id, action.status, action.reason)
            return
        count = self._ledger.store.look_ups.take(action.action_id)
        if count is not None:
            self._look_up(action, count + 1)

    def _look_up(self, action: Action, count: int) -> None:
        provider = self._ledger.provider(action.kind)
        assert isinstance(provider, SendingProvider), "a transactional action is never unknown"
        after, found = self._ledger.ask(action, provider)
        store = self._ledger.store
        again_at = None if count >= MOST_LOOK_UPS else next_at(after, found, provider, count, store.now())
        store.look_ups.note(action.action_id, answer=told(found), again_at=again_at)
        if after.status is not Status.UNKNOWN:
            self._ledger.stored.set()  # in the outbox it may be sent again, or a line has a new head


def next_at(action: Action, found: Found, provider: SendingProvider, count: int, now: datetime) -> datetime | None:
    """When to ask again behind so many look-ups; None when it is found.

    An absent effect may be sent again from `settled_at` on, where the kind asks for it: that is the time to ask, and
    nothing is gained before.
    """
    if isinstance(found, Applied | Several):
        return None
    pause = timedelta(seconds=min(FIRST_PAUSE_SECONDS * 2 ** (count - 1), LONGEST_PAUSE_SECONDS))
    if provider.resend_after_absent and action.status is Status.UNKNOWN:
        settled_at = provider.settled_at(action)
        return settled_at if now < settled_at else now + pause
    return now + pause


def told(found: Found) -> str:
    """What the provider said, in a sentence."""
    match found:
        case Applied(provider_id=provider_id):
            return f"It is there: {provider_id}."
        case Several(effects):
            return f"It is there {len(effects)} times: {', '.join(effect.provider_id for effect in effects)}."
        case Absent():
            return "There is no trace of it."
        case CannotTell(reason):
            return f"It could not be told: {reason}"
