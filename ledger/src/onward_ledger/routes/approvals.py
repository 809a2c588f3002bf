"""People: decisions, standing grants, and the feed of what was decided or settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from onward_ledger.action import Decision
from onward_ledger.callers import Scope
from onward_ledger.gate import caller
from onward_ledger.routes.common import ActionId, Limit, Principal, RunId, ledger, may, may_touch, person
from onward_ledger.store.approvals import Answer, Revocation
from onward_ledger.values import FeedItem, Grant
from onward_ledger.wire import DecisionBody, GrantBody, GrantRevocationBody, RevocationBody, small

router = APIRouter()


@dataclass(frozen=True, kw_only=True)
class FeedPage:
    """A page of the feed; the next one begins behind `cursor`."""

    cursor: int
    items: list[FeedItem]


@router.put("/approvals/{action_id}", responses={200: {"model": Decision}})
def decide(request: Request, action_id: ActionId, body: DecisionBody, principal: Principal = None) -> JSONResponse:
    """A person's decision. The first one stands; the same again is answered with it, another one is a 409.

    Where the kind asks for two approvers, the approval of another person is the second one.
    """
    may_touch(request, Scope.DECIDE, str(action_id))
    name, asserted = person(request, principal)
    answer = Answer(
        action_id=str(action_id),
        decision=body.decision,
        principal=name,
        principal_asserted=asserted,
        roles=caller(request).roles,
        request_hash=body.request_hash,
        reason=body.reason,
        changes=small("changes", body.changes) if body.changes is not None else None,
        expires_at=body.expires_at,
    )
    return JSONResponse(ledger(request).decide(answer).to_json())


@router.put("/grants/{run_id}", responses={200: {"model": Grant}})
def put_grant(request: Request, run_id: RunId, body: GrantBody, principal: Principal = None) -> JSONResponse:
    """A standing permission: the next `uses` actions of this kind (and resource) are approved when proposed."""
    may(request, Scope.DECIDE, body.kind)
    name, asserted = person(request, principal)
    grant = ledger(request).grant(
        str(run_id),
        kind=body.kind,
        resource=body.resource,
        principal=name,
        principal_asserted=asserted,
        roles=caller(request).roles,
        expires_at=body.expires_at,
        uses=body.uses,
    )
    return JSONResponse(grant.to_json())


@router.post("/approvals/{action_id}/revoke", responses={200: {"model": Decision}})
def revoke(request: Request, action_id: ActionId, body: RevocationBody, principal: Principal = None) -> JSONResponse:
    """Take an approval back before it was used: one's own, or with the scope operate anybody's."""
    operator = Scope.OPERATE in caller(request).scopes
    if not operator:
        may_touch(request, Scope.DECIDE, str(action_id))
    name, _ = person(request, principal)
    word = Revocation(action_id=str(action_id), principal=name, reason=body.reason, operator=operator)
    return JSONResponse(ledger(request).store.revoke(word).to_json())


@router.post("/grants/{run_id}/revoke", responses={200: {"model": Grant}})
def revoke_grant(
    request: Request, run_id: RunId, body: GrantRevocationBody, principal: Principal = None
) -> JSONResponse:
    """The person's own grant gives nothing any more. What it has approved stands, and can be revoked itself."""
    may(request, Scope.DECIDE, body.kind)
    name, _ = person(request, principal)
    grant = ledger(request).store.revoke_grant(str(run_id), kind=body.kind, resource=body.resource, principal=name)
    return JSONResponse(grant.to_json())


@router.get("/decisions", responses={200: {"model": FeedPage}})
def get_decisions(
    request: Request, after: Annotated[int, Query(ge=0, le=2**53)] = 0, limit: Limit = 100
) -> JSONResponse:
    """Decisions and resolutions behind a cursor, in the order of their commits: none is ever skipped."""
    may(request, Scope.READ)
    return JSONResponse(ledger(request).store.decisions(after, limit).to_json())
