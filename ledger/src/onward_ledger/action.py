"""The action: one intended external effect, recorded before it is tried.

The state machine stands here once. The database upholds it too (enum, CHECK, compare-and-set on `version`).

              claim                      record
    PREPARED ───────▶ IN_FLIGHT ──────────────────────▶ SUCCEEDED
     │ │  ▲              ├── refuse: definite no ───────▶ FAILED       final for this id; again is a new revision
     │ │  └──────────────┤   unsend: definitely not sent or not accepted
     │ │                 └── lose: timeout, crash ──────▶ UNKNOWN ── record, find ─▶ SUCCEEDED
     │ └ doubt ─────────────────────────────────────────▶    ├── unsend: a resend is safe ▶ PREPARED
     │ withdraw                                              └── resolve: an operator ───▶ SUCCEEDED | FAILED
     ▼
    WITHDRAWN

A safe resend out of UNKNOWN leaves the action `in_doubt`: the earlier send may still have had its effect. Until it is
settled, no refusal of the resend counts as a definite no, and taking it back makes it UNKNOWN again (`doubt`), not
WITHDRAWN.

A transactional kind goes from PREPARED to SUCCEEDED (`apply`) or FAILED (`refuse`) without being in flight: its effect
and its record are one commit. After a database was restored, a first send can be preceded by a look-up; what it finds
makes PREPARED SUCCEEDED (`find`).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import Any, Self, cast

from onward_ledger.canonical import canonical, digest
from onward_ledger.errors import BadRequest

Json = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_.:#-]{1,100}")

# Behind the slot of what compensates an action. No caller can ask for such a slot: the ledger derives it.
UNDO = "/undo"


class Status(StrEnum):
    """Where an action stands."""

    PREPARED = "PREPARED"
    IN_FLIGHT = "IN_FLIGHT"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    WITHDRAWN = "WITHDRAWN"


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.WITHDRAWN})

# (from, word, to), in reading order. `propose` has no from: it makes the record.
TRANSITIONS: tuple[tuple[Status | None, str, Status], ...] = (
    (None, "propose", Status.PREPARED),
    (Status.PREPARED, "withdraw", Status.WITHDRAWN),
    (Status.PREPARED, "doubt", Status.UNKNOWN),
    (Status.PREPARED, "find", Status.SUCCEEDED),
    (Status.PREPARED, "apply", Status.SUCCEEDED),
    (Status.PREPARED, "refuse", Status.FAILED),
    (Status.PREPARED, "claim", Status.IN_FLIGHT),
    (Status.IN_FLIGHT, "record", Status.SUCCEEDED),
    (Status.IN_FLIGHT, "refuse", Status.FAILED),
    (Status.IN_FLIGHT, "unsend", Status.PREPARED),
    (Status.IN_FLIGHT, "lose", Status.UNKNOWN),
    (Status.UNKNOWN, "find", Status.SUCCEEDED),
    (Status.UNKNOWN, "unsend", Status.PREPARED),
    (Status.UNKNOWN, "resolve", Status.SUCCEEDED),
    (Status.UNKNOWN, "resolve", Status.FAILED),
    # Late truth: the sender's own answer, accepted by its claim token after the record had moved.
    (Status.UNKNOWN, "record", Status.SUCCEEDED),
    (Status.UNKNOWN, "refuse", Status.FAILED),
    (Status.PREPARED, "record", Status.SUCCEEDED),
)

# Words of events that change no status.
NOTES = frozenset({"decide", "revoke", "late", "duplicate", "contradiction", "dead", "retry"})


def check_transition(before: Status | None, word: str, after: Status) -> None:
    """An unknown transition is a bug and raises."""
    if (before, word, after) not in TRANSITIONS:
        raise AssertionError(f"There is no transition {before} --{word}--> {after}.")


@dataclass(frozen=True)
class ActionKey:
    """Which effect of which step of a run this is: stable over every retry, never made from arguments or chance.

    `run_id` is a UUID; `step` and `slot` are names of letters, digits and `_ . : # -`; `rev` counts from 1. Only the
    slot of a compensation has `/undo` behind that of the action that it compensates.
    """

    run_id: str
    step: str
    slot: str
    rev: int = 1

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "run_id", str(uuid.UUID(self.run_id)))
        except (ValueError, AttributeError, TypeError):
            raise BadRequest(f"run_id {self.run_id!r} is not a UUID.") from None
        for name, value in (("step", self.step), ("slot", self.slot.removesuffix(UNDO))):
            if not _NAME.fullmatch(value):
                raise BadRequest(f"{name} {getattr(self, name)!r} may hold letters, digits and _ . : # - only.")
        if self.rev < 1:
            raise BadRequest("rev counts from 1.")

    @cached_property
    def action_id(self) -> str:
        """uuid5 of the run and `<step>/<slot>`, with `@<rev>` behind it for later revisions."""
        name = f"{self.step}/{self.slot}" + (f"@{self.rev}" if self.rev > 1 else "")
        return str(uuid.uuid5(uuid.UUID(self.run_id), name))

    @property
    def is_undo(self) -> bool:
        """Whether this is the key of a compensation."""
        return self.slot.endswith(UNDO)

    @property
    def undo(self) -> ActionKey:
        """The key of what compensates this action: the same step and revision, the slot with `/undo` behind it."""
        assert not self.is_undo, "what compensates is not compensated"
        return ActionKey(self.run_id, self.step, self.slot + UNDO, self.rev)


def request_hash(kind: str, resource: str, params: Mapping[str, Any]) -> str:
    """The hex sha256 over the canonical JSON of `{kind, resource, params}`: what an id, once used, is bound to."""
    return digest({"kind": kind, "resource": resource, "params": dict(params)})


def instant(value: object) -> datetime | None:
    """A timezone-aware datetime from what a database row or JSON holds."""
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(str(value))


def jsonable(value: object) -> object:
    """The JSON form of a field: instants in ISO 8601, UUIDs as text, the rest as it is."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


