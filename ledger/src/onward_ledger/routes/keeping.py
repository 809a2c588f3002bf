"""Keeping the ledger: which one it is, whether it may send, holding it and releasing it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from onward_ledger.callers import Scope
from onward_ledger.keeping import LOOK_FIRST_DAYS, Identity
from onward_ledger.routes.common import Principal, ledger, may, person
from onward_ledger.wire import Body, Reason

router = APIRouter()


class HoldBody(Body):
    """Why nothing may be sent."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "a backup is restored"}]})

    reason: Reason


class ReleaseBody(Body):
    """Why it may send again, and for how long first sends are looked up before."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"reason": "compared with the bank's statement", "look_first_days": 30}]},
    )

    reason: Reason
    look_first_days: Annotated[float, Field(ge=0, le=3650)] = LOOK_FIRST_DAYS


@router.get("/ledger", responses={200: {"model": Identity}})
def get_ledger(request: Request) -> JSONResponse:
    """Which ledger this is, and whether it may send."""
    may(request, Scope.READ)
    return JSONResponse(ledger(request).store.identity().to_json())


@router.post("/ledger/hold", responses={200: {"model": Identity}})
def hold(request: Request, body: HoldBody, principal: Principal = None) -> JSONResponse:
    """Nothing is claimed from now on, by any service of this ledger. The first reason stands."""
    may(request, Scope.OPERATE)
    name, _ = person(request, principal)
    return JSONResponse(ledger(request).store.hold(f"{body.reason} ({name})").to_json())


@router.post("/ledger/release", responses={200: {"model": Identity}})
def release(request: Request, body: ReleaseBody, principal: Principal = None) -> JSONResponse:
    """It may send again. For the given days a first send is looked up before, where its kind has a look-up."""
    may(request, Scope.OPERATE)
    name, _ = person(request, principal)
    released = ledger(request).store.release(name, body.reason, body.look_first_days)
    return JSONResponse(released.to_json())
