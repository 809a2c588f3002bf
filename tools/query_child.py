"""The process that runs queries: a server that forks one child per query. Started by `tools.query.QueryServer`.

    driver ──requests, replies──▶ server ──fork──▶ child: one query, then gone
             (two pipes)          DuckDB imported, no thread, no connection, no table

Importing DuckDB costs a quarter of a second and forking a few milliseconds, so the server imports and the child runs. A
child has hard limits, and whatever it does to itself, the next one starts from the same clean server. The server ends
when the driver ends (`tools.process`), the child when the server does.
"""

from __future__ import annotations

import math
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import duckdb
import psutil

from tools import frames, query_run
from tools.process import die_with_parent, parent_handle

LINUX: Final = sys.platform == "linux"
LOOK_EVERY_SECONDS: Final = 0.02  # how often the memory of a child is looked at where the system does not limit it
OPEN_FILES: Final = 64
REPLY_SLACK: Final = 1 << 20  # bytes over the limit of the rows: column names, JSON's escapes, an error


def main() -> None:
    """Serve requests from stdin on stdout until the parent, named by its pid in the first argument, is gone."""
    parent_gone = parent_handle(int(sys.argv[1]))
    requests, replies = _own_the_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which lets the running query end
    quit_fds = [requests] if parent_gone is None else [requests, parent_gone]
    frames.write(replies, frames.pack({"pid": os.getpid(), "threads": thread_count(), "duckdb": duckdb.__version__}))
    while True:
        readable, _, _ = select.select(quit_fds, [], [])
        message = frames.read(requests) if requests in readable else None
        if message is None:  # the driver is gone, or has closed its end
            return
        frames.write(replies, _Query(frames.unpack(message), quit_fds, replies).run())


def thread_count() -> int:
    """Threads of this process, native ones too where the system tells. Forking is safe with one only."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def _own_the_pipes() -> tuple[int, int]:
    """Move both pipes away from 0 and 1, so that nothing printed by anybody ends in a reply."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return requests, replies


class _Query:
    """One request, its child, and the watch over it."""

    def __init__(self, request: Mapping[str, Any], quit_fds: Sequence[int], replies: int) -> None:
        self._request = request
        self._limits: Mapping[str, Any] = request["limits"]
        self._quit_fds = list(quit_fds)
        self._replies = replies
        self._server_pid = os.getpid()

    def run(self) -> bytes:
        """The reply as a message. Ends this process when the driver goes away meanwhile."""
        reply, write_reply = os.pipe()
        life, hold_life = os.pipe()
        pid = os.fork()
        if pid == 0:
            for fd in (reply, hold_life, self._replies, *self._quit_fds):
                os.close(fd)
            self._be_the_child(life, write_reply)
        os.close(write_reply)
        os.close(life)
        try:
            return self._watch(pid, reply)
        finally:
            os.close(reply)
            os.close(hold_life)

    def _be_the_child(self, life: int, write_reply: int) -> NoReturn:
        status = 1
        try:
            _silence()
            limit_this_process(self._limits, hard_memory=self._request["memory_guard"] == "limit")
            die_with_parent(self._server_pid, life)
            frames.write(write_reply, query_run.answer(self._request))
            status = 0
        finally:
            os._exit(status)  # nothing of the server's may run here: no handlers, no buffers

    def _watch(self, pid: int, reply: int) -> bytes:
        """Wait for the reply, the time limit, too much memory or the end of the driver, whatever comes first."""
        incoming = frames.Incoming(self._limits["reply_bytes"] * 2 + REPLY_SLACK)
        over_memory = self._memory_watch(pid)
        deadline = time.monotonic() + self._limits["seconds"]
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return self._stop(pid, "time", self._too_long())
            readable, _, _ = select.select(
                [reply, *self._quit_fds], [], [], left if over_memory is None else min(left, LOOK_EVERY_SECONDS)
            )
            if any(fd in readable for fd in self._quit_fds):
                self._stop(pid, "died", "")
                sys.exit(0)
            if reply in readable:
                data = os.read(reply, 1 << 16)
                if not data:
                    return self._gone(pid)
                message = incoming.feed(data)  # a reply too long for us ends this process, and so the child
                if message is not None:
                    _end(pid)
                    return frames.framed(message)
            elif over_memory is not None and over_memory():
                return self._stop(pid, "memory", "The query needs more memory than it may use.")

    def _memory_watch(self, pid: int) -> Callable[[], bool] | None:
        """Where the system sets no limit to a process's memory: a look at what the child holds."""
        if self._request["memory_guard"] == "limit":
            return None
        process = psutil.Process(pid)
        most = psutil.Process().memory_info().rss + self._limits["process_bytes"]
        return lambda: _resident(process) > most

    def _gone(self, pid: int) -> bytes:
        """The child ended without an answer: say why, as far as its exit status tells."""
        status = _end(pid, patience_seconds=1)
        if status == -signal.SIGXCPU:
            return _error("time", self._too_long())
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return _error("died", f"The process of the query ended {how} and left no answer.")

    def _stop(self, pid: int, kind: str, message: str) -> bytes:
        _end(pid)
        return _error(kind, message)

    def _too_long(self) -> str:
        return f"The query took longer than {self._limits['seconds']:g} seconds and was stopped."


def limit_this_process(limits: Mapping[str, Any], hard_memory: bool) -> None:
    """Give this process its limits, from which there is no way back.

    CPU time is a second fence behind the clock of the server. No file may grow, so nothing is written; no core dump.
    With `hard_memory` the address space may grow by `process_bytes` from here: what DuckDB counts is less than it takes
    (with a memory limit alone one repeat() took 3 GB).
    """
    seconds = math.ceil(limits["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    if hard_memory:
        most = psutil.Process().memory_info().vms + limits["process_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _silence() -> None:
    """Native code prints when it aborts; the driver's terminal is not the place for it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # just ended; its pipe says the same in a moment
        return 0


def _end(pid: int, patience_seconds: float = 0) -> int:
    """Reap the child, killing it unless it ends by itself in time; its exit status, negative for a signal.

    A child whose pipe is at its end is ending, but may still be giving its memory back.
    """
    patient_until = time.monotonic() + patience_seconds
    ended, status = os.waitpid(pid, os.WNOHANG)
    while ended == 0 and time.monotonic() < patient_until:
        time.sleep(0.002)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if ended == 0:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _error(kind: str, message: str) -> bytes:
    return frames.pack({"error": {"kind": kind, "message": message}})


if __name__ == "__main__":
    main()
