"""HTTP/1.1 over a kept connection, as cheap as a client can be: one write per request, and a look for the end of it.

A client library would cost as much as the service. What is measured with this is the service; what a user's client adds
is a figure of its own.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """What the body says."""
        return json.loads(self.body)


def request(method: str, path: str, token: str, body: dict[str, Any] | None = None) -> bytes:
    """A whole request, ready to be sent."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: ledger\r\nauthorization: Bearer {token}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def take(buffer: bytearray) -> Reply | None:
    """The first answer in the buffer, which is removed from it; None while it is not complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(buffer[:end]).lower()
    at = head.find(b"content-length:")
    assert at >= 0, "the service states the length of every answer"
    length = int(head[at + 15 :].split(b"\r\n", 1)[0])
    whole = end + 4 + length
    if len(buffer) < whole:
        return None
    reply = Reply(int(head[9:12]), bytes(buffer[end + 4 : whole]))
    del buffer[:whole]
    return reply


class Wire:
    """One kept connection. `socket` and `buffer` are for whoever waits for several at once."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def ask(self, data: bytes) -> Reply:
        """Send a request and wait for its answer."""
        self.socket.sendall(data)
        while True:
            reply = self.receive()
            if reply is not None:
                return reply

    def receive(self) -> Reply | None:
        """What has come: an answer, or None while there is more to come."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("The service has closed the connection.")
        self.buffer += data
        return take(self.buffer)

    def close(self) -> None:
        """Close it."""
        self.socket.close()
