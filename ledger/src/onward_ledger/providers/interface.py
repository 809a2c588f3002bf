"""What a provider is: one kind of effect, what it declares, and either send and lookup, or verify and apply.

The class says what can be promised after a crash between the effect and its record:

    transactional   the effect and its record are one commit: the window does not exist
    idempotent      send again with the same key, while the provider remembers it
    queryable       look up; absent stays UNKNOWN for a person, unless the kind declares `resend_after_absent`
    opaque          UNKNOWN until a person settles it
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

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
    """The effect is there; the receipt proves it. The ledger makes it fit to be recorded: see `receipts.fit`."""

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
class Several:
    """The provider has more than one effect of this action: a duplicate, to be recorded and alarmed. At least two."""

    effects: tuple[Applied, ...]


@dataclass(frozen=True)
class CannotTell:
    """The provider could not be asked, or its answer says neither yes nor no."""

    reason: str


@dataclass(frozen=True)
class Sound:
    """What is to be applied was checked and is as approved."""


Outcome = Applied | Refused | NotSent
Found = Applied | Several | Absent | CannotTell
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


@dataclass(frozen=True, kw_only=True)
class ApprovalPolicy:
    """Who has to approve an action of a kind before it is performed.

    `role`: approvers must hold it (None: any person who may decide). `principals`: only these people (empty: anybody
    with the role). `approvers`: 1, or 2 for a second person who is not the first.
    """

    role: str | None = None
    principals: frozenset[str] = frozenset()
    approvers: int = 1


@dataclass(frozen=True, kw_only=True)
class Compensation:
    """What takes an effect back: an action of another kind, made from the record of the effect.

    `request` gets the SUCCEEDED action, and returns resource and params: from that record alone, the same ones each
    time. It raises BadRequest, with a plain sentence, where the record does not say enough.
    """

    kind: str
    request: Callable[[Action], tuple[str, Json]]


class Provider(ABC):
    """One kind of effect. `editable` names what an approver may change: keys of params, and `resource`.

    `compensation` says how an effect of this kind is taken back, where it can be. The kind that does it needs no
    approval: whoever cancels a run has decided.

    What is declared here can be set on the class, or on an instance where a configuration says it.
    """

    kind: str
    provider_class: ProviderClass
    approval: ApprovalPolicy | None = None
    editable: frozenset[str] = frozenset()
    compensation: Compensation | None = None

    @abstractmethod
    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Raise BadRequest with a plain sentence when the request cannot be meant. Called before it is recorded."""

    def close(self) -> None:  # noqa: B027 - most keep nothing
        """The service stops: release what is kept. What is under way behind its deadline may still use it."""


class SendingProvider(Provider):
    """An effect outside the ledger's database. `send` runs once per claim, under the deadline.

    Times are in seconds. `deadline_seconds`: how long one send may take. `key_lifetime_seconds`: how long the provider
    remembers an idempotency key (None: for ever). `request_lifetime_seconds`: how long a request of ours can stay under
    way behind the end of its send. `settle_window_seconds`: how much later a look-up is sure to show it.
    `resend_after_absent`: an effect that a look-up does not find behind both of these is sent again.
    """

    deadline_seconds: float = 30.0
    key_lifetime_seconds: float | None = None
    request_lifetime_seconds: float = 60.0
    settle_window_seconds: float = 60.0
    resend_after_absent: bool = False
    looks_up: bool = True  # False: `lookup` can never tell

    @abstractmethod
    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Perform the effect. Whatever is raised, but DeadlinePassed before the first write, means: unknown.

        Call `deadline.check()` immediately before the first write, and bound every wait by `deadline.remaining`.
        """

    def lookup(self, action: Action) -> Found:
        """Ask the provider whether the effect is there; changes nothing. What it raises counts as CannotTell."""
        return CannotTell(f"Effects of kind {action.kind} cannot be looked up.")

    def settled_at(self, action: Action) -> datetime:
        """From when on an effect that a look-up does not find did not happen and will not.

        Nothing of the last send can be under way any more, and the look-up shows everything.
        """
        assert action.deadline_at is not None, "only what was claimed can be looked up"
        return action.deadline_at + timedelta(seconds=self.request_lifetime_seconds + self.settle_window_seconds)

    def remembers(self, action: Action, now: datetime) -> bool:
        """Whether a request of a send that is claimed now still finds the provider remembering the key of the first."""
        if self.provider_class is not ProviderClass.IDEMPOTENT or action.first_sent_at is None:
            return False
        if self.key_lifetime_seconds is None:
            return True
        forgotten_at = action.first_sent_at + timedelta(seconds=self.key_lifetime_seconds)
        # A send that is claimed now can write until its deadline, and is under way for a request's lifetime behind it.
        latest = now + timedelta(seconds=self.deadline_seconds + self.request_lifetime_seconds)
        return latest < forgotten_at


class TransactionalProvider(Provider):
    """An effect inside the ledger's own database: it commits together with its record, or not at all."""

    provider_class = ProviderClass.TRANSACTIONAL

    @abstractmethod
    def verify(self, action: Action) -> Verdict:
        """Check what is to be applied, outside of the transaction: this may read large objects and take its time."""

    @abstractmethod
    def apply(self, tx: Transaction, action: Action, now: datetime) -> Applied:
        """Make the effect by statements of this transaction."""
