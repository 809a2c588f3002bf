"""What the ledger answers besides actions: fences, grants, the feed of decisions, events, and its own health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from onward_ledger.action import Action, Decision, Json, Status, Value


@dataclass(frozen=True, kw_only=True)
class Fence(Value):
    """The newest announced epoch of a run, and every action recorded for the run.

    `closed_at` is set once the run was cancelled: from then on nothing is claimed.
    """

    run_id: str
    epoch: int
    holder: str | None = None
    closed_at: datetime | None = None
    closed_by: str | None = None
    closed_reason: str | None = None
    actions: tuple[Action, ...] = ()

    @property
    def claimed(self) -> tuple[Action, ...]:
        """Actions that closing came too late for: claimed before, so their outcome stands."""
        return tuple(a for a in self.actions if a.status not in (Status.PREPARED, Status.WITHDRAWN))

    @property
    def unsettled(self) -> tuple[Action, ...]:
        """Actions in flight or unknown: to be reconciled before anything else is done."""
        return tuple(a for a in self.actions if a.status in (Status.IN_FLIGHT, Status.UNKNOWN))

    @classmethod
    def from_answer(cls, data: Mapping[str, Any]) -> Self:
        """Read an answer's JSON."""
        return cls.from_row({**data, "actions": tuple(Action.from_json(a) for a in data["actions"])})

    def to_json(self) -> Json:
        """The JSON object, actions included."""
        return {**super().to_json(), "actions": [action.to_json() for action in self.actions]}


@dataclass(frozen=True, kw_only=True)
class Grant(Value):
    """A standing permission: actions of this kind (and resource, where given) of one run are approved when proposed."""

    grant_id: str
    run_id: str
    kind: str
    resource: str | None
    principal: str
    principal_asserted: bool = True
    uses: int
    used: int
    expires_at: datetime
    granted_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class FeedItem(Value):
    """One line of the feed. `what` is "decision" (then `decision` is set) or "resolution" (then `status` is set)."""

    seq: int
    what: str
    run_id: str
    action_id: str
    decision: Decision | None = None
    status: Status | None = None
    happened_at: datetime


@dataclass(frozen=True, kw_only=True)
class Feed:
    """What was decided behind a cursor; ask again with `after=cursor`. No commit is ever skipped."""

    cursor: int
    items: tuple[FeedItem, ...]

    @classmethod
    def from_answer(cls, data: Mapping[str, Any]) -> Self:
        """Read an answer's JSON."""
        return cls(cursor=data["cursor"], items=tuple(FeedItem.from_json(i) for i in data["items"]))

    def to_json(self) -> Json:
        """The JSON object."""
        return {"cursor": self.cursor, "items": [item.to_json() for item in self.items]}


@dataclass(frozen=True, kw_only=True)
class Event(Value):
    """One line of an action's history, chained to the line before by hash. `word` is a transition's or a note's."""

    action_id: str
    seq: int
    word: str
    from_status: Status | None
    to_status: Status
    epoch: int | None
    principal: str | None
    instance: str | None
    claim_token: str | None
    reason: str | None
    detail: Json | None
    recorded_at: datetime
    previous_hash: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Health(Value):
    """Which ledger answers: `instance` is new at each start, `store` is postgres or sqlite, `objects` a URL.

    `ledger_id` stays with the records. `held`: nothing is sent until an operator releases it; GET /v1/ledger says why.
    """

    instance: str
    version: str
    store: str
    objects: str
    pid: int
    api: str
    ledger_id: str | None = None
    held: bool = False


@dataclass(frozen=True, kw_only=True)
class Me(Value):
    """What the token of a request stands for: its name, its scopes, the person it proves, roles, and kinds (globs)."""

    name: str
    scopes: list[str]
    principal: str | None
    roles: list[str]
    kinds: list[str]
