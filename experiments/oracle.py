"""The oracle: what happened in the world, by the word of nobody who is on trial.

A process of its own keeps one append-only file. Whoever changes the world tells it, and goes on only when the line is
on disk (fsync). It knows no ids that would make two effects one: told twice, it holds two lines. So it is also the
world of the control, where it stands for a provider that does what it is told, like a mail server.

    python -m experiments.oracle --log FILE --ready-file FILE [--host ADDRESS]

One connection per line: a JSON object and a newline go in, the number of the line comes back.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from experiments.standing_server import LOOPBACK, serve

ANSWER_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One line: a change of the world.

    `entry` numbers the lines from 1. `digest` says what was written. `marker` is what a provider that can be searched
    would find it by. `again`: it was sent, and the world did not change, since what was sent stood there already.
    """

    entry: int
    run_id: str
    kind: str
    resource: str
    digest: str
    marker: str = ""
    again: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From a line of the log."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__ if name in value})


@dataclass(frozen=True)
class Oracle:
    """How to reach the oracle; may be handed to other processes."""

    port: int
    log: Path
    host: str = LOOPBACK

    def record(
        self, *, run_id: str, kind: str, resource: str, digest: str, marker: str = "", again: bool = False
    ) -> int:
        """Tell one effect; its number, once it is on disk."""
        line = {"run_id": run_id, "kind": kind, "resource": resource, "digest": digest}
        line |= {"marker": marker, "again": again}
        with socket.create_connection((self.host, self.port), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            answer = connection.makefile("rb").readline()
        if not answer.strip().isdigit():
            raise RuntimeError("The oracle did not confirm an effect, so nothing that follows would be evidence.")
        return int(answer)

    def effects(self, run_id: str) -> tuple[Effect, ...]:
        """Every effect of one run, in order."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        told = [Effect.from_json(json.loads(line)) for line in lines if run_id in line]  # parse no other run's
        return tuple(effect for effect in told if effect.run_id == run_id)


class _Server(socketserver.ThreadingTCPServer):
    """Appends; the lock makes line numbers and lines agree."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, log: Path, host: str) -> None:
        super().__init__((host, 0), _Request)
        self._file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._entries = len(log.read_bytes().splitlines())

    def append(self, line: dict[str, Any]) -> int:
        """The number of the line, which is on disk."""
        with self._lock:
            self._entries += 1
            text = json.dumps({"entry": self._entries, **line}, ensure_ascii=False)
            os.write(self._file, text.encode() + b"\n")
            os.fsync(self._file)
            return self._entries


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """One line in, its number back."""
        assert isinstance(self.server, _Server)
        line = self.rfile.readline()
        if line.endswith(b"\n"):  # a teller that was killed while it spoke has told nothing
            self.wfile.write(b"%d\n" % self.server.append(json.loads(line)))


def main() -> None:
    """Serve until the process that started this one is gone."""
    serve(__doc__, _Server)


if __name__ == "__main__":
    main()
