"""Where a provider may connect to: its own hosts, at public addresses, or at addresses that its settings list.

A name is resolved once for a connection, every address that it has is checked, and the connection goes to one of these
very addresses. So a name that leads somewhere else a moment later (DNS rebinding) leads nowhere. Host header, SNI and
certificate stay those of the name. There is no way through a proxy: it would resolve the name again.

What is not public is taken from IANA's registries of special-purpose addresses, and does not depend on the version of
Python. An IPv4 address inside of an IPv6 address (mapped, NAT64, 6to4) is judged as the IPv4 address.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpcore

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[str]]

_NOT_PUBLIC_4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this network"; 0.0.0.0 is this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers; one cloud's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by number, but one cloud's own services for the machine
        "169.254.0.0/16",  # link-local; the other clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
_PUBLIC_6 = IPv6Network("2000::/3")  # all that is given out for global unicast
_NOT_PUBLIC_6 = [
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "3fff::/20",
    )
]
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")


class AddressRefused(httpcore.ConnectError):
    """The host has no address that may be connected to. Nothing was sent."""


def is_public(address: Address) -> bool:
    """Whether an address is one of the public Internet's, by itself or by the IPv4 address that it holds."""
    address = embedded(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to; other addresses are their own."""
    if isinstance(address, IPv4Address):
        return address
    number = int(address)
    if address in _MAPPED or address in _NAT64:
        return IPv4Address(number & 0xFFFF_FFFF)
    if address in _6TO4:
        return IPv4Address(number >> 80 & 0xFFFF_FFFF)
    return address


def system_resolve(host: str, port: int) -> list[str]:
    """Every address that the system knows for a name, in its order of preference."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard:
    """Which hosts a provider may name, and which addresses these may have. May be shared by threads."""

    def __init__(
        self, hosts: Iterable[str], allow_addresses: Iterable[Network] = (), *, resolve: Resolve = system_resolve
    ) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._allowed = tuple(allow_addresses)
        self._resolve = resolve

    def addresses(self, host: str, port: int, timeout: float | None = None) -> list[Address]:
        """The addresses of a host, each of them checked; AddressRefused where one of them is not allowed.

        One is enough to refuse them all: a name with a public and a private address is a trap or a mistake.
        """
        if host.lower() not in self._hosts:
            raise AddressRefused(f"The host {host} is not one of this provider's.")
        found = [_parsed(host, text) for text in self._resolved(host, port, timeout)]
        if not found:
            raise AddressRefused(f"The name {host} has no address.")
        for address in found:
            if not self.allows(address):
                raise AddressRefused(f"{host} leads to {address}, which is not public and not in allow_addresses.")
        return found

    def allows(self, address: Address) -> bool:
        """Whether an address is public or listed, in the form in which it stands or as what it leads to."""
        either = (address, embedded(address))
        return is_public(address) or any(one in network for one in either for network in self._allowed)

    def _resolved(self, host: str, port: int, timeout: float | None) -> Sequence[str]:
        """Resolve in a thread of its own: the system's resolver takes no time limit."""
        results: list[Sequence[str] | OSError] = []

        def resolve() -> None:
            try:
                results.append(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                results.append(error if isinstance(error, OSError) else OSError(str(error)))

        thread = threading.Thread(target=resolve, name="ledger-resolve", daemon=True)
        thread.start()
        thread.join(timeout)
        if not results:
            raise AddressRefused(f"The name {host} was not resolved in time.")
        if isinstance(results[0], OSError):
            raise AddressRefused(f"The name {host} cannot be resolved: {results[0].strerror or results[0]}.")
        return results[0]


class GuardedBackend(httpcore.SyncBackend):
    """Connects to the addresses that the guard has checked, one after the other, and to nothing else."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first address that takes it, within `timeout` for all of it."""
        end = None if timeout is None else time.monotonic() + timeout
        addresses = self._guard.addresses(host, port, timeout)
        options = None if socket_options is None else list(socket_options)
        for position, address in enumerate(addresses, start=1):
            share = _share(end, len(addresses) - position + 1)
            try:
                return super().connect_tcp(str(address), port, share, local_address, options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if position == len(addresses):
                    raise
        raise AssertionError("a guard answers at least one address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        """Never: a path is no host."""
        raise AddressRefused("A provider connects to its host only.")


def _share(end: float | None, left: int) -> float | None:
    """What one of the addresses that are left may take, so that a dead one does not use up the time of all."""
    return None if end is None else max((end - time.monotonic()) / left, 0.001)


def _parsed(host: str, text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise AddressRefused(f"{host} leads to {text!r}, which is no address.") from None
