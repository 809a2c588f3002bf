"""The requests that come all the time, answered without the framework: it takes longer over them than the ledger does.

An action is performed, or looked at, as nearly every client asks for it. Whatever is unusual about a request, and
whatever is wrong with it, is left to the route itself, which also describes it in the OpenAPI document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from onward_ledger import problems
from onward_ledger.callers import Caller
from onward_ledger.database import DatabaseError
from onward_ledger.errors import LedgerError
from onward_ledger.routes import actions
from onward_ledger.routes.common import Service
from onward_ledger.wire import ActionBody

_PATH = re.compile(r"/v1/actions/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


class Lean:
    """ASGI middleware between the gate, which leaves it the caller, and the routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._ledger = service.ledger

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """Answer a usual request; hand on any other."""
        usual = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and not scope["query_string"] else None
        if usual is None or scope["method"] not in ("PUT", "GET"):
            await self._app(scope, receive, send)
            return
        caller, action_id = scope["state"]["caller"], usual[1]
        if scope["method"] == "GET":
            answer = await _threaded(partial(actions.look, self._ledger, caller, action_id))
        else:
            messages = await _whole(receive)
            answer = await _threaded(partial(self._put, scope, caller, action_id, messages))
            receive = _again(messages, receive)
        await (answer or self._app)(scope, receive, send)

    def _put(self, scope: Asgi, caller: Caller, action_id: str, messages: list[Message]) -> Response | None:
        headers = _first(scope["headers"])
        body = _body(messages) if headers.get(b"content-type") == b"application/json" else None
        if body is None:
            return None
        principal = headers.get(b"x-onward-principal")
        who = principal.decode("latin-1") if principal is not None else None
        return actions.put(self._ledger, caller, action_id, body, principal=who)


def _first(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Of a header that comes twice the first one counts, as it does for the routes."""
    return dict(reversed(headers))


async def _threaded(work: Callable[[], Response | None]) -> Response | None:
    return await anyio.to_thread.run_sync(_told, work)


def _told(work: Callable[[], Response | None]) -> Response | None:
    try:
        return work()
    except (LedgerError, DatabaseError) as error:
        return problems.told(error)


async def _whole(receive: Receive) -> list[Message]:
    """What comes until the body is complete, or the client is gone."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """`receive` for who asks after us."""
    left = messages[::-1]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def _body(messages: list[Message]) -> ActionBody | None:
    """The body of a whole request; None for one that the route has to complain about."""
    if messages[-1]["type"] != "http.request":
        return None
    try:
        value: Any = json.loads(b"".join(message.get("body", b"") for message in messages))
        return ActionBody.model_validate(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None
