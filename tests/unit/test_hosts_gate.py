"""The gate cuts around COMMIT: what it takes for a commit, and on which side of it the connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from experiments.hosts.gate import OPEN, Gate, Orders, Where, committing

READY = b"Z" + struct.pack(">i", 5)
IDLE, OPEN_TRANSACTION = READY + b"I", READY + b"T"
DONE = b"C" + struct.pack(">i", 9) + b"DONE\0"


@pytest.mark.parametrize(
    ("statements", "in_transaction", "commits"),
    [
        (b"insert into t values (1)", False, True),
        (b"begin\n;\nupdate t set x = 1\n;\ncommit", False, True),
        (b"begin\n;\nupdate t set x = 1", False, False),
        (b"update t set x = 1", True, False),
        (b"COMMIT", True, True),
        (b"select 1", False, False),
        (b"rollback", True, False),
        (b"select inserted from updates", False, False),
    ],
)
def test_what_commits(statements: bytes, in_transaction: bool, commits: bool) -> None:
    assert committing(statements, in_transaction=in_transaction) is commits


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", 4 + len(body)) + body


def start(name: bytes = b"onward r h7") -> bytes:
    body = struct.pack(">i", 196608) + b"user\0u\0application_name\0" + name + b"\0\0"
    return struct.pack(">i", 4 + len(body)) + body


class Server:
    """Answers each query, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length - 4)
        writer.write(IDLE)
        try:
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
                self.asked.append(body.rstrip(b"\0"))
                writer.write(DONE + (OPEN_TRANSACTION if b"begin" in body and b"commit" not in body else IDLE))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def through_gate(folder: Path, orders: Orders, talk: Talk) -> tuple[Server, Any, list[dict[str, Any]]]:
    """A talk with a server through the gate: the server, what the talk came to, and the gate's log."""
    server, file, log = Server(), folder / "orders", folder / "log"
    orders.write(file)

    connections: list[asyncio.Task[None]] = []

    def noted(serve: Serve) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(asyncio.ensure_future(serve(reader, writer)))

        return accept

    async def run() -> Any:
        there = await asyncio.start_server(noted(server.serve), "127.0.0.1", 0)
        gate = Gate(there.sockets[0].getsockname()[:2], file, log)
        here = await asyncio.start_server(noted(gate.serve), "127.0.0.1", 0)
        async with there, here:
            reader, writer = await asyncio.open_connection(*here.sockets[0].getsockname()[:2])
            writer.write(start())
            assert await reader.readexactly(len(IDLE)) == IDLE
            try:
                return await talk(reader, writer)
            finally:
                writer.close()
                await asyncio.gather(*connections)

    came = asyncio.run(asyncio.wait_for(run(), 10))
    told = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return server, came, told


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: bytes) -> bytes:
    """What comes back to a query until the server is ready again, or the connection ends."""
    writer.write(message(b"Q", query + b"\0"))
    answer = b""
    try:
        while not answer.endswith((IDLE, OPEN_TRANSACTION)):
            chunk = await reader.read(1000)
            if not chunk:
                break
            answer += chunk
    except ConnectionError:
        pass
    return answer


def test_an_open_gate_passes_everything_on(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        return [await _ask(reader, writer, query) for query in (b"insert into t values (1)", b"select 1")]

    server, came, told = through_gate(tmp_path, OPEN, talk)
    assert came == [DONE + IDLE, DONE + IDLE]
    assert server.asked == [b"insert into t values (1)", b"select 1"]
    assert told == []


@pytest.mark.parametrize(("where", "arrives"), [("before", False), ("after", True)])
def test_the_answer_to_a_commit_never_arrives_whether_it_happened_or_not(
    tmp_path: Path, where: Where, arrives: bool
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        return [
            await _ask(reader, writer, query) for query in (b"begin; insert into t values (1)", b"select 1", b"commit")
        ]

    server, came, told = through_gate(tmp_path, Orders(every=1, where=(where,), most=1), talk)
    assert came == [DONE + OPEN_TRANSACTION, DONE + IDLE, b""]
    assert (b"commit" in server.asked) is arrives
    assert told == [{"where": where, "connection": "onward r h7", "commit": 1}]


def test_only_every_so_many_th_commit_is_cut_and_only_so_often(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        return [await _ask(reader, writer, b"insert into t values (%d)" % number) for number in range(3)]

    server, came, told = through_gate(tmp_path, Orders(every=3, where=("before",), most=9), talk)
    assert came == [DONE + IDLE, DONE + IDLE, b""]
    assert [line["commit"] for line in told] == [3]
    assert len(server.asked) == 2


def test_the_sync_behind_prepared_statements_commits_them(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(message(b"P", b"\0insert into t values (1)\0\0\0") + message(b"S", b""))
        answer = b""
        try:
            while chunk := await reader.read(1000):
                answer += chunk
        except ConnectionError:
            pass
        return answer

    server, _, told = through_gate(tmp_path, Orders(every=1, where=("before",), most=1), talk)
    assert [line["where"] for line in told] == ["before"]
    assert len(server.asked) == 1, "the statement arrived, and its Sync did not"
