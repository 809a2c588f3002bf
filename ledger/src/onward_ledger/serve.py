"""The service as a process: open the store, settle what dead instances left, listen, tell where, and stop cleanly."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import ssl
import sys
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvicorn

import onward_ledger
from onward_ledger.background import Background
from onward_ledger.dispatcher import Dispatcher
from onward_ledger.errors import BadRequest
from onward_ledger.heads import BoundedHeads
from onward_ledger.ledger import Ledger
from onward_ledger.objects import Objects
from onward_ledger.private_file import write_private
from onward_ledger.protocol import API_VERSION
from onward_ledger.providers import providers_for
from onward_ledger.routes.common import Service
from onward_ledger.service import create_app
from onward_ledger.store import SCHEMA, identity, open_store
from onward_ledger.sweeper import Sweeper
from onward_ledger.tls import Certificate, server_context
from onward_ledger.tokens import Tokens
from onward_ledger.values import Health
from onward_ledger.watch import Watch
from onward_ledger.witness import Witness

log = logging.getLogger("onward_ledger")

# A stop waits this long for requests in flight; a send that takes longer is UNKNOWN to the next instance.
STOP_SECONDS = 40

# Longer than any client of ours keeps an idle connection, so that none is closed while a request is on its way.
KEEP_ALIVE_SECONDS = 75


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """How the service runs. Port 0 takes a free one; `ready_file` gets JSON once it listens.

    `config` adds kinds of effects, `tokens` more tokens than the one service token. With a `certificate` it speaks TLS
    only, and with a `client_ca` to clients with a certificate of that authority only. Without a `witness`, a folder
    outside the database, a restored database goes unnoticed.
    """

    store: str
    objects: str
    token: str
    host: str = "127.0.0.1"
    port: int = 0
    ready_file: Path | None = None
    schema: str = SCHEMA
    config: Path | None = None
    tokens: Path | None = None
    certificate: Certificate | None = None
    client_ca: Path | None = None
    witness: Path | None = None

    def context(self) -> ssl.SSLContext | None:
        """What to listen with; None without TLS."""
        return server_context(self.certificate, self.client_ca) if self.certificate is not None else None


def read_token(path: Path) -> str:
    """The service token of a file; a missing file gets a new token, readable by its owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(32) + "\n")
    token = path.read_text(encoding="ascii").strip()
    if len(token) < 16:
        raise BadRequest(f"The token in {path} is shorter than 16 characters; delete the file to get a new one.")
    return token


def serve(options: ServeOptions) -> None:
    """Run until SIGTERM or SIGINT; requests in flight are finished first."""
    context = options.context()  # a file that cannot be used is told before anything is opened
    objects = Objects(options.objects)
    providers, tokens = providers_for(objects, options.config), Tokens(options.token, options.tokens)
    objects.remove_leftovers()
    opened = open_store(options.store, schema=options.schema)
    instance = str(uuid.uuid4())
    try:
        opened.liveness.hold()
        opened.database.migrate()
        opened.store.start_instance(
            instance,
            lock_key=opened.liveness.lock_key,
            version=onward_ledger.__version__,
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        known = identity.ensure(opened.database)
        if options.witness is not None:
            opened.store.watch = Watch(opened.database, Witness(options.witness, known.ledger_id), known)
            opened.store.watch.start()
        ledger = Ledger(opened.store, providers, instance=instance)
        lost = opened.store.lose_gone(ledger.sender)
        if lost:
            log.warning("%d actions of instances that are gone are UNKNOWN now.", lost)
        health = Health(
            instance=instance,
            version=onward_ledger.__version__,
            store=opened.kind,
            objects=objects.url,
            pid=os.getpid(),
            api=API_VERSION,
            ledger_id=known.ledger_id,
        )
        with Background(Dispatcher(ledger), Sweeper(ledger), seconds=STOP_SECONDS) as background:
            _listen(options, context, Service(ledger=ledger, health=health, tokens=tokens), background.end)
        opened.store.stop_instance(instance)
        for provider in providers.values():
            provider.close()
    finally:
        if opened.store.watch is not None:
            opened.store.watch.stop()
        opened.liveness.release()
        opened.database.close()


def _listen(
    options: ServeOptions, context: ssl.SSLContext | None, service: Service, stopping: Callable[[], None]
) -> None:
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)  # what an earlier instance wrote is not true any more
    with _bound(options.host, options.port) as bound:
        host, port = bound.getsockname()[:2]
        scheme = "https" if context is not None else "http"
        url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        config = uvicorn.Config(
            create_app(service),
            log_level="warning",
            access_log=False,
            server_header=False,
            ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
            http=BoundedHeads,
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        _Server(config, options.ready_file, _ready(service.health, url), stopping).run(sockets=[bound])


def _ready(health: Health, url: str) -> dict[str, object]:
    started_at = datetime.now(UTC).isoformat()
    return {
        "url": url,
        "pid": health.pid,
        "instance": health.instance,
        "version": health.version,
        "started_at": started_at,
    }


@contextmanager
def _bound(host: str, port: int) -> Generator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm off only for sockets that name it; with it on, each
    # answer waits 40 ms for the acknowledgement of its own headers.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except OSError as error:
            raise BadRequest(f"The address {host}:{port} cannot be used: {error.strerror or error}.") from error
        yield bound


class _Server(uvicorn.Server):
    """Uvicorn that tells when it listens and when it is about to stop, and whose stop by a signal is a success."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready_file: Path | None,
        ready: dict[str, object],
        stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._ready_file = ready_file
        self._ready = ready
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then write the ready file."""
        await super().startup(sockets=sockets)
        if self._ready_file is not None:
            write_private(self._ready_file, json.dumps(self._ready) + "\n")
        sys.stderr.write(f"onward-ledger {self._ready['version']} listens on {self._ready['url']}\n")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nothing new begins while requests in flight are finished."""
        self._stopping()
        await super().shutdown(sockets=sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGTERM and SIGINT. Uvicorn would raise the signal again behind a clean stop."""
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
