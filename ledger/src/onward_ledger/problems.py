"""Every error as problem details (RFC 9457): one shape, whatever went wrong."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from onward_ledger.action import Json
from onward_ledger.database import DatabaseError, Unreachable
from onward_ledger.errors import BadRequest, LedgerError, LedgerUnreachable, NotAllowed, NotFound, ServiceFault
from onward_ledger.masking import masked

log = logging.getLogger("onward_ledger")

MEDIA_TYPE = "application/problem+json"


def problem_body(error: LedgerError, *, errors: list[Json] | None = None) -> Json:
    """The members of the problem; those that are not known are left out."""
    members: Json = {
        "type": f"urn:onward-ledger:{error.code}",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": masked(error.message),
        "code": error.code,
        "definite": error.definite,
        "terminal": error.terminal,
        "retryable": error.retryable,
        "retry_after_seconds": error.retry_after_seconds,
        "fence_epoch": error.fence_epoch,
        "closed_at": error.closed_at.isoformat() if error.closed_at else None,
        "action": error.action.to_json() if error.action else None,
        "decision": error.decision.to_json() if error.decision else None,
        "errors": errors,
    }
    return {name: value for name, value in members.items() if value is not None}


def problem(error: LedgerError, *, errors: list[Json] | None = None) -> JSONResponse:
    """The answer that tells this error."""
    headers: dict[str, str] = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    body = problem_body(error, errors=errors)
    return JSONResponse(body, status_code=error.status, headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error of this application with a problem."""
    app.add_exception_handler(LedgerError, _known_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(DatabaseError, _known_error)
    app.add_exception_handler(Exception, _defect)


def describe(app: FastAPI) -> None:
    """Let the OpenAPI document say the media type of problems: FastAPI writes that of the good answers."""
    plain = app.openapi

    def openapi() -> Json:
        document = plain()
        for response in _responses(document):
            content = response.get("content", {})
            if "application/json" in content:
                content[MEDIA_TYPE] = content.pop("application/json")
        return document

    app.openapi = openapi


def _responses(document: Json) -> Iterator[Json]:
    """Those that tell an error, of every operation."""
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if status[0] in "45":
                    yield response


def _known_error(_: Request, error: Exception) -> JSONResponse:
    return told(cast(LedgerError | DatabaseError, error))


def _validation_error(_: Request, error: Exception) -> JSONResponse:
    found = cast(RequestValidationError, error).errors()
    listed: list[Json] = [{"where": ".".join(str(p) for p in e["loc"]), "what": str(e["msg"])} for e in found]
    message = "; ".join(f"{item['where']}: {item['what']}" for item in listed)
    return problem(BadRequest(message), errors=listed)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    status = cast(HTTPException, error).status_code
    if status == HTTPStatus.NOT_FOUND:
        return problem(NotFound(f"There is no route {request.url.path}."))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        answer = problem(NotAllowed(f"{request.url.path} does not take {request.method}."))
        answer.headers["Allow"] = ", ".join(_allowed(request, cast(HTTPException, error)))
        return answer
    return problem(BadRequest(str(cast(HTTPException, error).detail)))


def _allowed(request: Request, error: HTTPException) -> list[str]:
    """Every method that is documented for this path. The error knows those of one route only."""
    found = set((error.headers or {}).get("Allow", "").split(", ")) - {""}
    for path, operations in cast(FastAPI, request.app).openapi()["paths"].items():
        if compile_path(path)[0].match(request.url.path):
            found.update(method.upper() for method in operations)
    return sorted(found)


def told(error: LedgerError | DatabaseError) -> JSONResponse:
    """The answer to an error of the ledger, or of its database."""
    if isinstance(error, LedgerError):
        return problem(error)
    if isinstance(error, Unreachable):
        message = f"The ledger's database does not answer; send the same request again. {error}"
        return problem(LedgerUnreachable(message, retry_after_seconds=1.0))
    log.error("The database refused.", exc_info=error)
    return problem(ServiceFault(str(error)))


def _defect(_: Request, error: Exception) -> JSONResponse:
    # The server logs the traceback; the caller learns what it can do.
    return problem(ServiceFault("A defect in the ledger; its log has the details. The same request again is safe."))
