"""Hosts: one network namespace each, on a private bridge, with an address and a host name of its own.

All names and addresses come from one token, so that what a killed experiment left can be found and removed by it:

    namespace   onward-<token>-<host>
    bridge      onw<token>          with this process's own address, the first one of the network
    links       o<token><number>h   the host's end, and …b, the bridge's

The network is one of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544) and routed nowhere.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import NotRun

TOOLS = ("ip", "ss", "nsenter", "unshare", "mount", "umount")
NAMESPACES = Path("/run/netns")


def missing_tools() -> list[str]:
    """Programs that are needed and not there: iproute2 and util-linux have them."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def run(*command: object) -> str:
    """Run a program of the system; its output. NotRun when it fails, with its words."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRun(f"`{' '.join(words)}` failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def new_token() -> str:
    """Six hexadecimal digits, so that a link's name fits in its 15 characters. The token's network is not in use."""
    used = run("ip", "-4", "addr")
    return next(token for token in iter(lambda: secrets.token_hex(3), None) if f" {subnet_of(token)}." not in used)


def subnet_of(token: str) -> str:
    """The first three parts of the network's addresses."""
    number = int(token, 16)
    return f"198.{18 + number % 2}.{number // 2 % 256}"


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host. `link` is its end of the cable to the bridge."""

    name: str
    namespace: str
    link: str
    address: str

    def inside(self, command: Sequence[object], *, user: int | None = None, group: int | None = None) -> list[str]:
        """The command that runs this one on the host, under its name; as another account where one is given."""
        account = [] if user is None else ["--setuid", str(user), "--setgid", str(group)]
        named = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'
        return [
            *("unshare", "--uts", "sh", "-c", named, self.name),
            *("nsenter", f"--net={NAMESPACES / self.namespace}", *account, "--", *map(str, command)),
        ]

    def run(self, *command: object) -> str:
        """Run a program of the system in the host's network; its output."""
        return run("nsenter", f"--net={NAMESPACES / self.namespace}", "--", *command)

    def pids(self) -> list[int]:
        """The processes that use this host's network."""
        return _pids(self.namespace)


class Network:
    """A bridge and its hosts. Usable as a context manager: at its end all of it is gone, with all processes there."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._bridge = f"onw{token}"
        self._subnet = subnet_of(token)
        self._hosts: list[Host] = []

    @property
    def range(self) -> str:
        """The addresses of the network, as Postgres and `ip` write them."""
        return f"{self._subnet}.0/24"

    def __enter__(self) -> Network:
        try:
            run("ip", "link", "add", self._bridge, "type", "bridge")
            run("ip", "addr", "add", f"{self._subnet}.1/24", "dev", self._bridge)
            run("ip", "link", "set", self._bridge, "up")
        except BaseException:
            remove(self.token)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        remove(self.token)

    def host(self, name: str) -> Host:
        """A new host."""
        number = len(self._hosts) + 2
        host = Host(
            name=name,
            namespace=f"onward-{self.token}-{name}",
            link=f"o{self.token}{number}h",
            address=f"{self._subnet}.{number}",
        )
        cable = f"o{self.token}{number}b"
        run("ip", "netns", "add", host.namespace)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", host.link)
        run("ip", "link", "set", host.link, "netns", host.namespace)
        run("ip", "link", "set", cable, "master", self._bridge)
        run("ip", "link", "set", cable, "up")
        host.run("ip", "addr", "add", f"{host.address}/24", "dev", host.link)
        host.run("ip", "link", "set", host.link, "up")
        host.run("ip", "link", "set", "lo", "up")
        self._hosts.append(host)
        return host


def remove(token: str) -> None:
    """Remove every namespace, process and link of a token: those that are there."""
    for path in sorted(NAMESPACES.glob(f"onward-{token}-*")):
        for pid in _pids(path.name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(NotRun):
            run("ip", "netns", "del", path.name)
    for link in _links(token):  # a cable's other end goes with it, or with its namespace
        with suppress(NotRun):
            run("ip", "link", "del", link)


def _links(token: str) -> list[str]:
    found = [path.name for path in Path("/sys/class/net").iterdir()]
    return [name for name in found if name == f"onw{token}" or (name.startswith(f"o{token}") and name[-1] in "bh")]


def _pids(namespace: str) -> list[int]:
    with suppress(NotRun):
        return [int(word) for word in run("ip", "netns", "pids", namespace).split()]
    return []
