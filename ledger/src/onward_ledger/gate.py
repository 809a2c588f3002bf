"""What every request passes before a route sees it: the service token, and the limit on its size."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onward_ledger.errors import LedgerError, TooLarge, Unauthorized
from onward_ledger.problems import problem

LARGEST_BODY_BYTES = 256 * 1024

# What anybody may read: who answers, and how to talk to it.
OPEN_PATHS = frozenset({"/health", "/openapi.json"})


class Gate:
    """ASGI middleware. A wrong token and a missing one take the same time and get the same answer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        error = self._refusal(scope)
        if error is not None:
            await problem(error)(scope, receive, send)
            return
        try:
            await self._app(scope, _limited(receive), send)
        except _BodyTooLarge:
            await problem(_too_large())(scope, receive, send)

    def _refusal(self, scope: Scope) -> LedgerError | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"authorization", b"")
        if scope["path"] not in OPEN_PATHS and not hmac.compare_digest(given, self._expected):
            return Unauthorized("The service token is missing or wrong: send Authorization: Bearer <token>.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY_BYTES:
            return _too_large()
        return None


def _too_large() -> TooLarge:
    return TooLarge(f"A request has at most {LARGEST_BODY_BYTES // 1024} KiB; stage bytes as objects.")


class _BodyTooLarge(BaseException):
    """A body without a stated length went over the limit. Not an Exception: no handler on the way may answer it."""


def _limited(receive: Receive) -> Receive:
    """`receive`, counting: a chunked body states no length."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY_BYTES:
            raise _BodyTooLarge
        return message

    return counted
