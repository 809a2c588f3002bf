"""A call and its next step: what `claims.begin` is asked, and what it answers."""

from __future__ import annotations

import uuid
from collections.abc import Set
from dataclasses import dataclass, field
from datetime import datetime

from onward_ledger.action import Action, Intent
from onward_ledger.providers.interface import Provider, Verdict
from onward_ledger.store.outbox import Later
from onward_ledger.store.records import Cause


@dataclass(frozen=True)
class Answered:
    """Nothing is to be sent; this is the answer."""

    action: Action


@dataclass(frozen=True)
class Claimed:
    """IN_FLIGHT under a new claim token: send now, then record."""

    action: Action


@dataclass(frozen=True)
class Verify:
    """A transactional effect may be applied: check what is to be applied, then begin again with the verdict."""

    action: Action


@dataclass(frozen=True)
class LookFirst:
    """Before a first send the provider is to be asked (the ledger was restored), then begin again with `looked`."""

    action: Action


@dataclass(frozen=True)
class Unsettled:
    """UNKNOWN: ask the provider, then begin again."""

    action: Action


Step = Answered | Claimed | Verify | LookFirst | Unsettled


@dataclass(frozen=True)
class Sender:
    """This service process: its instance, and the claims that its threads are performing at this moment.

    A claim of this instance that is not among them is an orphan: its commit, or its record, was lost with the
    connection to the database.
    """

    instance: str
    performing: Set[str]

    def performs(self, action: Action, now: datetime) -> bool:
        """Whether a thread of this process has this action in hand, within its deadline."""
        mine = action.instance == self.instance and action.claim_token in self.performing
        return mine and action.deadline_at is not None and now < action.deadline_at


@dataclass(frozen=True, kw_only=True)
class Call:
    """One PUT: what is wanted, whether it stops at PREPARED, who performs, and what was found out for it already.

    `verdict`: of a transactional provider. `looked`: the provider was asked before a first send, and has no trace.
    `later`: the service is to perform it, so this call stops at PREPARED. `dispatched`: this is the service performing
    it, under the epoch that it was stored under; that a newer one was announced takes nothing back.
    """

    intent: Intent
    provider: Provider
    propose: bool
    sender: Sender
    claim_token: str = field(default_factory=lambda: str(uuid.uuid4()))
    principal: str | None = None
    verdict: Verdict | None = None
    looked: bool = False
    later: Later | None = None
    dispatched: bool = False

    @property
    def cause(self) -> Cause:
        """For the events of this call."""
        return Cause(principal=self.principal, instance=self.sender.instance)

    @property
    def derived(self) -> bool:
        """Whether the ledger made it from its own record, so that a closed fence does not refuse it."""
        return False

    def is_stale(self, epoch: int) -> bool:
        """Whether the announced epoch refuses it."""
        return self.intent.epoch < epoch and not self.dispatched

    def replaces(self, action: Action) -> bool:
        """Whether the one that claimed it is known to be replaced by this caller; see `guards`."""
        return False
