"""The driver processes of one worker: forked, so that a run that was taken over goes on in milliseconds.

Importing LangGraph and the agent takes seconds. A fork server (`multiprocessing`) has imported them, and holds no
connection, no thread and no file of a run; each drive is a fork of it, a process of its own with its own session. A
driver ends with its worker, however that one ends: it reads a pipe whose other end only the worker holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from runs.errors import Exit, RunError, ServiceUnreachable, UsageError
from runs.forking import fork_context
from runs.settings import Settings

# A driver that has left its run needs a moment to end.
_LEAVE_SECONDS = 1.0
_POLL_SECONDS = 0.02


class Stand(StrEnum):
    """How a run stands to a driver process of ours."""

    HELD = "held"  # it has the run
    HUNG = "hung"  # it has the run, and has let its lease run out
    FREE = "free"  # nobody has it: the process has not claimed it yet, or has just left it
    LOST = "lost"  # another one has it, or nobody is to


@dataclass(frozen=True, kw_only=True)
class Drive:
    """A driver process that has ended. `exit_code` is negative where a signal ended it, and says which."""

    run_id: str
    pid: int
    exit_code: int
    seconds: float


@dataclass(kw_only=True)
class _Member:
    process: ForkServerProcess
    pid: int
    since: float = field(default_factory=time.monotonic)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    suspect: bool = False


class Crew:
    """Up to `size` drives at once. `on_end` is told of each that has ended; `stand` says how a run stands to a driver,
    (run_id, pid), or None when nobody can say now. It may block.

    Belongs to one event loop. A drive outlives whoever waits for it: only the end of its process frees its place.
    """

    def __init__(
        self,
        settings: Settings,
        size: int,
        on_end: Callable[[Drive], None],
        stand: Callable[[str, int], Stand | None],
        graph: str | None = None,
    ) -> None:
        self._settings = settings
        self._graph = graph
        self._on_end = on_end
        self._stand = stand
        self._places = asyncio.Semaphore(size)
        self._stopping = False
        self._members: dict[str, _Member] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._context = fork_context()
        self._life, self._ours = self._context.Pipe(duplex=False)
        self._log = settings.home / "drivers.log"

    def warm_up(self) -> None:
        """Start the fork server, wait until it has imported everything, and have a first fork prepare what drives need.

        Raises what that one found missing: ServiceUnreachable, UsageError, or another RunError.
        """
        answer, asked = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_be_first, args=(self._settings, asked, self._graph), name="first")
        process.start()
        asked.close()
        try:
            code, sentence = answer.recv()
        except EOFError:
            code, sentence = Exit.FAILED, f"The first process of this worker ended without a word; see {self._log}."
        process.join()
        if code != Exit.OK:
            raise _REFUSALS.get(code, RunError)(sentence)

    @property
    def busy(self) -> list[str]:
        """The runs that are driven now."""
        return list(self._members)

    async def drive(self, run_id: str) -> None:
        """Drive a run in a process of its own, when there is a place; returns when that process has ended.

        Does nothing for a run that this crew drives already. Whoever waits here may be cancelled: the drive goes on.
        """
        member = self._members.get(run_id)
        if member is not None and not await self._make_way(run_id, member):
            return
        task = asyncio.create_task(self._drive(run_id), name=f"drive {run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def _make_way(self, run_id: str, member: _Member) -> bool:
        """Whether this driver is gone, so that another one is needed. One that hangs is ended; one that leaves, left.

        One that has just been started is given the time to claim the run.
        """
        patience = time.monotonic() + _LEAVE_SECONDS
        while not member.gone.is_set():
            stand = await asyncio.to_thread(self._stand, run_id, member.pid)
            if stand is Stand.FREE and (self._is_new(member) or time.monotonic() < patience):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(member.gone.wait(), _POLL_SECONDS)
            elif stand in (Stand.FREE, Stand.HUNG):
                _send(member.pid, signal.SIGKILL)
                await member.gone.wait()
            else:
                return False
        return True

    def _is_new(self, member: _Member) -> bool:
        return time.monotonic() - member.since < self._settings.lease_seconds

    async def _drive(self, run_id: str) -> None:
        async with self._places:
            if self._stopping or run_id in self._members:
                return
            process = self._start(run_id)
            assert process.pid is not None
            member = self._members[run_id] = _Member(process=process, pid=process.pid)
            try:
                await _ended(member.process)
            finally:
                del self._members[run_id]
                member.gone.set()
            code = member.process.exitcode
            assert code is not None
            member.process.close()
        seconds = time.monotonic() - member.since
        self._on_end(Drive(run_id=run_id, pid=member.pid, exit_code=code, seconds=seconds))

    def _start(self, run_id: str) -> ForkServerProcess:
        process = self._context.Process(
            target=be_driver, args=(run_id, self._settings, self._life, self._log, self._graph), name=f"driver {run_id}"
        )
        process.start()
        return process

    async def end_useless(self) -> None:
        """End drivers that have lost their run in two such looks.

        No hint tells this worker of a run that another one has taken from a driver of its own. Such a driver, if it
        hangs, would keep its place for ever. One that has just finished is given the time to leave.
        """
        for run_id, member in list(self._members.items()):
            if self._is_new(member):
                continue
            useless = await asyncio.to_thread(self._stand, run_id, member.pid) in (Stand.HUNG, Stand.LOST)
            if useless and member.suspect:
                _send(member.pid, signal.SIGKILL)
            member.suspect = useless

    def take_nothing_new(self) -> None:
        """From now on no drive begins, not even one that waits for a place."""
        self._stopping = True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every driver."""
        for member in self._members.values():
            _send(member.pid, number)

    async def ended(self, seconds: float) -> bool:
        """Wait until no drive is left, at most so long; whether none is."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        return not self._tasks

    def close(self) -> None:
        """Close the life line: what is left of the crew ends."""
        self._ours.close()
        self._life.close()


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


async def _ended(process: ForkServerProcess) -> None:
    """Wait for the end of a process without a thread: its sentinel becomes readable."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()


_REFUSALS: dict[int, type[RunError]] = {Exit.UNREACHABLE: ServiceUnreachable, Exit.USAGE: UsageError}


def _be_first(settings: Settings, answer: Connection[Any, Any], graph: str | None) -> None:
    """The whole life of the fork that prepares."""
    from runs.crew_member import prepare

    answer.send(prepare(settings, graph))


def be_driver(run_id: str, settings: Settings, life: Connection[Any, Any], log: Path, graph: str | None) -> None:
    """The whole life of a forked driver; its exit code is that of `runs.errors.Exit`."""
    from runs.crew_member import drive_once
    from tools.process import die_with_parent

    os.setsid()  # Ctrl-C in the worker's terminal is for the worker, which drains
    with log.open("ab") as words:
        os.dup2(words.fileno(), 2)
        os.dup2(words.fileno(), 1)
    die_with_parent(os.getppid(), life.fileno())
    _let_the_fork_server_end()
    sys.exit(drive_once(run_id, settings, graph))


def _let_the_fork_server_end() -> None:
    """Close what this process holds of the worker's life line to the fork server.

    That one ends when nobody holds the other end any more, and a driver that is stopped by a signal dies only with it.
    multiprocessing hands the end to every process, so that the two would wait for each other.
    """
    server: Any = forkserver._forkserver  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None
