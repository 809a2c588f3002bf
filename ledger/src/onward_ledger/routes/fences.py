"""Fences: which epoch of a run may act, and whether the run may act at all."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from onward_ledger.callers import Scope
from onward_ledger.routes.common import Principal, RunId, ledger, may, person
from onward_ledger.values import Fence
from onward_ledger.wire import FenceBody

router = APIRouter()


@router.put("/fences/{run_id}", responses={200: {"model": Fence}})
def put_fence(request: Request, run_id: RunId, body: FenceBody, principal: Principal = None) -> JSONResponse:
    """Announce an epoch, so that older ones are refused; or close the fence, so that nothing more is performed.

    Answers every action recorded for the run. A closing has withdrawn what was PREPARED; what was claimed before it
    keeps its own outcome.
    """
    body.check()
    store = ledger(request).store
    if body.epoch is not None and body.holder is not None:
        may(request, Scope.PERFORM)
        return JSONResponse(store.announce(str(run_id), body.epoch, body.holder).to_json())
    may(request, Scope.OPERATE)
    assert body.reason is not None
    name, _ = person(request, principal)
    return JSONResponse(store.close_fence(str(run_id), name, body.reason).to_json())
