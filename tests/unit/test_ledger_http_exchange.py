"""One request at a server whose every byte is scripted: what is definite, what is not, and how long it may take."""

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from ipaddress import ip_network

import pytest

from onward_ledger.providers.addresses import Guard
from onward_ledger.providers.http_exchange import Exchange, Lost, NotJson, NotWritten, Origin, Request, tls_context
from onward_ledger.providers.interface import Deadline, DeadlinePassed
from tests.support.raw_server import raw_server

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
POST = Request(method="POST", target="/things;v=1?a=b", headers=[("X-Token", "s3cret-value")], body=b'{"a":1}')
LOCAL = [ip_network("127.0.0.0/8")]


def exchange(port, *, host="api.example.com", resolve=lambda host, port: ["127.0.0.1"], **options):
    options.setdefault("keep_alive_seconds", 0.0)
    origin = Origin(scheme="http", host=host, port=port)
    return closing(Exchange(origin, Guard([host], LOCAL, resolve=resolve), **options))


def one_answer(*parts):
    """Answer every request of a connection the same way."""

    def script(peer, number):
        while peer.request():
            peer.say(*(parts or (OK,)))

    return script


def test_the_request_is_what_was_asked_for_to_the_byte():
    with raw_server(one_answer()) as server, exchange(server.port) as api:
        answer = api.ask(POST, Deadline(5))
    assert (answer.status, answer.body, answer.truncated, answer.document) == (201, b"{}", False, {})
    assert server.requests == [
        b"POST /things;v=1?a=b HTTP/1.1\r\n"
        + f"Host: api.example.com:{server.port}\r\n".encode()
        + b"Accept-Encoding: identity\r\nX-Token: s3cret-value\r\nUser-Agent: onward-ledger\r\n"
        + b'Content-Length: 7\r\n\r\n{"a":1}'
    ]


def test_a_user_agent_of_the_settings_replaces_ours():
    with raw_server(one_answer()) as server, exchange(server.port) as api:
        api.ask(replace(POST, headers=[("user-agent", "acme/1.0")]), Deadline(5))
    assert server.requests[0].lower().count(b"user-agent") == 1 and b"acme/1.0" in server.requests[0]


def test_an_ipv6_host_is_written_in_brackets_and_the_usual_port_not_at_all():
    assert Origin(scheme="https", host="2a00::1", port=8443).authority == "[2a00::1]:8443"
    assert Origin(scheme="https", host="api.example.com", port=443).authority == "api.example.com"
    assert Origin(scheme="http", host="api.example.com", port=443).authority == "api.example.com:443"


def test_secrets_are_not_part_of_what_a_request_prints_as():
    assert "s3cret" not in repr(POST)


def test_nobody_listens_there_and_nothing_was_written():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with exchange(port) as api, pytest.raises(NotWritten, match="refused"):
        api.ask(POST, Deadline(5))


def test_an_address_that_is_not_allowed_is_never_connected_to():
    with (
        raw_server(one_answer()) as server,
        exchange(server.port, resolve=lambda host, port: ["10.0.0.1", "127.0.0.1"]) as api,
        pytest.raises(NotWritten, match=r"api.example.com leads to 10.0.0.1"),
    ):
        api.ask(POST, Deadline(5))
    assert server.connections == 0


def test_a_tls_handshake_that_fails_is_before_the_request():
    def script(peer, number):
        peer.connection.recv(100)
        peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    origin = Origin(scheme="https", host="api.example.com", port=0)
    with raw_server(script) as server:
        guard = Guard(["api.example.com"], LOCAL, resolve=lambda host, port: ["127.0.0.1"])
        with (
            closing(Exchange(replace(origin, port=server.port), guard, tls=tls_context())) as api,
            pytest.raises(NotWritten, match=r"(?i)ssl|tls|wrong version"),
        ):
            api.ask(POST, Deadline(5))


def test_a_tls_handshake_that_never_ends_ends_before_the_deadline():
    def script(peer, number):
        while peer.connection.recv(4096):
            pass

    with raw_server(script) as server:
        guard = Guard(["api.example.com"], LOCAL, resolve=lambda host, port: ["127.0.0.1"])
        origin = Origin(scheme="https", host="api.example.com", port=server.port)
        deadline = Deadline(1)
        with closing(Exchange(origin, guard, tls=tls_context())) as api, pytest.raises(NotWritten, match="timed out"):
            api.ask(POST, deadline)
        assert deadline.remaining > 0, "while there is still somebody who waits for it"


