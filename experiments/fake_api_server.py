"""The inside of the fake API: what it knows, what can go wrong, and its two ports. See experiments/fake_api.py.

faults of a send    error before, error after      500, without or with the effect
                    lie                            201, without the effect
                    drop before, drop after        the connection is closed without an answer
                    delay before, delay after      for some seconds
                    hold before, hold after        until released: a late request, or an answer that never comes
                    busy, unavailable, refuse      429, 503, 422, without the effect
                    conflict, redirect             409, 302, without the effect
                    huge, broken, cut, no id       an answer, with the effect, that cannot be read or lacks its id
                    double                         the effect happens twice
faults of a search  error, drop, delay, hold, broken, huge
                    lag                            it does not show things, or not those younger than some seconds
                    duplicate                      one thing more, with the same marker
                    twice                          each thing is listed two times
                    more                           there is a further page
                    everything                     the filter is ignored
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

FLAVOURS = ("idempotent", "searchable", "opaque")
HUGE_BYTES = 3 * 1024 * 1024
_WITHOUT_EFFECT = {
    "busy": 429,
    "unavailable": 503,
    "refuse": 422,
    "conflict": 409,
    "redirect": 302,
    "error before": 500,
    "lie": 201,
    "drop before": 0,
}
_WITH_EFFECT = {"error after", "drop after", "huge", "broken", "cut", "no id", "double"}
_WAITING = {f"{word} {when}" for word in ("delay", "hold") for when in ("before", "after")}
SEND_FAULTS = _WITH_EFFECT | _WAITING | set(_WITHOUT_EFFECT)
SEARCH_FAULTS = {"error", "drop", "delay", "hold", "broken", "huge"} | {
    "lag",
    "duplicate",
    "twice",
    "more",
    "everything",
}


@dataclass
class Fault:
    """What goes wrong, how often yet (None: always), and with which marker (None: any)."""

    what: str
    on: str
    times: int | None
    seconds: float
    marker: str | None


@dataclass(frozen=True)
class Call:
    """A request of one flavour, as its handler understood it."""

    flavour: str
    marker: str | None
    key: str | None
    body: bytes

    @property
    def digest(self) -> str:
        """The hex sha256 of the body."""
        return hashlib.sha256(self.body).hexdigest()


class Drop(Exception):
    """Close the connection; `sent` goes out before."""

    def __init__(self, sent: bytes = b"") -> None:
        self.sent = sent


Answer = tuple[int, bytes]


class World:
    """Things and keys, from the log; faults; what arrived. One lock around all of it, never held while waiting."""

    def __init__(self, log: Path) -> None:
        text = log.read_bytes() if log.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        self._file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        os.ftruncate(self._file, len(whole))  # a kill may have torn the last line, which was then never answered
        self.lock = threading.Lock()
        self.things: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        self.requests: list[dict[str, Any]] = []
        self.held = 0
        self.under_way = 0
        self._faults: list[Fault] = []
        self._released = threading.Event()
        self._forgotten_at = 0.0
        self._key_seconds: float | None = None

    def control(self, what: Mapping[str, Any]) -> None:
        """See FakeApi.control."""
        with self.lock:
            if what["heal"]:
                self._faults.clear()
            if what["forget_keys"]:
                self._forgotten_at = time.time()
            if what["forget_keys_after"] is not None:
                self._key_seconds = what["forget_keys_after"]
            for on in ("send", "search"):
                if what[on] is not None:
                    self._faults.append(Fault(what[on], on, what["times"], what["seconds"], what["marker"]))
            if what["release"] or what["heal"]:
                self._released.set()
                self._released = threading.Event()

    def take_fault(self, on: str, marker: str | None) -> Fault | None:
        """The first fault that is meant for this request."""
        with self.lock:
            for fault in self._faults:
                if fault.on == on and fault.marker in (None, marker) and fault.times != 0:
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None

    def hold(self) -> None:
        """Wait for the next release."""
        with self.lock:
            released = self._released
            self.held += 1
        released.wait()
        with self.lock:
            self.held -= 1

    def apply(self, call: Call) -> dict[str, Any] | None:
        """The thing that was made, or was made before with this key; None for a key that had another body."""
        with self.lock:
            if call.flavour == "idempotent" and call.key is not None:
                known = next((thing for thing in self.things if self._remembers(thing, call.key)), None)
                if known is not None:
                    return known if known["digest"] == call.digest else None
            thing = {"id": f"thing-{len(self.things) + 1}", "flavour": call.flavour, "marker": call.marker}
            thing |= {"key": call.key, "digest": call.digest, "at": time.time()}
            os.write(self._file, json.dumps(thing).encode() + b"\n")
            os.fsync(self._file)
            self.things.append(thing)
            return thing

    def _remembers(self, thing: Mapping[str, Any], key: str) -> bool:
        if thing["flavour"] != "idempotent" or thing["key"] != key or thing["at"] <= self._forgotten_at:
            return False
        return self._key_seconds is None or time.time() - thing["at"] < self._key_seconds

    def search(self, call: Call, fault: Fault | None) -> list[dict[str, Any]]:
        """The things with a marker, as the index shows them."""
        what = fault.what if fault else None
        with self.lock:
            found = [thing for thing in self.things if thing["flavour"] == call.flavour]
        if what != "everything":
            found = [thing for thing in found if thing["marker"] == call.marker]
        if fault and what == "lag":
            found = [thing for thing in found if fault.seconds and time.time() - thing["at"] >= fault.seconds]
        if what == "duplicate":
            found = [*found, *({**thing, "id": thing["id"] + "-again"} for thing in found)]
        return found * 2 if what == "twice" else found


def send(world: World, call: Call, fault: Fault | None) -> Answer:
    """The answer to a POST; the effect is on disk before it."""
    what = fault.what if fault else ""
    if fault and what == "delay before":
        time.sleep(fault.seconds)
    if what == "hold before":
        world.hold()
    if what in _WITHOUT_EFFECT:
        return _without_effect(what)
    thing = world.apply(call)
    if thing is None:
        return 422, _json({"error": "this key was used with another body"})
    if what == "double":
        world.apply(Call(call.flavour, call.marker, None, call.body))
    if fault and what == "delay after":
        time.sleep(fault.seconds)
    if what == "hold after":
        world.hold()
    return _with_effect(what, thing)


def _without_effect(what: str) -> Answer:
    if what == "drop before":
        raise Drop
    body = {"id": "thing-0", "marker": None} if what == "lie" else {"error": what}
    return _WITHOUT_EFFECT[what], _json(body)


def _with_effect(what: str, thing: Mapping[str, Any]) -> Answer:
    body = _json(thing)
    match what:
        case "error after":
            return 500, _json({"error": "error after"})
        case "drop after":
            raise Drop
        case "cut":
            raise Drop(b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n" + body)
        case "huge":
            return 201, _json({**thing, "padding": "x" * HUGE_BYTES})
        case "broken":
            return 201, body[:-5]
        case "no id":
            return 201, _json({name: value for name, value in thing.items() if name != "id"})
        case _:
            return 201, body


def search(world: World, call: Call, fault: Fault | None) -> Answer:
    """The answer to a look-up."""
    what = fault.what if fault else ""
    if fault and what == "delay":
        time.sleep(fault.seconds)
    if what == "hold":
        world.hold()
    if what == "drop":
        raise Drop
    if what == "error":
        return 500, _json({"error": "error"})
    found = world.search(call, fault)
    document: dict[str, Any] = {"items": found, "total": len(found), "has_more": what == "more"}
    if what == "more":
        document["total"] += 1
    if what == "huge":
        document["padding"] = "x" * HUGE_BYTES
    body = _json(document)
    return 200, body[:-5] if what == "broken" else body


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


class _Handler(BaseHTTPRequestHandler):
    """What both ports share. An answer is one write, with no waiting for an acknowledgement."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    world: ClassVar[World]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are kept by the world."""

    def read_body(self) -> bytes:
        """The whole body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status: int, body: bytes) -> None:
        """One answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", self.path)
        self.end_headers()
        self.wfile.write(body)