class Value:
    """What the frozen values below share: reading from a row or JSON by field name, writing back, changed copies."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Read from a database row or an answer's JSON; members that the value does not know are left out."""
        readers = _readers(cls)
        return cls(**{name: readers[name](value) for name, value in row.items() if name in readers})

    from_json = from_row

    def to_json(self) -> Json:
        """The JSON object of this value: instants as ISO 8601 with offset, nested values as objects."""
        mine = self.__dict__
        return {
            name: value if type(value := mine[name]) in _JSON_TYPES else _to_json(value)
            for name in _readers(type(self))
        }

    def but(self, **changes: Any) -> Self:
        """A copy with these changes: a cheap `dataclasses.replace`, for fields that need no checks."""
        assert changes.keys() <= self.__dict__.keys(), changes
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy


_JSON_TYPES = frozenset({str, int, bool, float, dict, list, type(None)})


@cache
def _readers(of: type[Value]) -> dict[str, Callable[[Any], object]]:
    """How each field is read, by name and in order; the names alone serve too."""
    return {field.name: _reader(field.name) for field in fields(cast(Any, of))}


def _reader(name: str) -> Callable[[Any], object]:
    if name.endswith("_at"):
        return instant
    if name in ("status", "from_status", "to_status"):
        return _status
    if name in ("principal_asserted", "in_doubt", "in_order"):
        return bool  # SQLite has none
    nested = {"decision": Decision, "outbox": OutboxEntry, "look_ups": LookUps}.get(name)
    return partial(_nested, nested) if nested is not None else _as_it_is


def _status(value: object) -> Status | None:
    return Status(str(value)) if value is not None else None


