"""Guards on the wire, without any I/O: the operations of `protocol` for effects that their caller performs.

An operation here may also yield an `Ask`: ask the world whether the effect is there, and reply with what it says. The
sync and the async guard share every decision this way.

Safe to send again: a claim brings its own token, so that asking again for a claim whose answer was lost is answered
with the same claim.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from onward_ledger.action import Action, ActionKey, Json, Status, instant
from onward_ledger.errors import BadRequest, InProgress, NotApplied, UnknownOutcome
from onward_ledger.protocol import (
    LONGEST_WAIT_SECONDS,
    SHORTEST_WAIT_SECONDS,
    Answer,
    Lost,
    Request,
    Wait,
    exchange,
)


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What a caller says about its effect. Times are in seconds.

    `deadline_seconds`: within which the function begins, and should end. `looks_up`: the caller can ask the world
    whether the effect is there. `idempotent`: the world takes the action id as a key, and remembers it for
    `key_lifetime_seconds` (None: for ever). `request_lifetime_seconds`: for how long behind the deadline the effect can
    still be under way, the function itself included. `settle_window_seconds`: how much later a look-up is sure to show
    it. `resend_after_absent`: what is not found behind both of these is run again.
    """

    deadline_seconds: float = 30.0
    looks_up: bool = False
    idempotent: bool = False
    key_lifetime_seconds: float | None = None
    resend_after_absent: bool = False
    request_lifetime_seconds: float = 60.0
    settle_window_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.resend_after_absent and not self.looks_up:
            raise BadRequest("resend_after_absent needs looks_up: where nobody looks, nothing is ever absent.")
        if self.key_lifetime_seconds is not None and not self.idempotent:
            raise BadRequest("key_lifetime_seconds is for idempotent effects only.")

    def to_json(self) -> Json:
        """The JSON object of this value."""
        return asdict(self)


class Next(StrEnum):
    """What the caller of `begin` is to do."""

    RUN = "run"  # claimed: perform it now, then complete
    VERIFY = "verify"  # it may have happened: ask the world, say what was found, begin again
    REPLAY = "replay"  # it is settled: the record says how
    UNKNOWN = "unknown"  # it may have happened, and nobody can tell but a person


@dataclass(frozen=True, kw_only=True)
class Begun:
    """The answer to `begin`. `asked_at`, for verify, is the database's time: send it back with what was found."""

    next: Next
    action: Action
    asked_at: datetime | None = None

    def to_json(self) -> Json:
        """The JSON object of this value."""
        asked_at = self.asked_at.isoformat() if self.asked_at else None
        return {"next": self.next.value, "action": self.action.to_json(), "asked_at": asked_at}

    @classmethod
    def from_json(cls, data: Json) -> Begun:
        """Read an answer's JSON."""
        action = Action.from_json(data["action"])
        return cls(next=Next(data["next"]), action=action, asked_at=instant(data.get("asked_at")))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One effect that the world shows. Without `provider_id` it counts as the effect of the last claim."""

    receipt: Json
    provider_id: str | None = None


@dataclass(frozen=True)
class World:
    """What the world says: the effects that are there; `why_not` when it could not say."""

    seen: tuple[Seen, ...] = ()
    why_not: str | None = None


@dataclass(frozen=True)
class Ask:
    """Ask the world about this action; reply with a World."""

    action: Action


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a caller wants done, and what it declares about it."""

    key: ActionKey
    kind: str
    resource: str
    params: Json
    epoch: int
    declared: Declaration

    def to_json(self) -> Json:
        """The members of a request that say so."""
        key = self.key
        named = {"run_id": key.run_id, "step": key.step, "slot": key.slot, "rev": key.rev, "kind": self.kind}
        wanted = {"resource": self.resource, "params": self.params, "epoch": self.epoch}
        return {**named, **wanted, "declared": self.declared.to_json()}


@dataclass(frozen=True, kw_only=True)
class Entered:
    """The action as it stands. `to_run`: it is claimed for the caller, whose time is over at `ends` (monotonic)."""

    action: Action
    to_run: bool
    ends: float


T = TypeVar("T")
Asking = Generator[Request | Wait | Ask, Answer | Lost | World | None, T]

Clock = Callable[[], float]


def enter(wanted: Wanted, *, patience_seconds: float, clock: Clock = time.monotonic) -> Asking[Entered]:
    """Claim the action, or find out that it is settled; what may have happened is asked about first.

    While somebody else performs it, or until what was not found cannot happen any more, this waits, `patience_seconds`
    in all; then it raises InProgress, or UnknownOutcome: it may have happened, and is never run again on a guess.
    """
    looked = False
    waited = 0.0
    while True:
        token, began = str(uuid.uuid4()), clock()
        try:
            begun = Begun.from_json((yield from _exchange(_begin(wanted, token, looked))))
        except (InProgress, NotApplied) as error:
            seconds = _pause(error)
            if waited + seconds > patience_seconds:
                raise
            waited += seconds
            yield Wait(seconds)
            continue
        action = begun.action
        if begun.next in (Next.RUN, Next.REPLAY):
            ends = began + wanted.declared.deadline_seconds
            return Entered(action=action, to_run=begun.next is Next.RUN, ends=ends)
        if action.claim_token == token:
            # The service died behind this very claim, and its answer never came: so nothing was run under it.
            yield from _exchange(_completion(action.action_id, token, not_sent("The claim's answer was lost.")))
        elif begun.next is Next.UNKNOWN:
            raise unknown(action)
        else:
            seconds = yield from _ask(begun, wanted, patience_seconds - waited)
            looked = looked or action.status is Status.PREPARED
            waited += seconds
            if seconds:
                yield Wait(seconds)


