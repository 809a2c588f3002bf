"""The wire protocol without any I/O: requests are built and answers parsed here, once, for every client.

An operation is a generator. It yields a `Request` (send it; reply with an `Answer`, or with `Lost` when none came) or a
`Wait` (let that many seconds pass), and returns its result or raises a LedgerError. A client drives it with its own
sockets and its own clock, so the sync and the async client share every decision.

Sending a request again after a lost answer is always safe: every route is idempotent.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

from onward_ledger.action import Action, ActionKey, Decision, Json, Status, instant
from onward_ledger.errors import InProgress, LedgerError, LedgerUnreachable, NotApplied, ParamsConflict, ServiceFault
from onward_ledger.values import Event, Feed, Fence, Grant, Health, Me

API_VERSION = "v1"

# After a lost answer the same request goes out again after these pauses; then LedgerUnreachable.
RETRY_PAUSES_SECONDS = (0.1, 0.4, 1.5)

# A wait between two looks at an action that somebody else performs is never shorter or longer than these.
SHORTEST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 5.0

# How long perform() waits for somebody else's claim, or for a provider that is down, before it raises.
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request, relative to the service's URL."""

    method: str
    path: str
    body: Json | None = None
    principal: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True)
class Lost:
    """No answer came: refused, cut, or out of time."""

    why: str


@dataclass(frozen=True)
class Wait:
    """Let this many seconds pass."""

    seconds: float


# How many recorded intents a client remembers.
MOST_RECORDED = 10_000

T = TypeVar("T")
Operation = Generator[Request | Wait, Answer | Lost | None, T]

# Called only when no record says what was intended: returns (resource, params).
Build = Callable[[], tuple[str, Mapping[str, Any]]]


@dataclass
class Recorded:
    """What the ledger is known to have recorded: action id → (kind, resource, params).

    This is what pins an intent: for an id in here, what was recorded is asked for again and nothing is built anew. The
    oldest are forgotten; a forgotten one costs a look-up by way of a 422.
    """

    intents: dict[str, tuple[str, str, Json]] = field(default_factory=dict[str, tuple[str, str, Json]])

    def note(self, action: Action) -> Action:
        """Remember what is recorded under the action's id."""
        self.intents[action.action_id] = (action.kind, action.resource, action.params)
        while len(self.intents) > MOST_RECORDED:
            self.intents.pop(next(iter(self.intents)), None)
        return action

    def known(self, action_id: str, kind: str) -> tuple[str, str, Json] | None:
        """The recorded intent of this kind. Another kind under the id is a mistake, which the service will refuse."""
        found = self.intents.get(action_id)
        return found if found is not None and found[0] == kind else None


def read_answer(answer: Answer) -> Json:
    """The JSON of a good answer; a bad one raises the error that it describes."""
    try:
        data: object = json.loads(answer.body) if answer.body else {}
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ServiceFault(f"The ledger answered {answer.status} with something that is not a JSON object.")
    found = cast(Json, data)
    if answer.status < 400:
        return found
    raise read_problem(answer.status, found, answer.retry_after)


def read_problem(status: int, problem: Json, retry_after: str | None) -> LedgerError:
    """The error that problem details (RFC 9457) describe; an unknown code becomes the nearest root."""
    kind = _errors().get(str(problem.get("code")), ServiceFault if status >= 500 else LedgerError)
    action, decision = problem.get("action"), problem.get("decision")
    seconds = problem.get("retry_after_seconds", retry_after)
    return kind(
        str(problem.get("detail") or problem.get("title") or f"The ledger answered {status}."),
        action=Action.from_json(action) if action else None,
        decision=Decision.from_json(decision) if decision else None,
        fence_epoch=problem.get("fence_epoch"),
        closed_at=instant(problem.get("closed_at")),
        retry_after_seconds=float(seconds) if seconds is not None else None,
    )


def _errors() -> dict[str, type[LedgerError]]:
    found: dict[str, type[LedgerError]] = {}
    waiting: list[type[LedgerError]] = [LedgerError]
    while waiting:
        kind = waiting.pop()
        found[kind.code] = kind
        waiting.extend(kind.__subclasses__())
    return found


def exchange(request: Request) -> Operation[Json]:
    """Send until an answer comes; a lost answer or a service fault is asked again after a pause."""
    last: LedgerError | None = None
    for pause in (*RETRY_PAUSES_SECONDS, None):
        reply = yield request
        if isinstance(reply, Lost):
            last = LedgerUnreachable(f"The ledger does not answer: {reply.why}.")
        else:
            assert isinstance(reply, Answer)
            try:
                return read_answer(reply)
            except (ServiceFault, LedgerUnreachable) as error:
                last = error
        if pause is not None:
            yield Wait(pause)
    assert last is not None
    raise last