def _nested(of: type[Value], value: object) -> object:
    return of.from_row(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else _as_it_is(value)


def _as_it_is(value: object) -> object:
    return str(value) if isinstance(value, uuid.UUID) else value


def _to_json(value: object) -> object:
    return value.to_json() if isinstance(value, Value) else jsonable(value)


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What a caller wants done: which effect of which step, with which request, under which epoch."""

    key: ActionKey
    kind: str
    resource: str
    params: Json
    epoch: int

    @cached_property
    def request_hash(self) -> str:
        """See `request_hash`; the params are written once, as they are the most of it."""
        parts = (b'{"kind":', canonical(self.kind), b',"params":', self._params, b',"resource":')
        return hashlib.sha256(b"".join((*parts, canonical(self.resource), b"}"))).hexdigest()

    @cached_property
    def params_text(self) -> str:
        """The params in canonical JSON: what is stored, and what every later reader parses."""
        return self._params.decode()

    @cached_property
    def _params(self) -> bytes:
        return canonical(dict(self.params))


@dataclass(frozen=True, kw_only=True)
class Decision(Value):
    """A person's decision on one action, bound to its request hash, resource and scope. The first one stands.

    `decision_id` is its number in the feed.
    `decision` is approve | edit | revise | reject. `scope` is the kind of effect that it allows. `grant_id` names the
    standing grant that it was derived from; `successor_action_id` the revision that an edit made. An approval that
    needs two `approvers` allows nothing before it is `seconded_by` another person.
    """

    decision_id: int
    action_id: str
    decision: str
    principal: str
    principal_asserted: bool = True
    request_hash: str
    resource: str
    scope: str
    reason: str | None = None
    expires_at: datetime | None = None
    decided_at: datetime
    consumed_at: datetime | None = None
    grant_id: str | None = None
    successor_action_id: str | None = None
    approvers: int = 1
    seconded_by: str | None = None
    seconded_at: datetime | None = None
    revoked_by: str | None = None
    revoked_reason: str | None = None

    @property
    def is_half(self) -> bool:
        """Whether it is an approval that still lacks its second approver: it allows nothing yet."""
        return self.decision == "approve" and self.approvers > 1 and self.seconded_by is None


@dataclass(frozen=True, kw_only=True)
class OutboxEntry(Value):
    """What the service has still to perform by itself: when it tries next, and how many attempts there were.

    A dead one waits for a person; `dead_reason` says why.
    """

    in_order: bool
    stored_at: datetime
    dispatch_at: datetime
    attempts: int
    dead_at: datetime | None = None
    dead_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class LookUps(Value):
    """How often an UNKNOWN action was looked up in the background, what the last answer was, and when the next comes.

    Without a next one it waits for a person.
    """

    count: int
    again_at: datetime | None = None
    answer: str


@dataclass(frozen=True, kw_only=True)
class Action(Value):
    """The record of one action, as it stands.

    In an answer, `replayed` says that this answer was read from the record and nothing was sent for it, and `decision`
    is the decision that stands, if any. `alarm` is a sentence when truth arrived that the record cannot agree with.
    `in_doubt`: it may be sent again, but an earlier send may have had its effect. `claims` counts the sends that were
    begun; `events` and `head` are length and last hash of its history. `outbox` and `look_ups` are only in the
    answer for one action, and `outbox` in the list of the outbox.
    """

    action_id: str
    run_id: str
    step: str
    slot: str
    rev: int
    kind: str
    resource: str
    params: Json
    request_hash: str
    status: Status
    provider_id: str | None = None
    receipt: Json | None = None
    reason: str | None = None
    alarm: str | None = None
    epoch: int
    claims: int = 0
    claim_token: str | None = None
    deadline_at: datetime | None = None
    first_sent_at: datetime | None = None
    not_before_at: datetime | None = None
    approval_id: int | None = None
    in_doubt: bool = False
    instance: str | None = None
    version: int
    events: int
    head: str
    created_at: datetime
    updated_at: datetime
    replayed: bool = False
    decision: Decision | None = None
    outbox: OutboxEntry | None = None
    look_ups: LookUps | None = None

    @property
    def key(self) -> ActionKey:
        """Which effect of which step this is."""
        return ActionKey(self.run_id, self.step, self.slot, self.rev)
