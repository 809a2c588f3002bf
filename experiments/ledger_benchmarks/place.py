"""A service over a database of its own, and requests for it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from experiments.benchmarks.services import Services
from experiments.cluster import new_database, service
from experiments.errors import NotRun
from experiments.ledger_benchmarks.service import NOTHING
from experiments.ledger_benchmarks.wire import Reply, Wire, request
from onward_ledger.action import ActionKey

RESOURCE, PARAMS = "customers/cus_8815", {"customer": "cus_8815", "amount": 4999}
STEP = "pay"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a service listens, and what it stands on. Requests go over one kept connection."""

    name: str
    dsn: str
    folder: Path
    port: int
    pid: int
    token: str
    wire: Wire
    run_id: str
    numbers: count[int] = field(default_factory=count)

    @property
    def url(self) -> str:
        """For clients."""
        return f"http://127.0.0.1:{self.port}"

    def fresh(self) -> bytes:
        """A request for an action that nobody has asked for yet, in the run whose epoch is announced."""
        return put_action(self.token, self.run_id, f"charge-{next(self.numbers)}")

    def get(self, path: str) -> bytes:
        """A request that reads."""
        return request("GET", path, self.token)

    def ask(self, data: bytes) -> Reply:
        """The answer. NotRun when it is none."""
        return right(self.wire.ask(data))


def key_of(run_id: str, slot: str) -> ActionKey:
    """The action of a slot."""
    return ActionKey(run_id, STEP, slot)


def put_action(token: str, run_id: str, slot: str, kind: str = NOTHING) -> bytes:
    """A request for one action."""
    key = key_of(run_id, slot)
    body: dict[str, Any] = {"run_id": run_id, "step": STEP, "slot": slot, "rev": 1, "kind": kind, "epoch": 1}
    body |= {"resource": RESOURCE, "params": PARAMS}
    return request("PUT", f"/v1/actions/{key.action_id}", token, body)


def put_fence(token: str, run_id: str) -> bytes:
    """A request that announces the epoch of a run."""
    return request("PUT", f"/v1/fences/{run_id}", token, {"epoch": 1, "holder": "benchmark"})


def right(reply: Reply) -> Reply:
    """The reply, if the service did what it was asked for."""
    if reply.status != 200:
        raise NotRun(f"The ledger answered {reply.status}: {reply.body[:300].decode(errors='replace')}")
    return reply


@contextmanager
def open_place(services: Services, name: str) -> Generator[Place]:
    """Start a service over a new database; stop it in the end."""
    folder = services.folder / f"{name}-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    dsn = new_database(services.dsn, folder.name.replace("-", "_"))
    ready = folder / "service.ready"
    command = ["-m", "experiments.ledger_benchmarks.service", "--store", dsn, "--folder", folder]
    with service("service", [*command, "--ready-file", ready, "--parent", os.getpid()], folder, ready) as text:
        told = json.loads(text)
        port = int(told["url"].rpartition(":")[2])
        wire, run_id = Wire(port), str(uuid.uuid4())
        place = Place(
            name=name,
            dsn=dsn,
            folder=folder,
            port=port,
            pid=told["pid"],
            token=(folder / "token").read_text(encoding="ascii").strip(),
            wire=wire,
            run_id=run_id,
        )
        place.ask(put_fence(place.token, run_id))
        try:
            yield place
        finally:
            wire.close()
