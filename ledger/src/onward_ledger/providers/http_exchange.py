"""One request and its answer, under one deadline, to a checked address, never sent twice.

What matters here is the line between "not written" and "may have been handled": `NotWritten` is raised while no byte
of the request was handed to the system, `Lost` from then on. The deadline is checked as the last act before that first
byte. Nothing is followed, retried, decoded or kept from one request to the next: no redirects, cookies or compression.

A connection that is kept for the next request may be closed by the server at the very moment in which it is used; then
nobody knows whether that request was handled. So connections are kept only where that costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpcore

from onward_ledger.providers.addresses import Guard, GuardedBackend
from onward_ledger.providers.interface import Deadline, DeadlinePassed

Headers = list[tuple[str, str]]

# The share of a deadline that is not spent on finding a connection.
KEPT_FOR_THE_REQUEST = 0.2

USER_AGENT = "onward-ledger"  # some APIs refuse requests without one; a header of the settings replaces it


class NotWritten(Exception):
    """No byte of the request was written: nothing happened."""


class Lost(Exception):
    """The request may have been handled; no whole answer came."""


class NotJson(Exception):
    """The body of an answer is not JSON."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an API is: `scheme` is http or https, `host` a name in ASCII or an address."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """As the Host header says it: an IPv6 address in brackets, and no port where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Request:
    """`target` is the quoted path with its query. Headers hold secrets and a body what it likes: they are not shown."""

    method: str
    target: str
    headers: Headers = field(repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`body` is what was read: all of it, unless `truncated`. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool

    @cached_property
    def digest(self) -> str:
        """The hex sha256 of what was read."""
        return hashlib.sha256(self.body).hexdigest()

    @cached_property
    def document(self) -> Any:
        """The JSON value of the body; NotJson where it is none, or was not read to its end."""
        if self.truncated:
            raise NotJson("The answer is too large to be read.")
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise NotJson("The answer is not JSON.") from None


@dataclass
class _Budget:
    """What one exchange may still take, and whether its first byte was handed to the system."""

    deadline: Deadline
    written: bool = False

    @property
    def seconds(self) -> float:
        """For the next wait; never 0, which a socket takes for "do not wait at all"."""
        return max(self.deadline.remaining, 0.001)

    @property
    def opening_seconds(self) -> float:
        """For the next wait while no connection is open.

        It ends before the deadline does: a host that does not answer is a definite "not sent", as long as there is
        somebody who waits for it; and what has no time left to be answered need not be sent.
        """
        return max(self.deadline.remaining - KEPT_FOR_THE_REQUEST * self.deadline.seconds, 0.001)


_budget: ContextVar[_Budget] = ContextVar("onward_ledger_http_budget")


class _Stream(httpcore.NetworkStream):
    """A connection whose waits end with the deadline of the exchange that uses it."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        budget = _budget.get()
        if budget.deadline.remaining <= 0:  # a server that answers byte by byte would go on for ever
            raise httpcore.ReadTimeout("The deadline passed.")
        return self._stream.read(max_bytes, budget.seconds)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        budget = _budget.get()
        if not budget.written:
            budget.deadline.check()
            budget.written = True
        self._stream.write(buffer, budget.seconds)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _budget.get().opening_seconds))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(GuardedBackend):
    """Guarded connections that know their deadline."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        seconds = _budget.get().opening_seconds
        return _Stream(super().connect_tcp(host, port, seconds, local_address, socket_options))


class _Connections:
    """Connections that are one thread's alone from before the first byte until the answer is read.

    httpcore's own pool judges by states that other threads change meanwhile: under load it closes connections on which
    a request is about to be written, and hands on some that were not to be kept.
    """

    def __init__(self, make: Callable[[], httpcore.HTTPConnection], *, most: int, keep: bool) -> None:
        self._make = make
        self._keep = keep
        self._free = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: list[httpcore.HTTPConnection] = []

    @contextmanager
    def one(self, timeout: float) -> Generator[httpcore.HTTPConnection]:
        """A connection, which may still have to be opened. NotWritten when none was free in time."""
        if not self._free.acquire(timeout=timeout):
            raise NotWritten("all connections are in use")
        connection = self._taken()
        try:
            yield connection
        finally:
            if self._keep and connection.is_idle() and not connection.has_expired():
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()
            self._free.release()

    def close(self) -> None:
        """Close those that are kept."""
        with self._lock:
            kept, self._idle = self._idle, []
        for connection in kept:
            connection.close()

    def _taken(self) -> httpcore.HTTPConnection:
        """The one that was used last, if it is still good: neither too old nor closed by the server."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._make()
            if not connection.has_expired():
                return connection
            connection.close()


