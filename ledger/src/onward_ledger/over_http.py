"""Requests and answers of the protocol in httpx's terms, for both clients."""

from __future__ import annotations

import urllib.parse
from typing import Any

import httpx

from onward_ledger.protocol import Answer, Lost, Request


def _encoded(principal: str) -> str:
    """Headers are ASCII, people's names are not: percent-encoded UTF-8."""
    return urllib.parse.quote(principal, safe=" @+-._")


def headers(token: str, principal: str | None) -> dict[str, str]:
    """The headers of every request of a client."""
    authorization = {"Authorization": f"Bearer {token}"}
    return authorization if principal is None else authorization | {"X-Onward-Principal": _encoded(principal)}


def arguments(request: Request) -> dict[str, Any]:
    """A request of the protocol as httpx takes it."""
    own = {"X-Onward-Principal": _encoded(request.principal)} if request.principal is not None else {}
    return {"method": request.method, "url": request.path, "json": request.body, "headers": own}


def answer(response: httpx.Response) -> Answer:
    """What came back, as the protocol reads it."""
    retry_after = response.headers.get("Retry-After")
    return Answer(status=response.status_code, body=response.content, retry_after=retry_after)


def lost(error: Exception) -> Lost:
    """No answer came; whether the request arrived is unknown."""
    return Lost(str(error) or type(error).__name__)
