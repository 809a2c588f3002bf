"""Many clients in one process that does nothing else, each with a kept connection and one request under way.

    python -m experiments.ledger_benchmarks.clients --port N --token-file FILE --clients 16 --seconds 10 \
        --service PID --postmaster PID

One line of JSON in the end: actions in each whole second, the time of each answer, and how many cores who had. A
loop over sockets and ready-made bytes: sixteen processes with a client library would take the cores that the service
is measured on.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import selectors
import time
import uuid
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import cast

import psutil

from experiments.ledger_benchmarks.place import put_action, put_fence, right
from experiments.ledger_benchmarks.wire import Reply, Wire

WARM_UP_SECONDS = 1.0


@dataclass(kw_only=True)
class Client:
    """One connection in a run of its own; its next action."""

    wire: Wire
    token: str
    run_id: str
    numbers: count[int]
    sent_at: float = 0.0

    def send(self) -> None:
        """Ask for one more action."""
        data = put_action(self.token, self.run_id, f"charge-{next(self.numbers)}")
        self.sent_at = time.perf_counter()
        self.wire.socket.sendall(data)


def sustained(
    port: int, token: str, clients: int, seconds: float, *, service: int, postmaster: int
) -> dict[str, object]:
    """Keep so many requests under way; what came of it, behind a second that does not count."""
    pids = {"service": service, "postgres": postmaster, "client": os.getpid()}
    with selectors.DefaultSelector() as selector:
        for client in (_client(port, token) for _ in range(clients)):
            selector.register(client.wire.socket, selectors.EVENT_READ, client)
            client.send()
        _drive(selector, WARM_UP_SECONDS)
        began = {name: cpu_seconds(pid) for name, pid in pids.items()}
        done = _drive(selector, seconds)
        return {
            "per_second": _per_second(done, seconds),
            "milliseconds": [round(took * 1000, 3) for _, took in done],
            "cores": {name: (cpu_seconds(pid) - began[name]) / seconds for name, pid in pids.items()},
        }


def _client(port: int, token: str) -> Client:
    client = Client(wire=Wire(port), token=token, run_id=str(uuid.uuid4()), numbers=count())
    right(client.wire.ask(put_fence(token, client.run_id)))
    return client


def _drive(selector: selectors.BaseSelector, seconds: float) -> list[tuple[float, float]]:
    """For each answer: when it came, from the beginning, and how long it took."""
    began = time.perf_counter()
    done: list[tuple[float, float]] = []
    while (now := time.perf_counter()) - began < seconds:
        for key, _ in selector.select(seconds - (now - began)):
            client = cast(Client, key.data)
            reply = client.wire.receive()
            if reply is not None:
                right(reply)
                came = time.perf_counter()
                done.append((came - began, came - client.sent_at))
                client.send()
    return done


def _per_second(done: list[tuple[float, float]], seconds: float) -> list[int]:
    counts = [0] * int(seconds)
    for came, _ in done:
        if came < len(counts):
            counts[int(came)] += 1
    return counts


def cpu_seconds(pid: int) -> float:
    """What a process and its children have computed so far, also those that have ended."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    found = own.user + own.system + own.children_user + own.children_system
    for child in process.children():
        used = child.cpu_times()
        found += used.user + used.system
    return found


def at_once(port: int, data: bytes, calls: int) -> list[Reply]:
    """So many connections, each with the same request, all sent before any answer is read.

    Who is told that somebody else performs it asks again when told; the last answer of each.
    """
    wires = [Wire(port) for _ in range(calls)]
    last: list[Reply] = []
    waiting: list[tuple[float, int]] = []  # when to ask again, and who
    with selectors.DefaultSelector() as selector:
        for number, wire in enumerate(wires):
            selector.register(wire.socket, selectors.EVENT_READ, number)
        for wire in wires:
            wire.socket.sendall(data)
        while len(last) < calls:
            pause = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
            for key, _ in selector.select(pause):
                reply = wires[key.data].receive()
                if reply is None:
                    continue
                if reply.status == 409:
                    again = float(reply.json()["retry_after_seconds"])
                    heapq.heappush(waiting, (time.monotonic() + again, key.data))
                else:
                    last.append(reply)
            while waiting and waiting[0][0] <= time.monotonic():
                wires[heapq.heappop(waiting)[1]].socket.sendall(data)
    for wire in wires:
        wire.close()
    return last


def main() -> None:
    """Run the clients; one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--service", type=int, required=True, help="the pid of the service")
    parser.add_argument("--postmaster", type=int, required=True, help="the pid of the server")
    arguments = parser.parse_args()
    token = arguments.token_file.read_text(encoding="ascii").strip()
    pids = {"service": arguments.service, "postmaster": arguments.postmaster}
    print(json.dumps(sustained(arguments.port, token, arguments.clients, arguments.seconds, **pids)))


if __name__ == "__main__":
    main()