def test_certificates_are_verified_and_old_versions_are_not_spoken():
    import ssl

    context = tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def cut(*parts):
    def script(peer, number):
        peer.request()
        peer.say(*parts)

    return script


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ((), "disconnected without sending a response"),
        ((b"HTTP/1.1 201 Cr",), "whole answer"),
        ((b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{}",), "peer closed connection"),
        ((b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",), "peer closed connection"),
        ((b"what?\r\n\r\n",), "whole answer"),
        ((b"HTTP/1.1 100 Continue\r\n\r\n",), "whole answer"),
    ],
)
def test_a_connection_that_is_cut_behind_the_first_byte_leaves_it_open(parts, sentence):
    with raw_server(cut(*parts)) as server, exchange(server.port) as api, pytest.raises(Lost, match=sentence):
        api.ask(POST, Deadline(5))
    assert len(server.requests) == 1, "and it is not sent again"


def test_a_request_that_cannot_be_written_to_its_end_leaves_it_open():
    """The server closes while a large body is on its way: how much of it was handled is not known."""

    def script(peer, number):
        peer.connection.recv(100)
        peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    with raw_server(script) as server, exchange(server.port) as api, pytest.raises(Lost):
        api.ask(replace(POST, body=b"x" * 30_000_000), Deadline(5))


def test_an_answer_that_comes_before_the_whole_request_was_written_counts():
    """A server may refuse a large body early, and close."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def script(peer, number):
        peer.connection.recv(100)
        peer.say(refusal)
        while peer.connection.recv(65536):
            pass

    with raw_server(script) as server, exchange(server.port) as api:
        assert api.ask(replace(POST, body=b"x" * 3_000_000), Deadline(5)).status == 413


def test_a_server_that_never_answers_takes_no_longer_than_the_deadline():
    def script(peer, number):
        peer.request()
        peer.connection.recv(1)

    with raw_server(script) as server, exchange(server.port) as api:
        began = time.monotonic()
        with pytest.raises(Lost, match="timed out"):
            api.ask(POST, Deadline(0.2))
        assert 0.15 < time.monotonic() - began < 3


@pytest.mark.parametrize("head", [b"HTTP/1.1 201 Created\r\n", b"HTTP/1.1 201 Created\r\nContent-Length: 999\r\n\r\n"])
def test_a_server_that_answers_byte_by_byte_takes_no_longer_either(head):
    """A limit for each read would be met by every byte."""
    stop = threading.Event()

    def script(peer, number):
        peer.request()
        peer.say(head)
        while not stop.wait(0.02):
            peer.say(b"a")

    with raw_server(script) as server, exchange(server.port) as api:
        began = time.monotonic()
        with pytest.raises(Lost, match=r"deadline|timed out"):
            api.ask(POST, Deadline(0.3))
        assert 0.2 < time.monotonic() - began < 3
        stop.set()


def test_nor_does_one_that_never_pauses():
    """Whose next byte is always there: no limit of a single read, however short, would ever be met."""

    def script(peer, number):
        peer.request()
        peer.say(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.say(b"1\r\na\r\n" * 100)

    with raw_server(script) as server, exchange(server.port, most_answer_bytes=64 << 20) as api:
        began = time.monotonic()
        with pytest.raises(Lost, match="deadline"):
            api.ask(POST, Deadline(0.2))
        assert time.monotonic() - began < 3


class Passing(Deadline):
    """A deadline that passes at its second check, as for a process that was suspended in between."""

    def check(self):
        object.__setattr__(self, "checks", getattr(self, "checks", 0) + 1)
        if self.checks > 1:
            raise DeadlinePassed("too late")


def test_the_deadline_is_checked_as_the_last_act_before_the_first_byte():
    with raw_server(one_answer()) as server:
        with exchange(server.port) as api, pytest.raises(DeadlinePassed):
            api.ask(POST, Passing(10))
        while not server.connections:
            time.sleep(0.005)
        assert server.requests == []


def test_on_a_kept_connection_too():
    with raw_server(one_answer()) as server, exchange(server.port, keep_alive_seconds=30) as api:
        api.ask(POST, Deadline(5))
        with pytest.raises(DeadlinePassed):
            api.ask(POST, Passing(10))
        assert api.ask(POST, Deadline(5)).status == 201
        assert len(server.requests) == 2


def test_a_deadline_that_has_passed_opens_no_connection():
    with raw_server(one_answer()) as server:
        with exchange(server.port) as api, pytest.raises(DeadlinePassed):
            api.ask(POST, Deadline(5, began=time.monotonic() - 6))
        assert server.connections == 0


def ask_in_vain(api):
    with pytest.raises(Lost):
        api.ask(POST, Deadline(0.5))


def test_whoever_waits_for_a_free_connection_has_written_nothing():
    def script(peer, number):
        peer.request()
        peer.connection.recv(1)

    with raw_server(script) as server, exchange(server.port, connections=1) as api:
        first = threading.Thread(target=ask_in_vain, args=(api,))
        first.start()
        while not server.requests:
            time.sleep(0.005)
        deadline = Deadline(0.2)
        with pytest.raises(NotWritten):
            api.ask(POST, deadline)
        assert deadline.remaining > 0
        first.join()
        assert len(server.requests) == 1


def test_a_host_that_does_not_resolve_in_time_is_a_definite_no_before_the_deadline():
    gone = threading.Event()
    deadline = Deadline(0.2)
    with exchange(1, resolve=lambda host, port: gone.wait(20)) as api, pytest.raises(NotWritten, match="in time"):
        api.ask(POST, deadline)
    assert deadline.remaining > 0
    gone.set()


@pytest.mark.parametrize("keep_alive_seconds", [30.0, 0.0])
def test_many_threads_share_the_connections_and_each_has_its_own(keep_alive_seconds):
    """No answer is another's, no connection is closed under a request, and none is kept that is not to be."""

    def script(peer, number):
        while request := peer.request():
            body = request.partition(b"\r\n\r\n")[2]
            peer.say(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with (
        raw_server(script) as server,
        exchange(server.port, keep_alive_seconds=keep_alive_seconds, connections=8) as api,
    ):

        def ask(number):
            return api.ask(replace(POST, body=b'{"n":%d}' % number), Deadline(20)).document["n"]

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(ask, range(300))) == list(range(300))
        assert len(server.requests) == 300
        assert server.connections == 300 if keep_alive_seconds == 0 else server.connections <= 8


def test_an_answer_is_read_up_to_its_limit():
    body = b"[" + b"1," * 5000 + b"1]"
    large = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with raw_server(one_answer(large)) as server, exchange(server.port, most_answer_bytes=1024) as api:
        answer = api.ask(POST, Deadline(5))
    assert (answer.status, answer.truncated, answer.body) == (201, True, body[:1024])
    with pytest.raises(NotJson):
        _ = answer.document


def test_an_answer_of_just_the_limit_is_whole():
    exact = b"HTTP/1.1 201 Created\r\nContent-Length: 1024\r\n\r\n" + b'"' + b"x" * 1022 + b'"'
    with raw_server(one_answer(exact)) as server, exchange(server.port, most_answer_bytes=1024) as api:
        answer = api.ask(POST, Deadline(5))
    assert answer.document == "x" * 1022


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"\xff\xfe", b""])
def test_a_body_that_is_no_json_says_so(body):
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with raw_server(one_answer(said)) as server, exchange(server.port) as api:
        answer = api.ask(POST, Deadline(5))
    with pytest.raises(NotJson):
        _ = answer.document