def _ask(begun: Begun, wanted: Wanted, patience_seconds: float) -> Asking[float]:
    """Ask the world, and tell the ledger. Seconds until it makes sense to ask again; UnknownOutcome when it never does.

    An effect that is not there may still be under way. Behind its settle window it is not, where the caller declared
    that: the ledger decides so, by its own clock.
    """
    action = begun.action
    world = yield Ask(action)
    assert isinstance(world, World)
    if action.status is Status.PREPARED and world.why_not is not None:
        raise NotApplied(
            f"The ledger was restored, and the world could not be asked before the first run: {world.why_not}",
            action=action,
        )
    told = Action.from_json((yield from _exchange(_found(begun, world, wanted.declared))))
    if told.status is not Status.UNKNOWN:
        return 0.0
    seconds = _settles_in(begun, wanted.declared) if world.why_not is None else None
    if seconds is None or not 0 < seconds <= patience_seconds:
        raise unknown(told, world.why_not)
    return seconds


def _settles_in(begun: Begun, declared: Declaration) -> float | None:
    """Seconds until an effect that was not found cannot happen any more; None where nobody said when that is."""
    if not declared.resend_after_absent or begun.action.deadline_at is None or begun.asked_at is None:
        return None
    under_way = timedelta(seconds=declared.request_lifetime_seconds + declared.settle_window_seconds)
    return (begun.action.deadline_at + under_way - begun.asked_at).total_seconds()


def unknown(action: Action, why: str | None = None) -> UnknownOutcome:
    """The error for an action that may have happened."""
    reason = why or action.reason or "No answer came."
    return UnknownOutcome(
        f"Whether {action.step}/{action.slot} ({action.kind}) happened is UNKNOWN: {reason} It is not run again. "
        f"Find out, then settle it: onward-ledger resolve {action.action_id}",
        action=action,
    )


def _pause(error: InProgress | NotApplied) -> float:
    wanted = 0.5 if error.retry_after_seconds is None else error.retry_after_seconds
    return min(max(wanted, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)


def _exchange(request: Request) -> Asking[Json]:
    """`exchange`, among steps that may also be an Ask."""
    operation = exchange(request)
    reply: Answer | Lost | None = None
    while True:
        try:
            step = operation.send(reply)
        except StopIteration as end:
            return end.value
        answer = yield step
        assert not isinstance(answer, World)
        reply = answer


def complete(action_id: str, claim_token: str, outcome: Json) -> Asking[Action]:
    """Tell what became of a claim; see `applied`, `refused`, `not_sent` and `lost`."""
    return Action.from_json((yield from _exchange(_completion(action_id, claim_token, outcome))))


def applied(provider_id: str | None, receipt: Json, claim_token: str) -> Json:
    """It happened. Without an id of the world's, the claim is its id: two runs are then never taken for one."""
    return {"outcome": "applied", "provider_id": provider_id or claim_token, "receipt": receipt}


def refused(reason: str) -> Json:
    """A definite no: it did not happen, and never will for this request."""
    return {"outcome": "refused", "reason": reason}


def not_sent(reason: str) -> Json:
    """It did not happen, and may do later."""
    return {"outcome": "not_sent", "reason": reason}


def lost(reason: str) -> Json:
    """Nobody knows whether it happened."""
    return {"outcome": "lost", "reason": reason}


def _begin(wanted: Wanted, token: str, looked: bool) -> Request:
    body = {**wanted.to_json(), "claim_token": token, "looked": looked}
    return Request(method="PUT", path=f"/v1/guards/{wanted.key.action_id}", body=body)


def _completion(action_id: str, token: str, outcome: Json) -> Request:
    body = {"claim_token": token, **outcome}
    return Request(method="POST", path=f"/v1/actions/{action_id}/complete", body=body)


def _found(begun: Begun, world: World, declared: Declaration) -> Request:
    action = begun.action
    assert begun.asked_at is not None
    body: dict[str, Any] = {
        "version": action.version,
        "asked_at": begun.asked_at.isoformat(),
        "effects": [_effect(seen, number, action) for number, seen in enumerate(world.seen, 1)],
        "cannot_tell": world.why_not,
        "declared": declared.to_json(),
    }
    return Request(method="POST", path=f"/v1/actions/{action.action_id}/found", body=body)


def _effect(seen: Seen, number: int, action: Action) -> Json:
    """The first effect that has no id counts as that of the last claim, so that its late answer is no second one."""
    nameless = action.claim_token or action.action_id
    own = nameless if number == 1 else f"{nameless}#{number}"
    return {"provider_id": seen.provider_id or own, "receipt": seen.receipt}
