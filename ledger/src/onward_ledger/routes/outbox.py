"""The outbox: what the service has still to perform by itself, and dead letters that a person lets be tried again."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from onward_ledger.action import Action
from onward_ledger.callers import Scope
from onward_ledger.routes.actions import ActionList
from onward_ledger.routes.common import ActionId, Limit, Principal, ledger, may, person
from onward_ledger.wire import RetryBody

router = APIRouter()


@router.get("/outbox", responses={200: {"model": ActionList}})
def list_outbox(
    request: Request,
    dead: bool | None = None,
    run_id: UUID | None = None,
    after: UUID | None = None,
    limit: Limit = 100,
) -> JSONResponse:
    """What is in the outbox, in the order of its storing, behind the action `after`; `dead` waits for a person."""
    may(request, Scope.READ)
    found = ledger(request).store.outbox.entries(
        dead=dead,
        run_id=str(run_id) if run_id else None,
        after=str(after) if after else None,
        limit=limit,
    )
    return JSONResponse({"actions": [action.to_json() for action in found]})


@router.post("/outbox/{action_id}/retry", responses={200: {"model": Action}})
def retry(request: Request, action_id: ActionId, body: RetryBody, principal: Principal = None) -> JSONResponse:
    """Let a dead letter be tried again, with all its attempts. What is not dead is answered as it stands."""
    may(request, Scope.OPERATE)
    name, _ = person(request, principal)
    action = ledger(request).store.outbox.retry(str(action_id), principal=name, reason=body.reason)
    ledger(request).stored.set()
    return JSONResponse(action.to_json())
