"""People: decisions, standing grants, and the feed of what was decided or settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from onward_ledger.action import Decision
from onward_ledger.callers import Scope
from onward_ledger.routes.common import ActionId, Limit, Principal, RunId, kind_of, ledger, may, person
from onward_ledger.store.approvals import Answer
from onward_ledger.values import FeedItem, Grant
from onward_ledger.wire import DecisionBody, GrantBody, small

router = APIRouter()


@dataclass(frozen=True, kw_only=True)
class FeedPage:
    """A page of the feed; the next one begins behind `cursor`."""

    cursor: int
    items: list[FeedItem]


@router.put("/approvals/{action_id}", responses={200: {"model": Decision}})
def decide(request: Request, action_id: ActionId, body: DecisionBody, principal: Principal = None) -> JSONResponse:
    """A person's decision. The first one stands; the same again is answered with it, another one is a 409."""
    may(request, Scope.DECIDE, kind_of(request, str(action_id)))
    name, asserted = person(request, principal)
    answer = Answer(
        action_id=str(action_id),
        decision=body.decision,
        principal=name,
        principal_asserted=asserted,
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
        expires_at=body.expires_at,
        uses=body.uses,
    )
    return JSONResponse(grant.to_json())


@router.get("/decisions", responses={200: {"model": FeedPage}})
def get_decisions(
    request: Request, after: Annotated[int, Query(ge=0, le=2**53)] = 0, limit: Limit = 100
) -> JSONResponse:
    """Decisions and resolutions behind a cursor, in the order of their commits: none is ever skipped."""
    may(request, Scope.READ)
    return JSONResponse(ledger(request).store.decisions(after, limit).to_json())
