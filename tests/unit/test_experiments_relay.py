"""The relay: one address for whichever process serves, and a closed door where nobody does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from experiments.relay import Relay


class Echo:
    """A service that answers each line with its name, until it is closed or `silent`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.accepted: list[socket.socket] = []
        self.over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted.append(connection)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1 << 16):
                connection.sendall(f"{self.name}:".encode() + data)
        except OSError:
            pass
        self.over.set()

    def die(self) -> None:
        """As a killed process does: nobody listens, and every connection is closed."""
        for one in (self._listener, *self.accepted):
            with contextlib.suppress(OSError):  # it is at its end already
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay() as relay:
        yield relay


@pytest.fixture
def services() -> Iterator[list[Echo]]:
    services = [Echo("one"), Echo("two")]
    yield services
    for service in services:
        service.die()


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout=10)


def asked(connection: socket.socket, what: str = "x") -> str:
    """The answer, or nothing where the connection is at its end."""
    try:
        connection.sendall(what.encode())
        return connection.recv(1 << 16).decode()
    except (ConnectionResetError, BrokenPipeError):
        return ""


def test_where_nobody_serves_the_connection_is_closed_at_once(relay: Relay) -> None:
    with connect(relay) as connection:
        assert asked(connection) == ""


def test_where_the_target_is_dead_the_connection_is_closed_too(relay: Relay, services: list[Echo]) -> None:
    relay.target = services[0].port
    services[0].die()
    with connect(relay) as connection:
        assert asked(connection) == ""


def test_new_connections_go_to_the_new_target_and_old_ones_stay(relay: Relay, services: list[Echo]) -> None:
    one, two = services
    relay.target = one.port
    with connect(relay) as old:
        assert asked(old) == "one:x"
        relay.target = two.port
        with connect(relay) as new:
            assert (asked(new), asked(old)) == ("two:x", "one:x")
        relay.target = None
        assert asked(old) == "one:x"  # what was accepted is not cut: a service that falls silent keeps its callers
        with connect(relay) as refused:
            assert asked(refused) == ""
    assert relay.url == f"http://127.0.0.1:{relay.port}"


def test_the_death_of_the_service_ends_its_callers_connections(relay: Relay, services: list[Echo]) -> None:
    relay.target = services[0].port
    with connect(relay) as connection:
        assert asked(connection) == "one:x"
        services[0].die()
        assert connection.recv(1) == b""


def test_the_death_of_a_caller_is_seen_by_the_service(relay: Relay, services: list[Echo]) -> None:
    relay.target = services[0].port
    with connect(relay) as connection:
        assert asked(connection) == "one:x"
    assert services[0].over.wait(10)


def test_it_passes_on_every_byte(relay: Relay, services: list[Echo]) -> None:
    relay.target = services[0].port
    sent = bytes(range(256)) * 4096
    with connect(relay) as connection:
        got = b""
        threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
        while len(got.replace(b"one:", b"")) < len(sent):
            got += connection.recv(1 << 16)
    assert got.replace(b"one:", b"") == sent


def test_a_relay_that_ends_leaves_no_connection_open(services: list[Echo]) -> None:
    with Relay() as relay:
        relay.target = services[0].port
        connection = connect(relay)
        assert asked(connection) == "one:x"
    with connection:
        assert connection.recv(1) == b""
    with pytest.raises(OSError):
        connect(relay)
