"""The whole graph in the test's own process: a real ledger service, a recorder that remembers, no driver."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver

from graph.build import RECURSION_LIMIT, build
from graph.context import Context
from onward_ledger.client import LedgerClient
from onward_ledger.objects import Objects
from tools.action import Actions
from tools.files import Files
from tools.query import QueryServer

PATIENCE_SECONDS = 30
TOKEN = "a-token-for-tests-only"


class Memory:
    """A recorder: everything that a run tells, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [data for found, data in self.lines if found == kind]

    def check(self) -> None:
        pass

    def step_started(self, step: str) -> int:
        self.lines.append(("step_started", {"step": step}))
        return 1

    def step_finished(self, step: str) -> None:
        self.lines.append(("step_finished", {"step": step}))

    def progress(self, step: str, text: str, *, done: int | None = None, total: int | None = None) -> None:
        self.lines.append(("progress", {"step": step, "text": text}))

    def model_call_started(self, step: str, model: str) -> str:
        call_id = str(uuid.uuid4())
        self.lines.append(("model_call_started", {"call_id": call_id, "step": step, "model": model}))
        return call_id

    def model_call_finished(self, call_id: str, **used: Any) -> None:
        self.lines.append(("model_call_finished", {"call_id": call_id, **used}))

    def receipt(self, action: Any, *, replayed: bool) -> None:
        self.lines.append(("receipt", {"action": action, "replayed": replayed}))


@dataclass
class World:
    """One ledger service and one object store; any number of runs."""

    client: LedgerClient
    objects: Objects
    scratch: Path
    queries: QueryServer

    def run(self, model: BaseChatModel, source: Path, *asks: str) -> Run:
        run = Run(world=self, model=model)
        run.state = run.invoke(
            {"input": {"name": source.name, **run.files.put(source.read_bytes())}, "asks": list(asks)}
        )
        return run


@dataclass
class Run:
    """One run and its state."""

    world: World
    model: BaseChatModel
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    recorder: Memory = field(default_factory=Memory)
    saver: InMemorySaver = field(default_factory=InMemorySaver)
    state: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0

    @property
    def files(self) -> Files:
        return Files(self.world.objects, self.run_id)

    def invoke(self, given: Any) -> dict[str, Any]:
        """One drive: a new epoch, announced to the ledger."""
        self.epoch += 1
        self.world.client.fence(self.run_id, self.epoch, holder="test")
        recorder = self.recorder
        context = Context(
            run_id=self.run_id,
            epoch=self.epoch,
            principal="alice",
            actions=Actions(
                self.world.client,
                self.run_id,
                self.epoch,
                on_answer=lambda action: recorder.receipt(action, replayed=action.replayed),
            ),
            files=self.files,
            recorder=recorder,
            model=self.model,
            scratch=self.world.scratch,
            queries=lambda: self.world.queries,
        )
        graph = build().compile(checkpointer=self.saver)
        config: Any = {"configurable": {"thread_id": self.run_id}, "recursion_limit": RECURSION_LIMIT}
        return graph.invoke(given, config, context=context, durability="sync")

    def draft(self, name: str) -> bytes:
        """A file of the draft that stands."""
        return self.files.get(next(o for o in self.state["draft"]["objects"] if o["name"] == name))


@contextmanager
def ledger_service(folder: Path) -> Iterator[tuple[LedgerClient, Objects]]:
    """A ledger with its own SQLite file, in a process of its own."""
    token, ready = folder / "token", folder / "ready.json"
    token.write_text(TOKEN)
    token.chmod(0o600)
    objects = (folder / "objects").as_uri()
    command = [*(sys.executable, "-m", "onward_ledger", "serve"), *("--store", f"sqlite:///{folder}/ledger.sqlite")]
    command += ["--objects", objects, "--port", "0", "--token-file", str(token), "--ready-file", str(ready)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready.exists():
            assert process.poll() is None, "the ledger ended"
            assert time.monotonic() < deadline, "the ledger did not start"
            time.sleep(0.02)
        with LedgerClient(json.loads(ready.read_text())["url"], TOKEN, principal="alice") as client:
            yield client, Objects(objects)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@contextmanager
def model_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """An OpenAI-compatible server in a process of its own: its base URL, and the log of what it was asked."""
    port, log = folder / "port", folder / "requests.jsonl"
    process = subprocess.Popen([sys.executable, "-m", "tests.support.model_server", str(port), str(log)])
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not port.exists():
            assert process.poll() is None, "the model server ended"
            assert time.monotonic() < deadline, "the model server did not start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port.read_text()}/v1", log
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