class Exchange:
    """The connections of one provider. May be shared by threads; more than `connections` at once wait their turn."""

    def __init__(
        self,
        origin: Origin,
        guard: Guard,
        *,
        tls: ssl.SSLContext | None = None,
        keep_alive_seconds: float = 0.0,
        connections: int = 20,
        most_answer_bytes: int = 1024 * 1024,
    ) -> None:
        self.tls = tls
        self._origin = origin
        self._most_answer_bytes = most_answer_bytes
        backend = _Backend(guard)

        def make() -> httpcore.HTTPConnection:
            return httpcore.HTTPConnection(
                httpcore.Origin(origin.scheme.encode(), origin.host.encode(), origin.port),
                ssl_context=tls,
                keepalive_expiry=keep_alive_seconds,
                retries=0,
                network_backend=backend,
            )

        self._connections = _Connections(make, most=connections, keep=keep_alive_seconds > 0)

    def ask(self, request: Request, deadline: Deadline) -> Answer:
        """The answer to a request. NotWritten, Lost, or DeadlinePassed (before the first byte) where there is none."""
        budget = _Budget(deadline)
        token = _budget.set(budget)
        try:
            deadline.check()
            return self._asked(request, budget)
        except DeadlinePassed:
            raise
        except Exception as error:
            reason = _reason(error)
            if budget.written:
                raise Lost(f"The request was written, and no whole answer came: {reason}.") from None
            raise NotWritten(reason) from None
        finally:
            _budget.reset(token)

    def close(self) -> None:
        """Close what connections are kept."""
        self._connections.close()

    def _asked(self, request: Request, budget: _Budget) -> Answer:
        where = self._origin
        # In parts: as text it would be parsed again, and lose what stands behind a semicolon.
        url = httpcore.URL(scheme=where.scheme, host=where.host, port=where.port, target=request.target)
        sent = [("Host", where.authority), ("Accept-Encoding", "identity"), *request.headers]
        if not any(name.lower() == "user-agent" for name, _ in request.headers):
            sent.append(("User-Agent", USER_AGENT))
        headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in sent]
        content = None if request.method == "GET" else request.body
        with (
            self._connections.one(budget.opening_seconds) as connection,
            connection.stream(request.method, url, headers=headers, content=content) as response,
        ):
            body, truncated = self._read(response)
            names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            return Answer(status=response.status, headers=names, body=body, truncated=truncated)

    def _read(self, response: httpcore.Response) -> tuple[bytes, bool]:
        """The body, up to the limit; what lies behind it is never read."""
        body = bytearray()
        for part in response.iter_stream():
            body += part
            if len(body) > self._most_answer_bytes:
                return bytes(body[: self._most_answer_bytes]), True
        return bytes(body), False


def tls_context(
    *, ca_file: str | None = None, client_certificate: str | None = None, client_key: str | None = None
) -> ssl.SSLContext:
    """TLS 1.2 or newer; certificates are verified against the system's authorities, or against `ca_file` alone.

    OSError (ssl.SSLError is one) for a file that cannot be used.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_certificate is not None:
        # No password is asked for on a terminal: a key that is encrypted is an error.
        context.load_cert_chain(client_certificate, client_key, password=lambda: "")
    return context


def _reason(error: Exception) -> str:
    """What went wrong in a sentence without its full stop. h11 quotes headers in its errors, so they are left out."""
    if isinstance(error, httpcore.LocalProtocolError):
        return "the request is not valid HTTP"
    text = str(error).strip().rstrip(".")
    return text or type(error).__name__
