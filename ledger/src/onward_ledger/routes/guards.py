"""Guards: claims of callers that perform the effect themselves, and what they say became of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, ConfigDict, Field

from onward_ledger import guarding
from onward_ledger.action import Action
from onward_ledger.callers import Scope
from onward_ledger.errors import BadRequest
from onward_ledger.guard_protocol import Begun, Declaration
from onward_ledger.providers.interface import Absent, Applied, CannotTell, Found, NotSent, Outcome, Refused, Several
from onward_ledger.routes.common import ActionId, Principal, ledger, may, may_touch, who
from onward_ledger.store.guards import Lost
from onward_ledger.wire import ActionBody, Body, Count, Reason

router = APIRouter()

# A function of the caller's may take long; for longer than a day it is no claim any more.
LONGEST_DEADLINE_SECONDS = 86_400.0

Seconds = Annotated[float, Field(ge=0, le=10 * 365 * 86_400, allow_inf_nan=False)]
ProviderId = Annotated[str, Field(min_length=1, max_length=900)]

_RUN = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
_CLAIM = "5b1f9a52-5a3e-4a55-8a0e-7f4a6f0f2b61"


class Declared(Body):
    """What the caller says about its effect. Times are in seconds."""

    deadline_seconds: Annotated[float, Field(gt=0, le=LONGEST_DEADLINE_SECONDS, allow_inf_nan=False)] = 30.0
    looks_up: bool = False
    idempotent: bool = False
    key_lifetime_seconds: Seconds | None = None
    resend_after_absent: bool = False
    request_lifetime_seconds: Seconds = 60.0
    settle_window_seconds: Seconds = 60.0

    def value(self) -> Declaration:
        """BadRequest when the words do not go together."""
        return Declaration(**self.model_dump())


class GuardBody(ActionBody):
    """What is wanted, what the caller declares about it, and the token that its claim is to have."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "run_id": _RUN,
                    "step": "answer",
                    "slot": "ticket",
                    "kind": "ticket.create",
                    "resource": "tickets",
                    "params": {"title": "The printer is on fire"},
                    "epoch": 1,
                    "claim_token": _CLAIM,
                    "declared": {"deadline_seconds": 30, "looks_up": True},
                }
            ]
        },
    )

    claim_token: UUID
    declared: Declared = Declared()
    looked: bool = False


class CompleteBody(Body):
    """What became of a claim: applied (with provider_id and receipt), or refused, not_sent or lost (with reason)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"claim_token": _CLAIM, "outcome": "applied", "provider_id": "T-17", "receipt": {"ticket": "T-17"}},
                {"claim_token": _CLAIM, "outcome": "lost", "reason": "TimeoutError"},
            ]
        },
    )

    claim_token: UUID
    outcome: Literal["applied", "refused", "not_sent", "lost"]
    provider_id: ProviderId | None = None
    receipt: dict[str, Any] | None = None
    reason: Reason | None = None

    def value(self) -> Outcome | Lost:
        """BadRequest when the members do not fit the outcome."""
        if self.outcome == "applied":
            if self.provider_id is None or self.receipt is None or self.reason is not None:
                raise BadRequest("What was applied has a provider_id and a receipt, and no reason.")
            return Applied(provider_id=self.provider_id, receipt=self.receipt)
        if self.reason is None or self.provider_id is not None or self.receipt is not None:
            raise BadRequest(f"What was {self.outcome} has a reason, and neither provider_id nor receipt.")
        kinds: dict[str, type[Refused | NotSent | Lost]] = {"refused": Refused, "not_sent": NotSent, "lost": Lost}
        return kinds[self.outcome](self.reason)


class SeenEffect(Body):
    """One effect that the world shows."""

    provider_id: ProviderId
    receipt: dict[str, Any]


class FoundBody(Body):
    """What the world said about an action: its effects, none, one or several; or why it could not say."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "version": 3,
                    "asked_at": "2030-01-01T00:00:00Z",
                    "effects": [{"provider_id": "T-17", "receipt": {"ticket": "T-17"}}],
                    "declared": {"looks_up": True},
                }
            ]
        },
    )

    version: Count
    asked_at: AwareDatetime
    effects: Annotated[list[SeenEffect], Field(max_length=100)]
    cannot_tell: Reason | None = None
    declared: Declared

    def value(self) -> Found:
        """BadRequest when it says both."""
        if self.cannot_tell is not None:
            if self.effects:
                raise BadRequest("Either the world shows effects, or it cannot tell.")
            return CannotTell(self.cannot_tell)
        seen = tuple(Applied(provider_id=e.provider_id, receipt=e.receipt) for e in self.effects)
        if not seen:
            return Absent()
        return seen[0] if len(seen) == 1 else Several(seen)


@router.put("/guards/{action_id}", responses={200: {"model": Begun}})
def begin_guarded(request: Request, action_id: ActionId, body: GuardBody, principal: Principal = None) -> JSONResponse:
    """Claim an effect that the caller performs itself. `next` says what to do.

    `run`: it is claimed; perform it now, then complete. `verify`: it may have happened; ask the world, say what was
    found, then begin again. `replay`: it is settled, as the action says. `unknown`: only a person can tell. A 409
    says that somebody performs it now. With the same claim token again: the same claim.
    """
    may(request, Scope.PERFORM, body.kind)
    begun = guarding.begin(
        ledger(request),
        body.intent(str(action_id)),
        body.declared.value(),
        claim_token=str(body.claim_token),
        looked=body.looked,
        principal=who(request, principal),
    )
    return JSONResponse(begun.to_json())


@router.post("/actions/{action_id}/complete", responses={200: {"model": Action}})
def complete_guarded(request: Request, action_id: ActionId, body: CompleteBody) -> JSONResponse:
    """What became of a claim, told by whoever has its token: at any time, at any epoch, any number of times."""
    may_touch(request, Scope.PERFORM, str(action_id))
    action = guarding.complete(ledger(request), str(action_id), str(body.claim_token), body.value())
    return JSONResponse(action.to_json())


@router.post("/actions/{action_id}/found", responses={200: {"model": Action}})
def found_guarded(request: Request, action_id: ActionId, body: FoundBody) -> JSONResponse:
    """What the world said about an UNKNOWN action of a guard. Nothing, when the record has moved on since."""
    may_touch(request, Scope.PERFORM, str(action_id))
    action = guarding.found(
        ledger(request),
        str(action_id),
        body.value(),
        body.declared.value(),
        version=body.version,
        asked_at=body.asked_at,
    )
    return JSONResponse(action.to_json())