class _Api(_Handler):
    """The public port."""

    def do_POST(self) -> None:
        """Make a thing."""
        body = self.read_body()
        flavour, what, query = self._path()
        if flavour not in FLAVOURS or what != "things":
            return self.answer(404, _json({"error": "no such route"}))
        marker = self.headers.get("X-Marker") or query.get("marker") or _marker_of(body)
        call = Call(flavour, marker, self.headers.get("Idempotency-Key"), body)
        return self._do("send", call)

    do_PUT = do_POST

    def do_GET(self) -> None:
        """Look for things."""
        flavour, what, query = self._path()
        if flavour not in FLAVOURS:
            return self.answer(404, _json({"error": "no such route"}))
        single = unquote(what.removeprefix("by-marker/")) if what.startswith("by-marker/") else None
        return self._do("search", Call(flavour, single or query.get("marker"), None, b""), single is not None)

    def _do(self, on: str, call: Call, single: bool = False) -> None:
        fault = self.world.take_fault(on, call.marker)
        seen = {"method": self.command, "target": self.path, "headers": dict(self.headers.items())}
        seen |= {"body": call.body.decode("utf-8", "replace"), "fault": fault and fault.what}
        with self.world.lock:
            self.world.requests.append(seen)
            self.world.under_way += 1
        try:
            status, body = (send if on == "send" else search)(self.world, call, fault)
            if single and status == 200 and not (fault and fault.what == "broken"):
                items = json.loads(body)["items"]
                status, body = (200, _json(items[0])) if items else (404, _json({"error": "none"}))
            self.answer(status, body)
        except Drop as drop:
            self.wfile.write(drop.sent)
            self.wfile.flush()
            self.close_connection = True
        except OSError:  # the caller has gone; what happened, happened
            self.close_connection = True
        finally:
            with self.world.lock:
                self.world.under_way -= 1

    def _path(self) -> tuple[str, str, dict[str, str]]:
        parts = urlsplit(self.path)
        flavour, _, what = parts.path.removeprefix("/").partition("/")
        return flavour, what, {name: values[0] for name, values in parse_qs(parts.query).items()}


