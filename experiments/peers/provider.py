"""The world: a payment provider in a process of its own, which counts its charges in a fsynced log.

    python -m experiments.peers.provider --log FILE --ready-file FILE --parent PID

`POST /charges` performs one charge: the line is on disk before the answer is sent. It does what it is told, each time,
like most APIs; only where the request says `keyed` does it remember the Idempotency-Key for ever, and answers a second
request with the first one's charge. `GET /charges?key=` searches, always, and sees everything at once.

A request can ask for slowness: `think_seconds` before the commit, `hold_seconds` between the commit and the answer.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import urllib.parse
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# How long a caller waits for the provider's answer; what takes longer is a TimeoutError with it.
ANSWER_SECONDS = 1.0

Charge = dict[str, Any]


@dataclass(frozen=True)
class Provider:
    """How to reach the provider; may be handed to other processes."""

    port: int
    log: Path

    def charge(self, key: str, body: dict[str, Any]) -> Charge:
        """Perform one charge. TimeoutError and OSError say nothing about whether it happened."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._exchange("POST", "/charges", json.dumps(body), headers)

    def find(self, key: str) -> Charge | None:
        """The first charge that was made with this key."""
        found = self._exchange("GET", f"/charges?{urllib.parse.urlencode({'key': key})}", None, {})["charges"]
        return found[0] if found else None

    def _exchange(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"The provider answered {answer.status}.")
            return json.loads(answer.read())
        finally:
            connection.close()

    def charges(self, case: str) -> list[Charge]:
        """What happened in one case, in order, by the log. `again`: sent, and answered with an earlier charge."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line for line in map(json.loads, lines) if line["case"] == case]


class _Server(ThreadingHTTPServer):
    """Appends; the lock makes the search, the numbers and the lines agree."""

    daemon_threads = True

    def __init__(self, log: Path, host: str) -> None:
        super().__init__((host, 0), _Request)
        self._file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._lines: list[Charge] = []

    def perform(self, key: str, body: dict[str, Any]) -> Charge:
        """The charge, on disk."""
        with self._lock:
            earlier = self.made_with(key) if body["keyed"] else []
            charge = {"charge": f"ch_{len(self._lines) + 1}", "case": body["case"], "key": key}
            charge |= {"amount": body["amount"], "again": False}
            if earlier:
                charge = earlier[0] | {"again": True}
            self._lines.append(charge)
            os.write(self._file, json.dumps(charge).encode() + b"\n")
            os.fsync(self._file)
            return charge

    def made_with(self, key: str) -> list[Charge]:
        """Charges under a key, oldest first."""
        return [charge for charge in self._lines if charge["key"] == key and not charge["again"]]


class _Request(BaseHTTPRequestHandler):
    @property
    def _world(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def do_POST(self) -> None:
        """Perform one charge."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(body["think_seconds"])
        charge = self._world.perform(self.headers["Idempotency-Key"], body)
        time.sleep(body["hold_seconds"])
        self._answer(charge)

    def do_GET(self) -> None:
        """Search by key."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self._answer({"charges": self._world.made_with(query["key"][0])})

    def _answer(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            return  # whoever asked is gone, or has given up; the charge stands

    def log_message(self, format: str, *args: Any) -> None:
        """The log of this server is its charges."""


def main() -> None:
    """Serve until the process that started this one is gone."""
    from experiments.standing_server import serve

    serve(__doc__, _Server)


if __name__ == "__main__":
    main()
