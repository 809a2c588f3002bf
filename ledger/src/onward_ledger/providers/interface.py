"""What a provider is: a kind of effect, a declared class, and either send and lookup, or verify and apply.

The class says what can be promised after a crash between the effect and its record:

    transactional   the effect and its record are one commit: the window does not exist
    idempotent      send again with the same key, while the provider remembers it
    queryable       look up; absent stays UNKNOWN for a person
    opaque          UNKNOWN until a person settles it
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from onward_ledger.action import Action, Json
from onward_ledger.database import Transaction


class ProviderClass(StrEnum):
    """What a provider promises; see the module's docstring."""

    TRANSACTIONAL = "transactional"
    IDEMPOTENT = "idempotent"
    QUERYABLE = "queryable"
    OPAQUE = "opaque"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The effect is there; the receipt proves it."""

    provider_id: str
    receipt: Json


@dataclass(frozen=True)
class Refused:
    """A definite no: nothing happened, and the same request is refused again."""

    reason: str


@dataclass(frozen=True)
class NotSent:
    """Definitely not sent or not accepted: nothing happened, and the same request may do later."""

    reason: str


@dataclass(frozen=True)
class Absent:
    """The provider was asked and has no trace of the effect."""


@dataclass(frozen=True)
class CannotTell:
    """The provider could not be asked."""

    reason: str


@dataclass(frozen=True)
class Sound:
    """What is to be applied was checked and is as approved."""


Outcome = Applied | Refused | NotSent
Found = Applied | Absent | CannotTell
Verdict = Sound | Refused | NotSent


class DeadlinePassed(Exception):
    """The deadline passed before anything was written: nothing happened."""


@dataclass(frozen=True)
class Deadline:
    """A monotonic deadline, checked immediately before the first write to the world.

    A process that was suspended, or a send that waited too long for a thread, finds out here and sends nothing.
    """

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def remaining(self) -> float:
        """Seconds that are left; negative behind the deadline."""
        return self.began + self.seconds - time.monotonic()

    def check(self) -> None:
        """Raise DeadlinePassed when the time is over."""
        if self.remaining <= 0:
            raise DeadlinePassed(f"The send did not start within its {self.seconds:g} seconds.")


class Provider(ABC):
    """One kind of effect. `editable` names what an approver may change: keys of params, and `resource`."""

    kind: ClassVar[str]
    provider_class: ClassVar[ProviderClass]
    needs_approval: ClassVar[bool] = False
    editable: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Raise BadRequest with a plain sentence when the request cannot be meant. Called before it is recorded."""


class SendingProvider(Provider):
    """An effect outside the ledger's database. `send` runs once per claim, under the deadline."""

    deadline_seconds: ClassVar[float] = 30.0
    # How long the provider remembers a key (None: for ever), and how long a request of ours can stay under way.
    key_lifetime_seconds: ClassVar[float | None] = None
    request_lifetime_seconds: ClassVar[float] = 60.0

    @abstractmethod
    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Perform the effect. Whatever is raised, but DeadlinePassed before the first write, means: unknown."""

    @abstractmethod
    def lookup(self, action: Action) -> Found:
        """Ask the provider whether the effect is there; changes nothing."""

    def may_resend(self, action: Action, now: datetime) -> bool:
        """Whether an absent effect may be sent again: only where the provider would not make a second one of it."""
        if self.provider_class is not ProviderClass.IDEMPOTENT or action.first_sent_at is None:
            return False
        if self.key_lifetime_seconds is None:
            return True
        forgotten_at = action.first_sent_at + timedelta(seconds=self.key_lifetime_seconds)
        return now + timedelta(seconds=self.request_lifetime_seconds) < forgotten_at


class TransactionalProvider(Provider):
    """An effect inside the ledger's own database: it commits together with its record, or not at all."""

    provider_class = ProviderClass.TRANSACTIONAL

    @abstractmethod
    def verify(self, action: Action) -> Verdict:
        """Check what is to be applied, outside of the transaction: this may read large objects and take its time."""

    @abstractmethod
    def apply(self, tx: Transaction, action: Action, now: datetime) -> Applied:
        """Make the effect by statements of this transaction."""
