"""Run a SELECT over the sheets of a workbook, in a process that may take no more than it is given.

    with QueryServer() as queries:
        result = queries.run([TableFile(sheet="Sales", path=parquet)], 'SELECT sum("revenue") FROM "Sales"')

Whatever the text of the query is: no file is read or written, no setting changed, no extension loaded; memory, time,
rows and bytes have limits; and when the process that asked is killed, all of it is gone (`tools.query_child`). The same
query on the same tables gives the same bytes.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

from tools import frames
from tools.errors import QueryError, QueryErrorKind
from tools.process import at_work
from tools.query_values import JsonScalar

REPOSITORY: Final = Path(__file__).resolve().parents[1]
START_SECONDS: Final = 60.0  # importing DuckDB takes 0.3 s; this is for a machine that is very busy
GRACE_SECONDS: Final = 10.0  # how much later than its own limit the server may answer before it is taken for broken

# What the server needs of the environment. The rest, credentials above all, has no business beside foreign SQL.
KEPT_ENVIRONMENT: Final = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)
# One memory arena: each further one reserves 64 MB of the address space that a child may use.
SET_ENVIRONMENT: Final = {"TZ": "UTC", "MALLOC_ARENA_MAX": "1", "PYTHONUTF8": "1"}

MemoryGuard = Literal["limit", "watch"]


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A sheet's name and the local parquet file that holds its table."""

    sheet: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one query may take. It is stopped at `seconds`; rows beyond the two last limits are counted and left out."""

    seconds: float = 30.0
    memory_bytes: int = 256 << 20  # what DuckDB counts: tables and intermediate results
    process_bytes: int = 400 << 20  # what the child may grow in all; above the former by what DuckDB does not count
    rows: int = 10_000
    reply_bytes: int = 4 << 20


DEFAULT: Final = Limits()


@dataclass(frozen=True, kw_only=True)
class Column:
    """Name and type (integer, bigint, number, decimal, date, datetime, time, boolean, text) of an answer's column."""

    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """The answer: `rows` holds at most the rows that fit the limits, `total_rows` counts all of them."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[JsonScalar, ...], ...]
    total_rows: int
    truncated: bool
    notes: tuple[str, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(
            columns=tuple(Column(name=column["name"], type=column["type"]) for column in value["columns"]),
            rows=tuple(tuple(row) for row in value["rows"]),
            total_rows=value["total_rows"],
            truncated=value["truncated"],
            notes=tuple(value["notes"]),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values: {"columns": [{"name", "type"}], "rows": [[…]], "total_rows", "truncated", "notes": [str]}."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "rows": [list(row) for row in self.rows],
            "total_rows": self.total_rows,
            "truncated": self.truncated,
            "notes": list(self.notes),
        }


class QueryServer:
    """Runs queries one after the other. Its process starts with the first query and is replaced when it has ended.

    Safe to share between threads; they wait for each other. `memory_guard` says who stops a query that takes too much
    memory: the system ("limit", Linux) or the server, which looks at it all the time ("watch", elsewhere).
    """

    def __init__(self, *, memory_guard: MemoryGuard | None = None) -> None:
        self._memory_guard: MemoryGuard = memory_guard or ("limit" if sys.platform == "linux" else "watch")
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The server's pid; None before the first query and after `close`. It leads a process group with its child."""
        return self._server.pid if self._server else None

    def start(self) -> None:
        """Start the server now, so that the first query need not wait for it (0.4 s)."""
        with self._lock:
            self._running_server()

    def run(self, tables: Sequence[TableFile], sql: str, limits: Limits = DEFAULT) -> QueryResult:
        """The answer to exactly one SELECT over the tables, which stand under their sheets' names.

        Raises QueryError; its kind says whether the query was refused, failed, ran out of memory or time, or died.
        """
        request = _request(tables, sql, limits, self._memory_guard)
        with self._lock:
            server = self._running_server()
            try:
                reply = _exchange(server, request, time.monotonic() + limits.seconds + GRACE_SECONDS)
            except BaseException:  # also a driver that must stop: half an exchange would answer the next query
                self._stop()
                raise
        error = reply.get("error")
        if error is not None:
            raise QueryError(cast(QueryErrorKind, error["kind"]), error["message"])
        return QueryResult.from_json(reply)

    def close(self) -> None:
        """End the server and whatever it runs. A later query starts another."""
        with self._lock:
            self._stop()

    def _running_server(self) -> subprocess.Popen[bytes]:
        if self._server is not None and self._server.poll() is not None:
            self._stop()
        if self._server is None:
            self._server = _start()
            try:
                _receive(self._server, time.monotonic() + START_SECONDS)
            except QueryError as error:
                self._stop()
                raise QueryError("died", "The query server could not start; it says why on standard error.") from error
            except BaseException:
                self._stop()
                raise
        return self._server

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.kill()  # its child follows at once: it is told by the system, or by its pipe
        server.wait()
        for pipe in (server.stdin, server.stdout):
            if pipe is not None:
                pipe.close()


def _request(tables: Sequence[TableFile], sql: str, limits: Limits, memory_guard: MemoryGuard) -> bytes:
    value = {
        "tables": [{"sheet": table.sheet, "path": str(table.path.absolute())} for table in tables],
        "sql": sql,
        "limits": asdict(limits),
        "memory_guard": memory_guard,
    }
    try:
        return frames.pack(value)
    except UnicodeEncodeError as error:  # half a character, as JSON from a language model may hold
        raise QueryError("refused", "The text of the query is not valid Unicode.") from error


def _start() -> subprocess.Popen[bytes]:
    """The server in a process group of its own: Ctrl-C at the terminal is for the driver."""
    environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    server = subprocess.Popen(
        [sys.executable, "-m", "tools.query_child", str(os.getpid())],
        cwd=REPOSITORY,
        env=environment | SET_ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        process_group=0,
    )
    at_work(server)
    return server


def _exchange(server: subprocess.Popen[bytes], request: bytes, deadline: float) -> dict[str, Any]:
    assert server.stdin is not None  # opened with a pipe
    try:
        frames.write(server.stdin.fileno(), request)
    except BrokenPipeError as error:
        raise _ended() from error
    return _receive(server, deadline)


def _receive(server: subprocess.Popen[bytes], deadline: float) -> dict[str, Any]:
    """The next message of the server. Raises QueryError: "died" when it ended, "time" when it hangs."""
    assert server.stdout is not None  # opened with a pipe
    fd, incoming = server.stdout.fileno(), frames.Incoming()
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            data = os.read(fd, 1 << 16)
            if not data:
                raise _ended()
            message = incoming.feed(data)
            if message is not None:
                return frames.unpack(message)
    raise QueryError("time", "The query server did not answer in time and was stopped.")


def _ended() -> QueryError:
    return QueryError("died", "The query server ended without an answer. The next query starts it again.")
