"""What every request passes before a route sees it: the tokens, and the limit on its size."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from onward_ledger.callers import Caller
from onward_ledger.errors import LedgerError, TooLarge, Unauthorized
from onward_ledger.heads import LARGEST_HEAD_BYTES
from onward_ledger.problems import problem
from onward_ledger.tokens import Tokens

log = logging.getLogger("onward_ledger")

LARGEST_BODY_BYTES = 256 * 1024

# What anybody may read: who answers, and how to talk to it.
OPEN_PATHS = frozenset({"/health", "/openapi.json"})

# Whoever guesses tokens must not fill the log's disk, nor our memory by coming from many addresses.
LOG_PAUSE_SECONDS = 1.0
MOST_PEERS = 1000


def caller(request: HTTPConnection) -> Caller:
    """Who sends this request, as the gate has found out. For routes: `caller(request).require("decide", kind)`."""
    return cast(Caller, request.state.caller)


class Gate:
    """ASGI middleware. A wrong token and a missing one take the same time and get the same answer.

    Whether a token is good for a route is the route's question: the gate leaves a Caller in the request's state.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens
        self._strangers = Strangers()

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
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

    def _refusal(self, scope: Asgi) -> LedgerError | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        size = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
        if size > LARGEST_HEAD_BYTES:
            return TooLarge(f"The address and headers of a request have at most {LARGEST_HEAD_BYTES // 1024} KiB.")
        if scope["path"] not in OPEN_PATHS:
            found = self._tokens.caller(_bearer(headers.get(b"authorization", b"")))
            if found is None:
                self._strangers.note(str((scope.get("client") or ("?",))[0]))
                return Unauthorized("The service token is missing or wrong: send Authorization: Bearer <token>.")
            cast(dict[str, Any], scope.setdefault("state", {}))["caller"] = found
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY_BYTES:
            return _too_large()
        return None


@dataclass
class Strangers:
    """Counts requests without a good token by the peer's address, and tells of each peer once a second at most."""

    clock: Callable[[], float] = time.monotonic
    total: int = 0
    _peers: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def note(self, peer: str) -> None:
        """One more from this peer. What it sent instead of a token is not told."""
        self.total += 1
        count, told_at = self._peers.pop(peer, (0, float("-inf")))
        count, now = count + 1, self.clock()
        if now - told_at >= LOG_PAUSE_SECONDS:
            log.warning("A request from %s had no good token; its number %d.", peer, count)
            told_at = now
        self._peers[peer] = (count, told_at)
        if len(self._peers) > MOST_PEERS:
            del self._peers[next(iter(self._peers))]  # the one that has been quiet for longest


def _bearer(header: bytes) -> bytes:
    scheme, _, token = header.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


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