def put_action(
    key: ActionKey,
    kind: str,
    build: Build,
    *,
    epoch: int,
    recorded: Recorded,
    propose: bool,
    pinned: bool,
    patience_seconds: float,
    query: Mapping[str, object] | None = None,
) -> Operation[Action]:
    """Create or replay one action. `query`: how it is to be performed; see `outbox_protocol`.

    Pinned: what is recorded for the key is asked for again and `build` is not called; a params conflict reveals the
    record, and it is asked for once. Not pinned: another request under the key is a ParamsConflict. While somebody
    else performs the action, or the provider cannot be reached, this waits as the service says, `patience_seconds` in
    all, then raises InProgress or NotApplied.
    """
    how = {**({"propose": 1} if propose else {}), **(query or {})}
    intent = (recorded.known(key.action_id, kind) if pinned else None) or _built(kind, build)
    try:
        data = yield from patiently(_put_request(key, intent, epoch, how), patience_seconds)
    except ParamsConflict as conflict:
        if not pinned or conflict.action is None or conflict.action.kind != kind:
            raise
        recorded.note(conflict.action)
        intent = recorded.intents[key.action_id]
        data = yield from patiently(_put_request(key, intent, epoch, how), patience_seconds)
    return recorded.note(Action.from_json(data))


def patiently(request: Request, patience_seconds: float) -> Operation[Json]:
    """Ask again, as the service says, while somebody else performs the action or the provider is down."""
    waited = 0.0
    while True:
        try:
            return (yield from exchange(request))
        except (InProgress, NotApplied) as error:
            wanted = 0.5 if error.retry_after_seconds is None else error.retry_after_seconds
            seconds = min(max(wanted, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
            if waited + seconds > patience_seconds:
                raise
            waited += seconds
            yield Wait(seconds)


def _built(kind: str, build: Build) -> tuple[str, str, Json]:
    resource, params = build()
    return kind, resource, dict(params)


def _put_request(key: ActionKey, intent: tuple[str, str, Json], epoch: int, query: Mapping[str, object]) -> Request:
    kind, resource, params = intent
    body: Json = {
        "run_id": key.run_id,
        "step": key.step,
        "slot": key.slot,
        "rev": key.rev,
        "kind": kind,
        "resource": resource,
        "params": params,
        "epoch": epoch,
    }
    return Request(method="PUT", path=f"/v1/actions/{key.action_id}{query_of(**query)}", body=body)


def fence(run_id: str, epoch: int, *, holder: str, recorded: Recorded) -> Operation[Fence]:
    """Announce an epoch; the answer's actions replace what was known of recorded intents."""
    request = Request(method="PUT", path=f"/v1/fences/{run_id}", body={"epoch": epoch, "holder": holder})
    answer = Fence.from_answer((yield from exchange(request)))
    for action in answer.actions:
        recorded.note(action)
    return answer


def close_fence(run_id: str, *, principal: str | None, reason: str) -> Operation[Fence]:
    """Close the fence: cancel's deciding point."""
    body: Json = {"closed": True, "reason": reason}
    request = Request(method="PUT", path=f"/v1/fences/{run_id}", body=body, principal=principal)
    return Fence.from_answer((yield from exchange(request)))


def live(run_id: str, step: str, slot: str, *, recorded: Recorded) -> Operation[Action | None]:
    """The one revision of a step and slot that is not withdrawn."""
    query = query_of(run_id=run_id, step=step, slot=slot)
    data = yield from exchange(Request(method="GET", path=f"/v1/actions{query}"))
    found = [Action.from_json(item) for item in data["actions"]]
    return next((recorded.note(action) for action in found if action.status is not Status.WITHDRAWN), None)


def get_action(action_id: str) -> Operation[Action]:
    """One action by id."""
    return Action.from_json((yield from exchange(Request(method="GET", path=f"/v1/actions/{action_id}"))))


def get_actions(
    *, run_id: str | None, status: Status | None, limit: int, after: str | None
) -> Operation[tuple[Action, ...]]:
    """Actions in the order of their creation, behind the action `after`."""
    query = query_of(run_id=run_id, status=status, limit=limit, after=after)
    data = yield from exchange(Request(method="GET", path=f"/v1/actions{query}"))
    return tuple(Action.from_json(item) for item in data["actions"])


def get_events(action_id: str) -> Operation[tuple[Event, ...]]:
    """The history of one action, oldest first."""
    data = yield from exchange(Request(method="GET", path=f"/v1/actions/{action_id}/events"))
    return tuple(Event.from_json(item) for item in data["events"])


def reconcile(action_id: str, *, patience_seconds: float) -> Operation[Action]:
    """Settle an action in flight or unknown, as far as its provider can tell; waits while somebody performs it."""
    request = Request(method="POST", path=f"/v1/actions/{action_id}/reconcile")
    return Action.from_json((yield from patiently(request, patience_seconds)))


def resolve(
    action_id: str, *, status: Status, receipt: Json | None, reason: str, expected_version: int, principal: str | None
) -> Operation[Action]:
    """An operator's word on an UNKNOWN action."""
    body: Json = {"status": status, "receipt": receipt, "reason": reason, "expected_version": expected_version}
    request = Request(method="POST", path=f"/v1/actions/{action_id}/resolve", body=body, principal=principal)
    return Action.from_json((yield from exchange(request)))


def withdraw(action_id: str, *, reason: str) -> Operation[Action]:
    """Take back a PREPARED action."""
    request = Request(method="POST", path=f"/v1/actions/{action_id}/withdraw", body={"reason": reason})
    return Action.from_json((yield from exchange(request)))


def compensate(action_id: str, *, epoch: int | None, patience_seconds: float) -> Operation[Action]:
    """Take back an effect that happened; waits while that is performed, or its provider is down."""
    body: Json = {} if epoch is None else {"epoch": epoch}
    request = Request(method="POST", path=f"/v1/actions/{action_id}/compensate", body=body)
    return Action.from_json((yield from patiently(request, patience_seconds)))


def decide(
    action_id: str,
    decision: str,
    *,
    request_hash: str,
    reason: str | None,
    changes: Mapping[str, Any] | None,
    expires_at: datetime | None,
) -> Operation[Decision]:
    """A person's decision; the first one stands."""
    body: Json = {
        "decision": decision,
        "request_hash": request_hash,
        "reason": reason,
        "changes": dict(changes) if changes is not None else None,
        "expires_at": expires_at.isoformat() if expires_at else None,
    }
    request = Request(method="PUT", path=f"/v1/approvals/{action_id}", body=body)
    return Decision.from_json((yield from exchange(request)))


def grant(run_id: str, *, kind: str, resource: str | None, expires_at: datetime, uses: int) -> Operation[Grant]:
    """A standing permission, given before the action is known."""
    body: Json = {"kind": kind, "resource": resource, "expires_at": expires_at.isoformat(), "uses": uses}
    return Grant.from_json((yield from exchange(Request(method="PUT", path=f"/v1/grants/{run_id}", body=body))))


def revoke(action_id: str, *, reason: str) -> Operation[Decision]:
    """Take an approval back before it was used."""
    request = Request(method="POST", path=f"/v1/approvals/{action_id}/revoke", body={"reason": reason})
    return Decision.from_json((yield from exchange(request)))


def revoke_grant(run_id: str, *, kind: str, resource: str | None) -> Operation[Grant]:
    """One's own grant gives nothing any more."""
    body: Json = {"kind": kind, "resource": resource}
    return Grant.from_json((yield from exchange(Request(method="POST", path=f"/v1/grants/{run_id}/revoke", body=body))))


def decisions(*, after: int, limit: int) -> Operation[Feed]:
    """Decisions and resolutions behind a cursor."""
    query = query_of(after=after, limit=limit)
    return Feed.from_answer((yield from exchange(Request(method="GET", path=f"/v1/decisions{query}"))))


def me() -> Operation[Me]:
    """What this client's token stands for."""
    return Me.from_json((yield from exchange(Request(method="GET", path="/v1/me"))))


def health() -> Operation[Health]:
    """Which ledger answers. Asked once, without retry: this is how a caller finds out whether one is there."""
    reply = yield Request(method="GET", path="/health")
    if isinstance(reply, Answer):
        return Health.from_json(read_answer(reply))
    raise LedgerUnreachable(f"The ledger does not answer: {cast(Lost, reply).why}.")


def query_of(**members: object) -> str:
    """The query string of those members that are not None."""
    present = {name: str(value) for name, value in members.items() if value is not None}
    return f"?{urllib.parse.urlencode(present)}" if present else ""
