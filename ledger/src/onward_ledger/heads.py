"""The server's reading of HTTP: uvicorn's parser in C, bounded in what it buffers before the gate sees a request.

It is faster than the one in Python, which has such a limit of its own, and which ignores a wish for another protocol.
"""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The address and the headers. Also what the server holds of a head, or of what is behind a body, that never ends.
LARGEST_HEAD_BYTES = 16 * 1024


class BoundedHeads(HttpToolsProtocol):
    """HTTP/1.1 whose heads, chunk extensions and trailers end, or the connection does.

    The parser itself keeps whatever comes, and nobody has shown a token by then. What comes in one piece is the gate's
    to refuse: it answers with a problem.
    """

    # uvicorn sets it to None when the connection is lost, and nothing is received then.
    parser: httptools.HttpRequestParser  # pyright: ignore[reportIncompatibleVariableOverride] - see above

    _unfinished = 0  # bytes since a request began, its head was complete, or a part of its body came

    def data_received(self, data: bytes) -> None:
        """Parse; behind too much that leads to nothing, refuse and hang up."""
        self._unset_keepalive_if_required()
        self._unfinished += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as behind:
            self.data_received(self._without_upgrade() + data[behind.args[0] :])
        except httptools.HttpParserError:
            self._refuse("Invalid HTTP request received.")
        if self._unfinished > LARGEST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._unfinished = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The gate takes over."""
        self._unfinished = 0
        if not self._wants_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A body has a limit of its own."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        self._unfinished = 0
        if not self._wants_upgrade():
            super().on_message_complete()

    def _wants_upgrade(self) -> bool:
        """Whether the parser stops behind this head: it takes what follows for another protocol.

        Clients that would like HTTP/2 ask so in their first request, body and all; they are served all the same.
        """
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _without_upgrade(self) -> bytes:
        """The head that was read, to be read again as one that wishes for no other protocol."""
        first = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        kept = (b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        return b"".join((first, *kept, b"\r\n"))

    def _refuse(self, why: str) -> None:
        self.logger.warning(why)
        self.send_400_response(why)
