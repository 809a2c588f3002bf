"""Where a provider may connect to: which addresses are public, and that the checked address is the one connected to."""

import socket
import threading
from contextlib import contextmanager
from ipaddress import ip_address, ip_network

import httpcore
import pytest

from onward_ledger.providers.addresses import AddressRefused, Guard, GuardedBackend, embedded, is_public


def words(text):
    return text.split()


NOT_PUBLIC = words("""
    0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1 172.31.255.255
    192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
    168.63.129.16 192.88.99.1
    :: ::1 ::127.0.0.1 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd00:ec2::254 ff02::1 2001::1 2001:db8::1 3fff::1 100::1
    5f00::1 64:ff9b:1::1 4000::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    2002:7f00:1:: 2002:a00:1::
""")
PUBLIC = words("""
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 172.15.255.255 172.32.0.1
    192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 223.255.255.255 168.63.129.17
    2606:4700:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1
""")


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_an_address_of_this_machine_or_a_private_net_is_not_public(text):
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_the_internet_is_public(text):
    assert is_public(ip_address(text))


def test_an_ipv4_address_inside_of_an_ipv6_address_is_found():
    for text in ("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::9"):
        assert embedded(ip_address(text)) == ip_address("10.0.0.1")
    assert embedded(ip_address("2a00::10.0.0.1")) == ip_address("2a00::10.0.0.1")


def guard(*answers, allow=(), hosts=("api.example.com",)):
    """A guard whose resolver gives one list of addresses after the other, the last one for ever."""
    left = list(answers)

    def resolve(host, port):
        return left.pop(0) if len(left) > 1 else left[0]

    return Guard(hosts, [ip_network(net) for net in allow], resolve=resolve)


def test_public_addresses_are_answered_in_the_resolvers_order():
    found = guard(["2a00::1", "8.8.8.8"]).addresses("API.example.com", 443)
    assert [str(address) for address in found] == ["2a00::1", "8.8.8.8"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (["8.8.8.8", "127.0.0.1"], "leads to 127.0.0.1, which is not public"),
        (["::ffff:169.254.169.254"], "not public"),
        ([], "has no address"),
        (["localhost"], "which is no address"),
    ],
)
def test_one_address_that_is_not_allowed_refuses_the_name(answer, sentence):
    with pytest.raises(AddressRefused, match=sentence):
        guard(answer).addresses("api.example.com", 443)


def test_a_listed_network_is_allowed_in_either_form_and_only_it():
    inside = guard(["10.1.2.3", "::ffff:10.1.2.4", "64:ff9b::a01:205"], allow=["10.1.0.0/16"])
    assert len(inside.addresses("api.example.com", 443)) == 3
    with pytest.raises(AddressRefused, match=r"10\.2\.0\.1"):
        guard(["10.2.0.1"], allow=["10.1.0.0/16"]).addresses("api.example.com", 443)
    assert guard(["fd00::7"], allow=["fd00::/64"]).addresses("api.example.com", 443)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "127.1", "::1"])
def test_ways_to_write_this_machine_are_refused_by_the_systems_resolver_too(host):
    with pytest.raises(AddressRefused):
        Guard([host]).addresses(host, 443, 10)


def test_another_host_is_refused_without_a_question_to_anybody():
    def resolve(host, port):
        raise AssertionError("it was resolved")

    with pytest.raises(AddressRefused, match="not one of this provider's"):
        Guard(["api.example.com"], resolve=resolve).addresses("evil.example.com", 443)


def test_a_name_that_does_not_exist_is_a_failed_connection():
    def resolve(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(httpcore.ConnectError, match="cannot be resolved: Name or service not known"):
        Guard(["api.example.com"], resolve=resolve).addresses("api.example.com", 443)


def test_a_resolver_that_hangs_takes_no_longer_than_the_time_limit():
    hanging = threading.Event()

    def resolve(host, port):
        hanging.wait(20)
        return ["8.8.8.8"]

    with pytest.raises(AddressRefused, match="not resolved in time"):
        Guard(["api.example.com"], resolve=resolve).addresses("api.example.com", 443, 0.05)
    hanging.set()


@contextmanager
def listener(host="127.0.0.1"):
    with socket.create_server((host, 0), backlog=8) as server:
        yield server, server.getsockname()[1]


def test_the_connection_goes_to_the_address_that_was_checked():
    """The name is asked for once. A second answer, which leads inside, is never used (and is refused if it is)."""
    with listener("127.0.0.2") as (inside, port), listener_at("127.0.0.1", port) as checked:
        rebinding = guard(["127.0.0.1"], ["127.0.0.2"], allow=["127.0.0.1/32"])
        with closing_stream(GuardedBackend(rebinding).connect_tcp("api.example.com", port, 5)) as stream:
            assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
            checked.accept()[0].close()
        with pytest.raises(AddressRefused, match=r"127\.0\.0\.2"):
            GuardedBackend(rebinding).connect_tcp("api.example.com", port, 5)
        inside.setblocking(False)
        with pytest.raises(BlockingIOError):
            inside.accept()


def test_the_control_a_backend_that_resolves_by_itself_would_connect_inside():
    with listener() as (server, port):
        with closing_stream(httpcore.SyncBackend().connect_tcp("localhost", port, 5)) as stream:
            assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        server.accept()[0].close()


def test_the_next_address_is_tried_when_one_does_not_answer():
    with listener() as (server, port):
        backend = GuardedBackend(guard(["127.0.0.9", "127.0.0.1"], allow=["127.0.0.0/8"]))
        with closing_stream(backend.connect_tcp("api.example.com", port, 5)) as stream:
            assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
        server.accept()[0].close()
        with pytest.raises(httpcore.ConnectError):
            GuardedBackend(guard(["127.0.0.9"], allow=["127.0.0.0/8"])).connect_tcp("api.example.com", port, 5)


def test_a_path_on_this_machine_is_no_host(tmp_path):
    with pytest.raises(AddressRefused):
        GuardedBackend(guard(["8.8.8.8"])).connect_unix_socket(str(tmp_path / "socket"))


@contextmanager
def listener_at(host, port):
    with socket.create_server((host, port), backlog=8) as server:
        yield server


@contextmanager
def closing_stream(stream):
    try:
        yield stream
    finally:
        stream.close()
