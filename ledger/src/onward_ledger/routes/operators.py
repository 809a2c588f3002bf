"""Operators: settle what only a person can settle; and what a token is good for."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from onward_ledger.action import Action
from onward_ledger.callers import Scope, listed
from onward_ledger.gate import caller
from onward_ledger.routes.common import ActionId, Principal, ledger, may, person
from onward_ledger.store.operators import Resolution
from onward_ledger.values import Me
from onward_ledger.wire import ResolveBody, small

router = APIRouter()


@router.post("/actions/{action_id}/resolve", responses={200: {"model": Action}})
def resolve(request: Request, action_id: ActionId, body: ResolveBody, principal: Principal = None) -> JSONResponse:
    """An operator's word on an UNKNOWN action. The same word again is harmless."""
    may(request, Scope.OPERATE)
    name, _ = person(request, principal)
    word = Resolution(
        action_id=str(action_id),
        status=body.status,
        receipt=small("receipt", body.receipt) if body.receipt is not None else None,
        reason=body.reason,
        expected_version=body.expected_version,
        principal=name,
    )
    return JSONResponse(ledger(request).store.resolve(word).to_json())


@router.get("/me", responses={200: {"model": Me}})
def me(request: Request) -> JSONResponse:
    """What the token of this request stands for. Needs no scope."""
    known = caller(request)
    told = Me(
        name=known.name,
        scopes=listed(known.scopes),
        principal=known.principal,
        roles=sorted(known.roles),
        kinds=list(known.kinds),
    )
    return JSONResponse(told.to_json())
