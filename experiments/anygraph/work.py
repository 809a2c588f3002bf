"""The whole life of one process of a case: import their file, go on with the thread, write down how it ended.

What it tells, line by line (see `experiments.story`): EXECUTE for every node and task that begins, CALL for every tool,
CRASH where the fault hit, and the ending. The ending with its values is one JSON object in the file beside the story.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from experiments import choke
from experiments.anygraph import saver, steps, units
from experiments.anygraph.answers import Answers
from experiments.anygraph.ending import end
from experiments.anygraph.errors import GraphError
from experiments.anygraph.request import Store, Target, for_thread
from experiments.anygraph.stable import plain
from experiments.anygraph.steps import Ending, Steps
from experiments.anygraph.units import Outcome, Unit
from experiments.boundaries import Boundary, Passing, Watch, recorder
from experiments.choke import files
from experiments.nemesis import Fault, armed
from experiments.story import EXECUTE, Story
from runs.foreign import loading

CALL = "CALL "
WAIT_SECONDS = 0.01  # then a unit asks the gate again
# Their traces are none of this: a killed run would be in them, many times.
UNTRACED = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process is to do with a thread. `again` resumes it although it is finished.

    `recording` is where it notes the boundaries it passes; `gate` the address that it asks before and after every unit.
    """

    target: Target
    store: Store
    dsn: str
    thread_id: str
    answers: Path
    ending: Path
    fault: Fault | None = None
    again: bool = False
    recording: Path | None = None
    gate: str | None = None
    one_at_a_time: bool = False


@dataclass(kw_only=True)
class Told:
    """What a process writes into `Job.ending`. `refused` is a sentence for whoever typed the command."""

    state: str = "failed"
    values: Any = None
    question: str | None = None
    node: str | None = None
    error: str | None = None
    refused: str | None = None
    asynchronous: bool = False
    functional: bool = False
    own_checkpointers: list[str] = field(default_factory=list[str])

    @classmethod
    def read(cls, path: Path) -> Told | None:
        """None when the process has written nothing, or not all of it."""
        with suppress(OSError, ValueError):
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        return None


def work(story: Story, job: Job) -> str:
    """For `ForkServer.run`."""
    ending = os.open(job.ending, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    told = Told()
    try:
        _drive(story, job, told)
    except GraphError as error:
        told.refused = str(error)
    except BaseException as error:  # SystemExit and KeyboardInterrupt as well: it is their code that raised it
        traceback.print_exc()
        told.error = f"{type(error).__name__}: {error}"
    os.write(ending, json.dumps(asdict(told)).encode())
    end(story, told.state)


class _Process:
    """What this process does at boundaries and units, once the thread is under way: not while it gets ready."""

    def __init__(self, story: Story, job: Job) -> None:
        self._story = story
        self._strike = armed(job.fault, story)
        self._record: Passing | None = recorder(job.recording) if job.recording else None
        self._gate = Client(job.gate, "AF_UNIX") if job.gate else None
        self._one_asks = threading.Lock()
        self.under_way = False
        self.too_early = False

    def passing(self, boundary: Boundary) -> None:
        """For the watch."""
        if self.under_way:
            if self._record is not None:
                self._record(boundary)
            self._strike(boundary)

    def entered(self, unit: Unit) -> None:
        """As an observer of units."""
        if not self.under_way:
            self.too_early = True
            return
        while self._ask("entered", unit, None) == "wait":
            time.sleep(WAIT_SECONDS)
        self._story.tell((CALL if unit.kind == "tool" else EXECUTE) + unit.path)

    def left(self, unit: Unit, outcome: Outcome) -> None:
        """As an observer of units."""
        if self.under_way:
            self._ask("left", unit, outcome)

    def _ask(self, what: str, unit: Unit, outcome: Outcome | None) -> str | None:
        if self._gate is None:
            return None
        with self._one_asks:
            self._gate.send((what, asdict(unit), outcome))
            return self._gate.recv()


def _drive(story: Story, job: Job, told: Told) -> None:
    os.environ.update(dict.fromkeys(UNTRACED, "false"))
    process = _Process(story, job)
    answers = Answers(_for(job, list(job.target.answers)), job.answers, job.target.questions)
    watch = Watch(process.passing, units.role_of)
    choke.install_all(watch)
    files.install_opening(watch)
    units.install(watch, process)
    found = loading.load(job.target.file, job.target.name)
    if process.too_early:
        raise GraphError(
            f'{job.target.file} runs a graph while it is imported; put that under if __name__ == "__main__".'
        )
    asynchronous = job.target.asynchronous
    if asynchronous is None:
        asynchronous = asyncio.run(_needs_async(found, job.target.name))
    told.asynchronous = asynchronous

    def go(graph: Any) -> tuple[Steps, Any, Any, dict[str, Any]]:
        told.functional = loading.is_functional(graph)
        told.own_checkpointers = loading.own_checkpointers(graph)
        process.under_way = True
        thread_steps = steps.once_more() if job.again else steps.go_on(_for(job, job.target.input), answers)
        return thread_steps, graph, _config(job), _options(job)

    try:
        ending = asyncio.run(_with_ainvoke(job, found, go)) if asynchronous else _with_invoke(job, found, go)
    finally:
        process.under_way = False
    _write_down(told, ending)


async def _needs_async(found: Any, name: str) -> bool:
    return loading.needs_async(await loading.with_checkpointer(found, name, None))


def _with_invoke(job: Job, found: Any, go: Callable[[Any], tuple[Steps, Any, Any, dict[str, Any]]]) -> Ending:
    with saver.opened(job.store, job.dsn) as opened:
        if job.store == "sqlite":
            opened.setup()
        return steps.run(*go(asyncio.run(loading.with_checkpointer(found, job.target.name, opened))))


async def _with_ainvoke(job: Job, found: Any, go: Callable[[Any], tuple[Steps, Any, Any, dict[str, Any]]]) -> Ending:
    async with saver.opened_async(job.store, job.dsn) as opened:
        if job.store == "sqlite":
            await opened.setup()
        return await steps.run_async(*go(await loading.with_checkpointer(found, job.target.name, opened)))


def _for(job: Job, value: Any) -> Any:
    return for_thread(value, job.thread_id)


def _config(job: Job) -> dict[str, Any]:
    config = dict(_for(job, job.target.config) or {})
    config["configurable"] = {**config.get("configurable", {}), "thread_id": job.thread_id}
    if job.one_at_a_time:
        config["max_concurrency"] = 1
    return config


def _options(job: Job) -> dict[str, Any]:
    options: dict[str, Any] = {"durability": job.target.durability}
    if job.target.context is not None:
        options["context"] = _for(job, job.target.context)
    return options


def _write_down(told: Told, ending: Ending) -> None:
    told.state, told.question, told.node = ending.state, ending.question, ending.node
    told.values = plain(ending.values)
