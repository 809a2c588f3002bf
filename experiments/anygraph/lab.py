"""Threads of their graph in this place: each process of one, and the effects that it has in the world."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.anygraph.counting import count
from experiments.anygraph.effects import Effect, failed, look
from experiments.anygraph.errors import GraphError
from experiments.anygraph.place import Place
from experiments.anygraph.request import Target, without_thread
from experiments.anygraph.stable import canonical
from experiments.anygraph.work import CALL, Job, Told, work
from experiments.boundaries import Boundary, read_recording
from experiments.story import Process, errors_of

Effects = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One process of a thread: what it told, how it left the thread, and the last words of its stderr."""

    process: Process
    told: Told | None
    boundaries: tuple[Boundary, ...] = ()

    @property
    def executed(self) -> Counter[str]:
        """Nodes and tasks that began, by path."""
        return Counter(self.process.executed)

    @property
    def called(self) -> Counter[str]:
        """Tools that began, by path."""
        return Counter(line[len(CALL) :] for line in self.process.lines if line.startswith(CALL))

    @property
    def state(self) -> str:
        """finished, waiting, stuck, failed; "killed" when it died, "too long" when it had to be stopped."""
        if self.told is not None:
            return self.told.state
        return "too long" if self.process.exit_code is None else "killed"

    @property
    def trouble(self) -> str:
        """Why it is not finished, in words."""
        if self.told is not None and self.told.error:
            return self.told.error.strip().splitlines()[0]
        if self.state == "waiting" and self.told is not None:
            return f"waits for an answer in {self.told.node}: {self.told.question}"
        if self.state == "stuck" and self.told is not None:
            return f"LangGraph does not go on; still pending: {self.told.node}"
        if self.state == "too long":
            return "did not end in time (see --longest)"
        return f"{self.state}: {self.process.last_words or 'without a word'}"


class Lab:
    """Runs threads. May be used by several of Python's threads, each with thread ids of its own."""

    def __init__(self, place: Place, target: Target, effects: Sequence[Effect], longest_seconds: float) -> None:
        self.place = place
        self.target = target
        self.effects = tuple(effects)
        self._longest_seconds = longest_seconds
        self._of_thread: dict[str, bool] = {effect.name: effect.of_thread for effect in effects}

    def for_target(self, **changes: Any) -> Lab:
        """The same with another target."""
        return Lab(self.place, replace(self.target, **changes), self.effects, self._longest_seconds)

    @property
    def side_by_side(self) -> bool:
        """Does every effect belong to a thread? Known of Python functions after the first count."""
        return all(self._of_thread.values())

    def new_thread(self) -> str:
        """A thread id that no run has."""
        return str(uuid.uuid4())

    def run(self, thread_id: str, name: str, **options: Any) -> Ran:
        """One process that goes on with the thread until it ends or dies. `name` is that of its story.

        `record` its boundaries; `seconds` that it may take; the other options are those of a Job.
        """
        story = self.place.stories / f"{name}.txt"
        ending, answers = story.with_suffix(".json"), self.place.folder / f"{thread_id}.answers"
        ending.unlink(missing_ok=True)
        seconds = options.pop("seconds", self._longest_seconds)
        recording = self.place.folder / f"{name}.recording" if options.pop("record", False) else None
        job = Job(
            target=self.target,
            store=self.place.store,
            dsn=self.place.dsn_of(thread_id),
            thread_id=thread_id,
            answers=answers,
            ending=ending,
            recording=recording,
            **options,
        )
        process = self.place.forks.run(work, story, job, seconds=seconds)
        return Ran(
            process=process,
            told=Told.read(ending),
            boundaries=read_recording(recording) if recording else (),
        )

    def count(self, thread_id: str, name: str) -> Effects:
        """All effects that are there now, the thread id in them replaced; GraphError when one cannot be counted."""
        seen = {effect.name: look(effect, thread_id) for effect in self.effects if effect.kind != "python"}
        functions = [effect for effect in self.effects if effect.kind == "python"]
        if functions:
            seen |= self._counted_by_functions(functions, thread_id, name)
        return {effect.name: without_thread(seen[effect.name], thread_id) for effect in self.effects}

    def _counted_by_functions(self, functions: list[Effect], thread_id: str, name: str) -> Effects:
        story = self.place.stories / f"{name}.count"
        answer = self.place.folder / f"{name}.counted"
        answer.unlink(missing_ok=True)
        self.place.forks.run(count, story, functions, thread_id, answer, seconds=self._longest_seconds)
        told: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
        seen: Effects = {}
        for effect in functions:
            counted: Mapping[str, Any] = told.get(effect.name, {"failed": "the function did not come back"})
            if "failed" in counted:
                raise failed(effect, counted["failed"])
            seen[effect.name] = counted["seen"]
            self._of_thread[effect.name] = bool(counted["of_thread"])
        story.unlink(missing_ok=True)
        if (said := errors_of(story)).exists() and not said.stat().st_size:
            said.unlink()
        return seen


def since(before: Effects, after: Effects) -> Effects:
    """What came between: items that are there more often than before."""
    return {name: _more(before[name], items) for name, items in after.items()}


def _more(before: list[Any], after: list[Any]) -> list[Any]:
    known = Counter(map(canonical, before))
    new: list[Any] = []
    for item in after:
        text = canonical(item)
        if known[text]:
            known[text] -= 1
        else:
            new.append(item)
    return new


def refuse(ran: Ran) -> None:
    """Raise what the process says that its user has to change first."""
    if ran.told is not None and ran.told.refused:
        raise GraphError(ran.told.refused)
