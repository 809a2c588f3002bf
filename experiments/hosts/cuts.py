"""Cutting what lies between two hosts, and nothing else, in three ways.

    silent          each of the two has a wrong hardware address for the other, which no interface has: what they send
                    is dropped on the way and nobody is told, as with an unplugged switch or a firewall that drops
    answers lost    the same for what comes back alone: what is sent on a standing connection arrives and is done
    refused         there is no route any more, and standing connections are ended: what is tried fails at once

A cut is seen before it counts: a connection from one to the other must fail in the way that is meant.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from experiments.errors import NotRun
from experiments.hosts.network import Host

How = Literal["silent", "answers lost", "refused"]

NOBODY = "02:00:00:00:00:01"  # a hardware address that this machine's own links never get: "locally administered"
PROBE_SECONDS = 0.5
_TIMED_OUT, _OPEN = "timed out", "open"

_PROBE = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()
except TimeoutError:
    print("timed out")
except OSError as error:
    print(error.errno)
else:
    print("open")
"""


def probe(host: Host, target: Host, port: int) -> str:
    """What becomes of a connection: "open", "timed out", or the number of the error."""
    command = host.inside([sys.executable, "-S", "-c", _PROBE, target.address, port, PROBE_SECONDS])
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def cut(host: Host, target: Host, port: int, how: How) -> None:
    """Cut the two apart. NotRun when a connection to the port still gets through, or fails in another way."""
    if how == "refused":
        host.run("ip", "route", "add", "unreachable", f"{target.address}/32")
        host.run("ss", "--kill", "--no-header", "dst", target.address)
    for one, other in _deaf(host, target, how):
        one.run("ip", "neigh", "replace", other.address, "lladdr", NOBODY, "dev", one.link, "nud", "permanent")
    expected = str(errno.EHOSTUNREACH) if how == "refused" else _TIMED_OUT
    if (found := probe(host, target, port)) != expected:
        raise NotRun(f"{host.name} and {target.name} cannot be cut apart here: {found}, where {expected} was meant.")


def heal(host: Host, target: Host, port: int, how: How) -> None:
    """Join the two again. NotRun when they are not."""
    if how == "refused":
        host.run("ip", "route", "del", "unreachable", f"{target.address}/32")
    for one, other in _deaf(host, target, how):
        one.run("ip", "neigh", "del", other.address, "dev", one.link)
    if (found := probe(host, target, port)) != _OPEN:
        raise NotRun(f"{host.name} and {target.name} cannot be joined again here: {found}.")


def _deaf(host: Host, target: Host, how: How) -> list[tuple[Host, Host]]:
    """Who reaches whom no more, without a word."""
    if how == "refused":
        return []
    return [(target, host)] if how == "answers lost" else [(host, target), (target, host)]


@contextmanager
def apart(host: Host, target: Host, port: int, how: How) -> Generator[None]:
    """Cut off inside the block, and joined again behind it, whatever happens."""
    cut(host, target, port, how)
    try:
        yield
    finally:
        heal(host, target, port, how)