class _Control(_Handler):
    """The experimenter's port."""

    def do_POST(self) -> None:
        """Change what goes wrong."""
        self.world.control(json.loads(self.read_body()))
        self.answer(200, b"{}")

    def do_GET(self) -> None:
        """What arrived, and what is held."""
        with self.world.lock:
            state = {"requests": self.world.requests, "held": self.world.held, "under_way": self.world.under_way}
            body = _json(state)
        self.answer(200, body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that is killed in mid-request is what this is for; anything else is told."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _marker_of(body: bytes) -> str | None:
    try:
        marker: Any = json.loads(body)["marker"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(marker)


def serve(log: Path, ready_file: Path, port: int, tls: tuple[Path, Path] | None) -> None:
    """Listen on both ports, say which in the ready file, and go on until the process is ended."""
    _Handler.world = World(log)
    api, control = _Server(("127.0.0.1", port), _Api), _Server(("127.0.0.1", 0), _Control)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        # The handshake is the handler thread's: one that never ends holds up nobody.
        api.socket = context.wrap_socket(api.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=control.serve_forever, name="control", daemon=True).start()
    part = ready_file.with_suffix(".part")
    part.write_text(json.dumps({"port": api.server_port, "control_port": control.server_port}), encoding="utf-8")
    part.replace(ready_file)
    api.serve_forever()
