"""What the routes share: the ledger behind a request, who sends it, and the parts of a path and a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

from fastapi import Header, Path, Query, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from onward_ledger import callers
from onward_ledger.action import Action, Status
from onward_ledger.callers import Scope
from onward_ledger.errors import BadRequest
from onward_ledger.gate import caller
from onward_ledger.ledger import Ledger
from onward_ledger.tokens import Tokens
from onward_ledger.values import Health

ActionId = Annotated[UUID, Path(description="uuid5 of the run and `<step>/<slot>`, `@<rev>` behind it where rev > 1")]
RunId = Annotated[UUID, Path()]
Principal = Annotated[
    str | None,
    Header(
        alias="X-Onward-Principal",
        description="Who speaks, percent-encoded UTF-8; recorded as asserted, unless the token proves it",
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000)]


@dataclass(frozen=True, kw_only=True)
class Service:
    """What the routes work on."""

    ledger: Ledger
    health: Health
    tokens: Tokens


def service(request: Request) -> Service:
    """The service that this application is."""
    return cast(Service, request.app.state.service)


def ledger(request: Request) -> Ledger:
    """The ledger of this service."""
    return service(request).ledger


async def known_query(request: Request) -> None:
    """BadRequest for a parameter that the route does not know, or that is given twice: `?propse=1` must not perform.

    Async, so that it needs no thread of its own.
    """
    route = cast(APIRoute, request.scope["route"])
    known = {field.alias for field in route.dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            options = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise BadRequest(f"This route does not know the query parameter {name[:100]!r}; {options}.")
        if given.count(name) > 1:
            raise BadRequest(f"The query parameter {name} is given twice.")


def may(request: Request, scope: Scope, kind: str | None = None) -> None:
    """Forbidden unless the caller's token is good for this."""
    caller(request).require(scope, kind)


def may_touch(request: Request, scope: Scope, action_id: str) -> None:
    """Like `may`, for a recorded action: NotFound when there is none of this id.

    The scope comes first, so that who lacks it cannot find out which actions there are.
    """
    found = caller(request)
    found.require(scope)
    if found.kinds:
        found.require(scope, ledger(request).store.action(action_id).kind)


def who(request: Request, header: str | None) -> str | None:
    """The person who speaks, where one is named."""
    return callers.who(caller(request), header)[0]


def person(request: Request, header: str | None) -> tuple[str, bool]:
    """The person of a route that needs one, and whether it is only asserted."""
    return callers.person(caller(request), header)


def answer(action: Action) -> JSONResponse:
    """202 while the action waits for something or somebody performs it, 200 for what stands."""
    waits = action.status in (Status.PREPARED, Status.IN_FLIGHT)
    return JSONResponse(action.to_json(), status_code=202 if waits else 200)
