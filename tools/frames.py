"""Messages between two processes over a pipe: four bytes of length (big-endian), then JSON in UTF-8.

`Incoming` collects bytes as they come and does no input or output itself, so whoever waits decides how long.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Final

LONGEST: Final = 64 << 20  # bytes; a longer message is a broken sender, and is not read into memory
_LENGTH: Final = struct.Struct(">I")


class FrameError(Exception):
    """What came over the pipe is not a message of ours."""


class Incoming:
    """Bytes of one message as they arrive. `limit` is the greatest length of its JSON in bytes."""

    def __init__(self, limit: int = LONGEST) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """Take what arrived; give the message when it is whole, else None. Raises FrameError when it is too long."""
        self._bytes += data
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        if length > self._limit:
            raise FrameError(f"a message of {length} bytes, where {self._limit} are the limit")
        whole = _LENGTH.size + length
        return bytes(self._bytes[_LENGTH.size : whole]) if len(self._bytes) >= whole else None


def pack(value: object) -> bytes:
    """A value as a message, length first."""
    return framed(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())


def framed(message: bytes) -> bytes:
    """The JSON of a message with its length before it."""
    return _LENGTH.pack(len(message)) + message


def unpack(message: bytes) -> dict[str, Any]:
    """The object in a message. Raises FrameError when it is something else."""
    try:
        value = json.loads(message)
    except ValueError as error:
        raise FrameError(f"a message that is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FrameError("a message that is not an object")
    return value


def write(fd: int, data: bytes) -> None:
    """Write all bytes to a blocking pipe. Raises BrokenPipeError when nobody reads it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read(fd: int) -> bytes | None:
    """Wait for one message; None when the pipe ended before it was whole."""
    incoming = Incoming()
    while data := os.read(fd, 1 << 16):
        message = incoming.feed(data)
        if message is not None:
            return message
    return None
