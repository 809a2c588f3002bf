"""What the steps say about themselves, as it happens: datagrams on a local socket, which outlive their sender.

A mark that was sent is in the receiver's queue, whatever becomes of the process that sent it. The receiver wakes at
once, so a kill can follow a mark without looking again and again. All clocks are that of one machine.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

ADDRESS = "RECOVERING_MARKS"
LARGEST_BYTES = 4096

Word = Literal["begin", "end"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A step of a run began or ended, in a process, at an instant (Unix seconds)."""

    run_id: str
    step: int
    word: Word
    pid: int
    at: float

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def tell(run_id: str, step: int, word: Word) -> None:
    """Send a mark to the receiver that the environment names."""
    mark = Mark(run_id=run_id, step=step, word=word, pid=os.getpid(), at=time.time())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(json.dumps(mark.to_json()).encode(), os.environ[ADDRESS])


class Marks:
    """Receives marks from `with` to its end."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self._marks: list[Mark] = []
        self._changed = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._receive, name="marks", daemon=True)

    def __enter__(self) -> Self:
        self._socket.bind(str(self.address))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", str(self.address))
        self._thread.join()
        self._socket.close()

    def of(self, run_id: str) -> tuple[Mark, ...]:
        """The marks of a run so far, in order of their instants."""
        with self._changed:
            return tuple(sorted((mark for mark in self._marks if mark.run_id == run_id), key=lambda mark: mark.at))

    def wait(self, wanted: Callable[[Mark], bool], seconds: float) -> Mark | None:
        """The first mark that is wanted, as soon as it is there; None when it does not come in time."""
        found: Mark | None = None

        def find() -> bool:
            nonlocal found
            found = next(filter(wanted, self._marks), None)
            return found is not None

        with self._changed:
            self._changed.wait_for(find, seconds)
        return found

    def _receive(self) -> None:
        while data := self._socket.recv(LARGEST_BYTES):
            mark = Mark(**json.loads(data))
            with self._changed:
                self._marks.append(mark)
                self._changed.notify_all()
