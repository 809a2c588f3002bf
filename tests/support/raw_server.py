"""A server on loopback that does with each connection what a test says: the bytes, the waits and the cuts are its."""

import socket
import threading
from contextlib import contextmanager, suppress


class Peer:
    """One connection, at the server's end."""

    def __init__(self, connection, requests):
        self.connection = connection
        self._requests = requests
        self._rest = b""

    def request(self) -> bytes | None:
        """The next whole request (with Content-Length), or None where the client is gone."""
        data = self._rest
        while b"\r\n\r\n" not in data or len(data) < _length(data):
            more = self.connection.recv(65536)
            if not more:
                return None
            data += more
        whole, self._rest = data[: _length(data)], data[_length(data) :]
        self._requests.append(whole)
        return whole

    def say(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.sendall(part)


def _length(data: bytes) -> int:
    head = data.partition(b"\r\n\r\n")[0]
    lines = [line.split(b":", 1) for line in head.split(b"\r\n")[1:]]
    length = next((int(value) for name, value in lines if name.lower() == b"content-length"), 0)
    return len(head) + 4 + length


class RawServer:
    """`port`; `requests` are all that arrived whole; `connections` counts what was accepted."""

    def __init__(self, listening, script):
        self.port = listening.getsockname()[1]
        self.requests: list[bytes] = []
        self.connections = 0
        self._listening = listening
        self._script = script
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection, number):
        # The client may go away, which is what many of the tests are about.
        with connection, suppress(OSError):
            self._script(Peer(connection, self.requests), number)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)


@contextmanager
def raw_server(script):
    """`script(peer, number)` runs for each connection, which is closed behind it."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = RawServer(listening, script)
    try:
        yield server
    finally:
        server.close()
