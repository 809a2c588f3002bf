"""A run of examples/graphs, driven by processes that die at a boundary; and what it left behind."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments import choke
from experiments.boundaries import BY_THE_CLOCK, Boundary, Watch, moments, read_recording, recorder
from onward_ledger.objects import Objects
from runs import events, registry
from runs.checkpoints import open_saver
from runs.drive import drive
from runs.foreign import answering
from runs.foreign.serving import Serving
from runs.foreign.specs import spec_of
from runs.registry import NewRun, Run, Status
from tests.support.runs_processes import Child, store_of
from tests.support.runs_processes import spec_of as store_spec
from tests.support.runs_world import LEDGER_ID, MemoryLedger, parts

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/graphs/safe.py"


def driving(folder: Path, spec: dict[str, str], run_id: str, world: Path, boundary: Boundary | None) -> Any:
    """Drive the run in a process that dies at the boundary, or notes all of them."""
    os.environ["SHOP"] = str(world / "shop")
    note = recorder(folder / "recording") if boundary is None else lambda passed: None

    def passing(passed: Boundary) -> None:
        note(passed)
        if passed == boundary:
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()

    choke.install_all(Watch(passing))
    objects = Objects((world / "objects").as_uri())
    serving = Serving(None, objects, lambda: ("http://127.0.0.1:9", "none"))
    given = parts(store_of(spec), MemoryLedger(), objects, world, lease_seconds=5.0)
    outcome = drive(run_id, replace(given, foreign=serving.workflow, make_context=serving.context))
    return {"status": outcome.status, "message": outcome.message}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run that has ended. `effects` and `result` are as they are in every run: the run's id is taken out."""

    status: Status
    epochs: list[int]
    executed: Counter[str]
    effects: list[str]
    result: Any
    forks: int
    fired: bool
    recordings: list[list[Boundary]]


class Kills:
    """Runs of the example in one store, each to its end."""

    def __init__(self, store: Any, database: Any, objects: Objects, world: Path) -> None:
        self.store, self.database, self.objects, self.world = store, database, objects, world
        self._number = 0

    def run(self, boundary: Boundary | None = None, *, in_process: int = 0) -> Case:
        """One run; the process with this number dies at the boundary. The manager says yes when asked."""
        run = self._new()
        recordings: list[list[Boundary]] = []
        fired, processes = False, 0
        while not (run := registry.get(self.database, run.run_id)).finished:
            if run.status is Status.WAITING_HUMAN:
                (question,) = answering.asked(self.database, run.run_id)
                answering.record(self.database, run, question, True, "manager")
                continue
            assert processes < 6, "the run does not end"
            self._number += 1
            here = self.world / f"process-{self._number}"
            fatal = boundary if processes == in_process else None
            child = Child(driving, here, store_spec(self.store), run.run_id, self.world, fatal)
            fired |= child.end(60) == -signal.SIGKILL
            recordings.append(list(read_recording(here / "recording")) if fatal is None else [])
            processes += 1
        return self._case(run, fired, recordings)

    def _new(self) -> Run:
        spec = spec_of(f"{EXAMPLE}:graph")
        new = NewRun(
            owner="ada",
            kind="graph",
            workflow_version=spec.version,
            store=self.store.kind,
            ledger=LEDGER_ID,
            params={"graph": {"spec": spec.text, "folder": str(EXAMPLE.parent)}},
        )
        given = json.dumps({"order_id": f"order-{self._number}"}).encode()
        return registry.create_from(self.database, self.objects, given, "input.json", new)

    def _case(self, run: Run, fired: bool, recordings: list[list[Boundary]]) -> Case:
        history = events.read_all(self.database, run.run_id)
        order = json.loads(self.objects.read_checked(run.input_key, run.input_digest))["order_id"]
        results = [e.data["values"] for e in history if e.kind == "result"]
        effects = [
            f"{path.parent.parent.name}/{path.name}: {path.read_text()}"
            for path in (self.world / "shop").glob(f"*/{order}/*")
        ]

        def same(text: str) -> str:
            return text.replace(run.run_id, "RUN").replace(order, "ORDER")

        return Case(
            status=run.status,
            epochs=[e.epoch or 0 for e in history if e.kind == "claimed"],
            executed=Counter(e.step or "" for e in history if e.kind == "step_started"),
            effects=sorted(map(same, effects)),
            result=json.loads(same(json.dumps(results[-1]))) if results else None,
            forks=self._forks(run),
            fired=fired,
            recordings=recordings,
        )

    def _forks(self, run: Run) -> int:
        """Checkpoints beyond the first with the same parent."""
        with open_saver(self.store, run.run_id, run.epoch or 0, run.holder_id or 0, lambda: None) as saver:
            found = list(saver.list({"configurable": {"thread_id": run.run_id}}))
        parents = Counter((each.parent_config or {}).get("configurable", {}).get("checkpoint_id") for each in found)
        return sum(number - 1 for number in parents.values())


def boundaries(one: Case, other: Case) -> list[tuple[int, Boundary]]:
    """(number of the process, boundary), one for each moment that two runs without a fault have in common.

    Left out is what acts by the clock, and what opens connections ahead of their use.
    """
    assert len(one.recordings) == len(other.recordings)
    found: list[tuple[int, Boundary]] = []
    for number, (recording, again) in enumerate(zip(one.recordings, other.recordings, strict=True)):
        stable = set(again)
        common = [b for b in recording if b in stable and b.role not in (*BY_THE_CLOCK, "lease-watch", "pool")]
        found += [(number, moment.boundary) for moment in moments(common)]
    return found
