"""The HTTP service: plain functions over the ledger.

A route reads its request, calls one method, and answers with the record. What can go wrong is an error of
`onward_ledger.errors`, told as problem details.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Header, Path, Query, Request, Security
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from onward_ledger import problems
from onward_ledger.action import Action, Decision, Status
from onward_ledger.errors import BadRequest
from onward_ledger.gate import Gate
from onward_ledger.ledger import Ledger
from onward_ledger.protocol import API_VERSION
from onward_ledger.store.approvals import Answer
from onward_ledger.store.operators import Resolution
from onward_ledger.values import Event, FeedItem, Fence, Grant, Health
from onward_ledger.wire import (
    ActionBody,
    DecisionBody,
    FenceBody,
    GrantBody,
    Problem,
    ResolveBody,
    WithdrawBody,
    small,
)

# Requests served at once. A send that hangs holds one until its deadline.
THREADS = 100

_DESCRIPTION = """\
Performs external effects, keeps their receipts, replays them, and never guesses.

Send the same request again whenever no answer came: every route is idempotent. Times are ISO 8601 with an offset.
Errors are problem details (RFC 9457) with `code`, `definite`, `terminal` and `retryable`.
"""

ActionId = Annotated[UUID, Path(description="uuid5 of the run and `<step>/<slot>`, `@<rev>` behind it where rev > 1")]
RunId = Annotated[UUID, Path()]
Principal = Annotated[
    str | None,
    Header(alias="X-Onward-Principal", description="Who speaks, percent-encoded UTF-8; recorded as asserted"),
]
Limit = Annotated[int, Query(ge=1, le=1000)]


@dataclass(frozen=True, kw_only=True)
class ActionList:
    """A page of actions; the next one begins behind the last id."""

    actions: list[Action]


@dataclass(frozen=True, kw_only=True)
class EventList:
    """A whole history."""

    events: list[Event]


@dataclass(frozen=True, kw_only=True)
class FeedPage:
    """A page of the feed; the next one begins behind `cursor`."""

    cursor: int
    items: list[FeedItem]


@dataclass(frozen=True, kw_only=True)
class Service:
    """What the routes work on."""

    ledger: Ledger
    health: Health
    token: str


router = APIRouter()

# The gate checks the token before any route; this tells readers of the OpenAPI document about it.
v1 = APIRouter(dependencies=[Security(HTTPBearer(auto_error=False))])


def create_app(service: Service | None) -> FastAPI:
    """The application. Without a service it can only be described: its OpenAPI document needs no database."""
    app = FastAPI(
        title="onward-ledger",
        version=API_VERSION,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}},
        generate_unique_id_function=_operation_id,
    )
    problems.install(app)
    app.include_router(router)
    app.include_router(v1)
    if service is not None:
        app.state.service = service
        app.add_middleware(Gate, token=service.token)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncGenerator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


def _ledger(request: Request) -> Ledger:
    return _service(request).ledger


def _who(principal: str | None) -> str | None:
    if principal is None:
        return None
    name = urllib.parse.unquote(principal).strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise BadRequest("X-Onward-Principal must be 1 to 200 printable characters.")
    return name


def _person(principal: str | None) -> str:
    """The principal of a route that needs one."""
    name = _who(principal)
    if name is None:
        raise BadRequest("A person's word needs a person: send X-Onward-Principal.")
    return name


def _answer(action: Action) -> JSONResponse:
    """202 while the action waits for something, 200 for what stands."""
    return JSONResponse(action.to_json(), status_code=202 if action.status is Status.PREPARED else 200)


@router.get("/health", responses={200: {"model": Health}})
def health(request: Request) -> JSONResponse:
    """Which ledger answers. Needs no token."""
    return JSONResponse(_service(request).health.to_json())


@v1.put("/v1/actions/{action_id}", responses={200: {"model": Action}, 202: {"model": Action}})
def put_action(
    request: Request, action_id: ActionId, body: ActionBody, propose: bool = False, principal: Principal = None
) -> JSONResponse:
    """Create or replay: the action is performed once, however often this is asked. `propose=1` stops at PREPARED.

    200 is what stands (SUCCEEDED, FAILED, UNKNOWN, WITHDRAWN), 202 a PREPARED record that waits for an approval.
    """
    intent = body.intent(str(action_id))
    return _answer(_ledger(request).put(intent, propose=propose, principal=_who(principal)))


@v1.get("/v1/actions/{action_id}", responses={200: {"model": Action}})
def get_action(request: Request, action_id: ActionId) -> JSONResponse:
    """One action, with the decision that stands for it."""
    return JSONResponse(_ledger(request).store.action(str(action_id)).to_json())


@v1.get("/v1/actions", responses={200: {"model": ActionList}})
def list_actions(
    request: Request,
    run_id: UUID | None = None,
    step: str | None = None,
    slot: str | None = None,
    status: Status | None = None,
    after: UUID | None = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Actions in the order of their creation, behind the action `after`."""
    found = _ledger(request).store.actions(
        run_id=str(run_id) if run_id else None,
        step=step,
        slot=slot,
        status=status,
        after=str(after) if after else None,
        limit=limit,
    )
    return JSONResponse({"actions": [action.to_json() for action in found]})


