"""Requests over HTTP: `send` until the last byte has left, `answer` until it has come back whole.

Between the two the other side may do anything: a process that dies there has asked and will never know.
"""

from __future__ import annotations

import functools
import http.client
import re
from collections.abc import Callable
from typing import Any

from experiments.boundaries import Operation, Watch

_ANY_ID = re.compile(r"/[0-9a-f]{8}-[0-9a-f-]{27}|/[0-9a-f]{16,}|/\d+")


def install(watch: Watch) -> None:
    """Watch httpx (sync and async) and http.client (urllib, requests) in this process."""
    import httpx

    httpx.HTTPTransport.handle_request = _sending(watch, httpx.HTTPTransport.handle_request)
    httpx.AsyncHTTPTransport.handle_async_request = _sending_async(watch, httpx.AsyncHTTPTransport.handle_async_request)
    http.client.HTTPConnection.request = _requesting(watch, http.client.HTTPConnection.request)
    http.client.HTTPConnection.getresponse = _answering(watch, http.client.HTTPConnection.getresponse)


def request_label(method: str, path: str) -> str:
    """`PUT /v1/actions/*`: without ids, which differ from run to run."""
    return f"{method} {_ANY_ID.sub('/*', path.partition('?')[0])}"


class _Phases:
    """One request: sending it, then its answer. What httpcore tells of itself separates the two."""

    def __init__(self, watch: Watch, request: Any) -> None:
        self._watch = watch
        self._label = request_label(request.method, request.url.path)
        self._current: Operation = watch.begin(f"send {self._label}")

    def told(self, event: str) -> None:
        """An event of httpcore's trace extension."""
        if event.endswith("receive_response_headers.started"):
            self._current.end()
            self._current = self._watch.begin(f"answer to {self._label}")

    def over(self) -> None:
        """The answer is there, or nothing will come."""
        self._current.end()


def _sending(watch: Watch, handle: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handle)
    def handling(self: Any, request: Any) -> Any:
        phases = _Phases(watch, request)
        others = request.extensions.get("trace")

        def trace(event: str, info: dict[str, Any]) -> None:
            phases.told(event)
            if others is not None:
                others(event, info)

        request.extensions = {**request.extensions, "trace": trace}
        try:
            return handle(self, request)
        finally:
            phases.over()

    return handling


def _sending_async(watch: Watch, handle: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handle)
    async def handling(self: Any, request: Any) -> Any:
        phases = _Phases(watch, request)
        others = request.extensions.get("trace")

        async def trace(event: str, info: dict[str, Any]) -> None:
            phases.told(event)
            if others is not None:
                await others(event, info)

        request.extensions = {**request.extensions, "trace": trace}
        try:
            return await handle(self, request)
        finally:
            phases.over()

    return handling


def _requesting(watch: Watch, request: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(request)
    def requesting(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        self._onward_label = request_label(method, re.sub(r"^\w+://[^/]+", "", url) or "/")
        with watch.operation(f"send {self._onward_label}"):
            return request(self, method, url, *args, **kwargs)

    return requesting


def _answering(watch: Watch, getresponse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(getresponse)
    def answering(self: Any) -> Any:
        with watch.operation(f"answer to {getattr(self, '_onward_label', 'request')}"):
            return getresponse(self)

    return answering
