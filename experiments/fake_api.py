"""A public API that misbehaves on request: a process of its own, with a log that says what really happened.

    POST /FLAVOUR/things                 makes a thing; 201 {"id", "marker", ...}
    GET  /FLAVOUR/things?marker=TEXT     {"items": [...], "total": n, "has_more": false}
    GET  /FLAVOUR/by-marker/TEXT         one thing, or 404

`idempotent` deduplicates by the header Idempotency-Key, `searchable` can be searched, `opaque` does neither: every
request is one more thing. The marker is the member `marker` of the body, the header X-Marker, or `marker` of the query.

An effect is a line of the log, on disk (fsync) before anything is answered. The log is all that the API knows: it can
be killed and started again on it, and remembers things and keys.

    with FakeApi(folder) as api:
        api.control(send="error after")            # the next request is applied, and answered with 500
        api.control(search="lag", times=2)         # two look-ups do not show what is there
        ...
        api.effects(marker=action_id)              # read from the log
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from experiments.errors import NotRun
from experiments.fake_api_server import SEARCH_FAULTS, SEND_FAULTS, serve

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
WAIT_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One line of the log. `digest` is that of the request's body, `at` the API's clock (Unix seconds)."""

    id: str
    flavour: str
    marker: str | None
    key: str | None
    digest: str
    at: float


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request that arrived, whatever became of it. `fault` is what was done to it."""

    method: str
    target: str
    headers: dict[str, str]
    body: str
    fault: str | None


class FakeApi:
    """The process, from outside. Start it from a thread that lives as long as it should: it ends with its parent.

    With `certificate` and `key` (files) it speaks TLS. The same folder and port again are the same API, restarted.
    """

    def __init__(self, folder: Path, *, certificate: Path | None = None, key: Path | None = None) -> None:
        self.folder = folder
        self.log = folder / "fake-api.log"
        self.port = 0
        self._tls = [] if certificate is None else ["--certificate", str(certificate), "--key", str(key)]
        self._process: subprocess.Popen[bytes] | None = None
        self._control_port = 0

    def start(self) -> Self:
        """Start it and wait until it listens; after a stop or kill, on the port that it had."""
        assert self._process is None, "it runs"
        ready = self.folder / "fake-api.ready"
        ready.unlink(missing_ok=True)
        where = ["--log", str(self.log), "--ready-file", str(ready), "--port", str(self.port)]
        command = [sys.executable, "-m", "experiments.fake_api", *where, *self._tls, "--parent", str(os.getpid())]
        errors = self.folder / "fake-api.err"
        with errors.open("ab") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=file, stderr=file, start_new_session=True
            )
        end = time.monotonic() + START_SECONDS
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise NotRun.because("fake API", errors)
            time.sleep(0.01)
        told = json.loads(ready.read_text(encoding="utf-8"))
        self.port, self._control_port = told["port"], told["control_port"]
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def control(
        self,
        *,
        send: str | None = None,
        search: str | None = None,
        times: int | None = 1,
        seconds: float = 0.0,
        marker: str | None = None,
        forget_keys: bool = False,
        forget_keys_after: float | None = None,
        release: bool = False,
        heal: bool = False,
    ) -> None:
        """What goes wrong from now on.

        `send` and `search` name a fault of `experiments.fake_api_server`, for the next `times` requests (None: all),
        or for those with `marker`. `seconds`: of a delay, or the age until which a lagging index does not show a thing.
        `forget_keys` forgets every idempotency key; `forget_keys_after`: how long keys live from now on, in seconds.
        `release` lets go of what is held, `heal` does that and removes every fault.
        """
        for fault, known in ((send, SEND_FAULTS), (search, SEARCH_FAULTS)):
            if fault is not None and fault not in known:
                raise ValueError(f"there is no fault {fault!r}; there are {', '.join(sorted(known))}")
        what: dict[str, Any] = {"send": send, "search": search, "times": times, "seconds": seconds, "marker": marker}
        what |= {"forget_keys": forget_keys, "forget_keys_after": forget_keys_after, "release": release, "heal": heal}
        self._ask("/control", what)

    def requests(self) -> tuple[Seen, ...]:
        """Every request that arrived since it was started, in order."""
        return tuple(Seen(**seen) for seen in self._ask("/state")["requests"])

    def held(self) -> int:
        """How many requests are held right now."""
        return self._ask("/state")["held"]

    def under_way(self) -> int:
        """How many requests are being handled right now, held ones among them; whether or not somebody waits."""
        return self._ask("/state")["under_way"]

    def fired(self) -> tuple[str, ...]:
        """The faults that really happened, in order."""
        return tuple(seen.fault for seen in self.requests() if seen.fault is not None)

    def effects(self, *, marker: str | None = None, flavour: str | None = None) -> tuple[Effect, ...]:
        """What happened, from the log; also while the process is dead. A line that was torn by a kill is none."""
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        lines = [json.loads(line) for line in text.split("\n")[:-1]]
        effects = [Effect(**line) for line in lines]
        return tuple(e for e in effects if marker in (None, e.marker) and flavour in (None, e.flavour))

    def wait_until(self, condition: Callable[[FakeApi], bool], seconds: float = WAIT_SECONDS) -> None:
        """Wait until something is so, such as `lambda api: api.held() == 1`."""
        end = time.monotonic() + seconds
        while not condition(self):
            assert time.monotonic() < end, "the fake API did not come to that"
            time.sleep(0.005)

    def stop(self) -> None:
        """Ask it to end; what it holds is dropped."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._control_port}{path}", data)
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  loopback
            return json.loads(answer.read())


def main() -> None:
    """Serve until the process that started this one is gone."""
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--parent", type=int, required=True, help="the pid of the process that started this one")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent, sys.stdin.fileno())
    tls = (arguments.certificate, arguments.key) if arguments.certificate is not None else None
    serve(arguments.log, arguments.ready_file, arguments.port, tls)


if __name__ == "__main__":
    main()