@v1.get("/v1/actions/{action_id}/events", responses={200: {"model": EventList}})
def get_events(request: Request, action_id: ActionId) -> JSONResponse:
    """The history of one action, oldest first; each event holds the hash of the one before."""
    return JSONResponse({"events": [event.to_json() for event in _ledger(request).store.events(str(action_id))]})


@v1.post("/v1/actions/{action_id}/reconcile", responses={200: {"model": Action}})
def reconcile(request: Request, action_id: ActionId) -> JSONResponse:
    """Settle an action in flight or unknown as far as its provider can tell; others are answered as they are."""
    return JSONResponse(_ledger(request).reconcile(str(action_id)).to_json())


@v1.post("/v1/actions/{action_id}/resolve", responses={200: {"model": Action}})
def resolve(request: Request, action_id: ActionId, body: ResolveBody, principal: Principal = None) -> JSONResponse:
    """An operator's word on an UNKNOWN action. The same word again is harmless."""
    word = Resolution(
        action_id=str(action_id),
        status=body.status,
        receipt=small("receipt", body.receipt) if body.receipt is not None else None,
        reason=body.reason,
        expected_version=body.expected_version,
        principal=_person(principal),
    )
    return JSONResponse(_ledger(request).store.resolve(word).to_json())


@v1.post("/v1/actions/{action_id}/withdraw", responses={200: {"model": Action}})
def withdraw(request: Request, action_id: ActionId, body: WithdrawBody, principal: Principal = None) -> JSONResponse:
    """Take back a PREPARED action."""
    action = _ledger(request).store.withdraw(str(action_id), _who(principal), body.reason)
    return JSONResponse(action.to_json())


@v1.put("/v1/fences/{run_id}", responses={200: {"model": Fence}})
def put_fence(request: Request, run_id: RunId, body: FenceBody, principal: Principal = None) -> JSONResponse:
    """Announce an epoch, so that older ones are refused; or close the fence, so that nothing more is performed.

    Answers every action recorded for the run. A closing has withdrawn what was PREPARED; what was claimed before it
    keeps its own outcome.
    """
    body.check()
    store = _ledger(request).store
    if body.epoch is not None and body.holder is not None:
        return JSONResponse(store.announce(str(run_id), body.epoch, body.holder).to_json())
    assert body.reason is not None
    return JSONResponse(store.close_fence(str(run_id), _person(principal), body.reason).to_json())


@v1.put("/v1/approvals/{action_id}", responses={200: {"model": Decision}})
def decide(request: Request, action_id: ActionId, body: DecisionBody, principal: Principal = None) -> JSONResponse:
    """A person's decision. The first one stands; the same again is answered with it, another one is a 409."""
    answer = Answer(
        action_id=str(action_id),
        decision=body.decision,
        principal=_person(principal),
        request_hash=body.request_hash,
        reason=body.reason,
        changes=small("changes", body.changes) if body.changes is not None else None,
        expires_at=body.expires_at,
    )
    return JSONResponse(_ledger(request).decide(answer).to_json())


@v1.put("/v1/grants/{run_id}", responses={200: {"model": Grant}})
def put_grant(request: Request, run_id: RunId, body: GrantBody, principal: Principal = None) -> JSONResponse:
    """A standing permission: the next `uses` actions of this kind (and resource) are approved when proposed."""
    grant = _ledger(request).grant(
        str(run_id),
        kind=body.kind,
        resource=body.resource,
        principal=_person(principal),
        expires_at=body.expires_at,
        uses=body.uses,
    )
    return JSONResponse(grant.to_json())


@v1.get("/v1/decisions", responses={200: {"model": FeedPage}})
def get_decisions(
    request: Request, after: Annotated[int, Query(ge=0, le=2**53)] = 0, limit: Limit = 100
) -> JSONResponse:
    """Decisions and resolutions behind a cursor, in the order of their commits: none is ever skipped."""
    return JSONResponse(_ledger(request).store.decisions(after, limit).to_json())
