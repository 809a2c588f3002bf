"""A gate in front of Postgres that cuts connections around COMMIT. A process on the server's host.

    python -m experiments.hosts.gate --host ADDRESS --port 6432 --server-port 5432 --orders FILE --log FILE …

It passes messages on in both directions. A message that commits something is a simple query, or the Sync behind
extended ones, whose statements write and leave no transaction open. As its orders say, every so many such messages a
connection is cut, on both sides:

    before    the message never reaches the server: nothing was committed
    after     the server has committed and has said so, and the answer never arrives

The client sees the same in both cases: a connection that ended while it waited for the answer to its COMMIT.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import sys
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Where = Literal["before", "after"]

PORT = 6432
CANCEL_REQUEST, FIRST_REQUESTS = 80877102, (80877103, 80877104)  # TLS and GSSAPI come before the start-up message
_WRITES = re.compile(rb"\b(insert|update|delete|merge|commit)\b", re.IGNORECASE)
_LEAVES_OPEN = re.compile(rb"\bbegin\b(?!.*\bcommit\b)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What the gate is to do: cut at every so many-th commit, at the given side of it, at most so often in all."""

    every: int
    where: tuple[Where, ...] = ("before", "after")
    most: int = 0
    names: str = ".*"  # connections whose application name matches

    @classmethod
    def read(cls, path: Path) -> Orders:
        """From a file, which is replaced when the orders change."""
        value = json.loads(path.read_text(encoding="utf-8"))
        return cls(every=value["every"], where=tuple(value["where"]), most=value["most"], names=value["names"])

    def write(self, path: Path) -> None:
        """Into a file, at once for whoever reads it."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), encoding="utf-8")
        part.replace(path)


OPEN = Orders(every=1, most=0)


def committing(statements: bytes, *, in_transaction: bool) -> bool:
    """Whether these statements, sent together, commit something that was written.

    `in_transaction`: an earlier message has left a transaction open; then only an explicit COMMIT ends it.
    """
    if _LEAVES_OPEN.search(statements):
        return False
    if in_transaction:
        return re.search(rb"\bcommit\b", statements, re.IGNORECASE) is not None
    return _WRITES.search(statements) is not None


@dataclass
class _Link:
    """One connection: what was sent since the last message that is answered by "ready", and how it stands."""

    name: str = ""
    statements: bytearray = field(default_factory=bytearray)
    open_transaction: bool = False
    unanswered: int = 0
    cutting: bool = False


class Gate:
    """Counts the commits of all connections, and cuts where the orders say so. Each cut is a line of the log."""

    def __init__(self, server: tuple[str, int], orders: Path, log: Path) -> None:
        self._server = server
        self._orders = orders
        self._log = log
        self._commits = 0
        self._cuts = 0

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One connection from start to end."""
        link = _Link()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            server, there = await asyncio.open_connection(*self._server)
            try:
                await _race(self._upwards(link, client, there), self._downwards(link, server, back))
            finally:
                await _end(there)
        await _end(back)

    async def _upwards(self, link: _Link, client: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
        while (start := await _first_message(client))[4:8] in [n.to_bytes(4, "big") for n in FIRST_REQUESTS]:
            there.write(start)
        link.name = _application(start)
        there.write(start)
        while True:
            kind, message = await _message(client)
            where = self._where_to_cut(link, kind, message)
            if where == "before":
                self._tell(link, where)
                return
            link.cutting = link.cutting or where == "after"
            there.write(message)
            await there.drain()

    async def _downwards(self, link: _Link, server: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        started = False
        while True:
            kind, message = await _message(server)
            if kind == b"Z":  # ready; its byte says whether a transaction is open
                link.open_transaction = message[5:6] != b"I"
                link.unanswered -= started
                started = True
                if link.cutting and link.unanswered == 0:
                    self._tell(link, "after")
                    return
            if not (link.cutting and link.unanswered == 1):
                back.write(message)
                await back.drain()

    def _where_to_cut(self, link: _Link, kind: bytes, message: bytes) -> Where | None:
        """None: let it pass."""
        if kind in (b"Q", b"P"):
            link.statements += message[5:]
        if kind not in (b"Q", b"S"):
            return None
        link.unanswered += 1
        statements, link.statements = bytes(link.statements), bytearray()
        if link.cutting or not committing(statements, in_transaction=link.open_transaction):
            return None
        orders = Orders.read(self._orders)
        if re.fullmatch(orders.names, link.name) is None:
            return None
        self._commits += 1
        if self._cuts >= orders.most or self._commits % orders.every:
            return None
        self._cuts += 1
        return orders.where[self._cuts % len(orders.where)]

    def _tell(self, link: _Link, where: Where) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"where": where, "connection": link.name, "commit": self._commits}) + "\n")


async def _race(*halves: Coroutine[Any, Any, None]) -> None:
    """Until one of the two ends; the other is ended with it."""
    tasks = [asyncio.ensure_future(half) for half in halves]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _end(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, whatever is on its way."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _first_message(client: asyncio.StreamReader) -> bytes:
    length = await client.readexactly(4)
    return length + await client.readexactly(int.from_bytes(length, "big") - 4)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


def _application(start: bytes) -> str:
    """The application name in a start-up message: names and values, each with a zero byte behind it."""
    words = start[8:].split(b"\0")
    named = dict(zip(words[::2], words[1::2], strict=False))
    return named.get(b"application_name", b"").decode("utf-8", "replace")


async def _serve(options: argparse.Namespace) -> None:
    gate = Gate((options.host, options.server_port), options.orders, options.log)
    async with await asyncio.start_server(gate.serve, options.host, options.port) as server:
        part = options.ready_file.with_suffix(".part")
        part.write_text(str(options.port), encoding="utf-8")
        part.replace(options.ready_file)
        await server.serve_forever()


def main() -> None:
    """Serve until the process that started this one is gone."""
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--server-port", type=int, required=True)
    parser.add_argument("--orders", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent, sys.stdin.fileno())
    asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
