"""The HTTP service: the application with its gate, its routes, and its errors told as problem details."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from onward_ledger import problems
from onward_ledger.gate import Gate
from onward_ledger.protocol import API_VERSION
from onward_ledger.routes import actions, approvals, fences, guards, keeping, operators, outbox
from onward_ledger.routes.common import Service, known_query, service
from onward_ledger.routes.lean import Lean
from onward_ledger.values import Health
from onward_ledger.wire import Problem

# Requests served at once. A send that hangs holds one until its deadline.
THREADS = 100

_DESCRIPTION = """\
Performs external effects, keeps their receipts, replays them, and never guesses.

Send the same request again whenever no answer came: every route is idempotent. Times are ISO 8601 with an offset.
Errors are problem details (RFC 9457) with `code`, `definite`, `terminal` and `retryable`.
"""

ROUTERS = (
    actions.router,
    fences.router,
    approvals.router,
    guards.router,
    operators.router,
    outbox.router,
    keeping.router,
)

router = APIRouter()


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
    problems.describe(app)
    app.include_router(router)
    # The gate checks the token before any route; this tells readers of the OpenAPI document about it.
    bearer = Security(HTTPBearer(auto_error=False))
    for each in ROUTERS:
        app.include_router(each, prefix="/v1", dependencies=[bearer, Depends(known_query)])
    if service is not None:
        app.state.service = service
        app.add_middleware(Lean, service=service)
        app.add_middleware(Gate, tokens=service.tokens)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncGenerator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


@router.get("/health", responses={200: {"model": Health}})
def health(request: Request) -> JSONResponse:
    """Which ledger answers. Needs no token."""
    found = service(request)
    watch = found.ledger.store.watch
    held = watch is not None and watch.identity.held_at is not None
    return JSONResponse(replace(found.health, held=held).to_json())