def test_a_redirect_is_an_answer_and_is_not_followed():
    moved = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with raw_server(one_answer(moved)) as server, exchange(server.port) as api:
        assert api.ask(POST, Deadline(5)).status == 307
        assert len(server.requests) == 1


def test_a_cookie_is_not_given_back():
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1\r\nContent-Length: 0\r\n\r\n"
    with raw_server(one_answer(cookie)) as server, exchange(server.port, keep_alive_seconds=30) as api:
        api.ask(POST, Deadline(5))
        api.ask(POST, Deadline(5))
    assert server.connections == 1
    assert server.requests[0] == server.requests[1]


def test_a_connection_is_kept_where_asked_and_only_there():
    for seconds, connections in ((30.0, 1), (0.0, 3)):
        with raw_server(one_answer()) as server, exchange(server.port, keep_alive_seconds=seconds) as api:
            for _ in range(3):
                api.ask(POST, Deadline(5))
            assert (server.connections, len(server.requests)) == (connections, 3)


def test_a_kept_connection_that_closes_under_the_request_is_not_silently_replaced():
    """Whether the second request was handled is not known: the server read it, and closed."""

    def script(peer, number):
        if number == 1:
            peer.request()
            peer.say(OK)
        peer.request()

    with raw_server(script) as server, exchange(server.port, keep_alive_seconds=30) as api:
        api.ask(POST, Deadline(5))
        with pytest.raises(Lost, match="disconnected"):
            api.ask(POST, Deadline(5))
        assert (server.connections, len(server.requests)) == (1, 2)


def test_a_kept_connection_that_the_server_closed_before_is_replaced():
    """It is seen to be closed before anything is written, so this is no second sending."""

    def script(peer, number):
        peer.request()
        peer.say(OK)

    with raw_server(script) as server, exchange(server.port, keep_alive_seconds=30) as api:
        for _ in range(3):
            assert api.ask(POST, Deadline(5)).status == 201
            while not _closed_by_server(api):
                time.sleep(0.005)
        assert (server.connections, len(server.requests)) == (3, 3)


def _closed_by_server(api):
    return all(connection.has_expired() for connection in api._connections._idle)


def test_what_the_environment_says_about_proxies_is_ignored(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        proxy = f"http://127.0.0.1:{unused.getsockname()[1]}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    with raw_server(one_answer()) as server, exchange(server.port) as api:
        assert api.ask(POST, Deadline(5)).status == 201


def test_no_secret_is_in_a_log_at_any_level(caplog):
    caplog.set_level(logging.DEBUG)
    with raw_server(cut()) as server, exchange(server.port) as api, pytest.raises(Lost) as caught:
        api.ask(POST, Deadline(5))
    logging.getLogger("test").error("lost", exc_info=caught.value)
    assert "send_request_headers" in caplog.text, "or this looks at nothing"
    assert "s3cret" not in caplog.text


def test_a_header_that_is_not_http_is_named_by_no_value():
    bad = replace(POST, headers=[("X-Token", "s3cret\r\nX-Other: 1")])
    with raw_server(one_answer()) as server:
        with exchange(server.port) as api, pytest.raises(NotWritten) as caught:
            api.ask(bad, Deadline(5))
        assert server.requests == []
    assert str(caught.value) == "the request is not valid HTTP" and caught.value.__cause__ is None
