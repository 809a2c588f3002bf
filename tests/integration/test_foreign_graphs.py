"""Graphs of somebody else under runs, in this process: what they ask, how they end, what is refused."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runs import events, registry
from runs.drive import drive
from runs.errors import Conflict, OtherVersion, UsageError
from runs.foreign import answering, questions
from runs.foreign.errors import GraphError
from runs.foreign.serving import Serving
from runs.foreign.specs import spec_of
from runs.registry import NewRun, Status
from tests.support import foreign_graphs
from tests.support.runs_world import LEDGER_ID, parts

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True


@pytest.fixture(autouse=True)
def own_process():
    """What loading does to a process: it is one of theirs from then on. Here it becomes a test's again."""
    path, modules, folder = list(sys.path), dict(sys.modules), Path.cwd()
    environment = dict(os.environ)
    yield
    os.chdir(folder)
    sys.path[:] = path
    sys.modules.clear()
    sys.modules.update(modules)
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(Path(foreign_graphs.__file__).read_text())
    return folder


class World:
    """Runs of one project, driven here."""

    def __init__(self, store, database, ledger, objects, project, tmp_path):
        self.store, self.database, self.ledger, self.objects = store, database, ledger, objects
        self.project, self.folder = project, tmp_path

    def new(self, name, given=None, **params):
        spec = spec_of(f"shop.py:{name}", folder=self.project)
        named = {"spec": spec.text, "folder": str(spec.folder)}
        new = NewRun(
            owner="ada",
            kind="graph",
            workflow_version=spec.version,
            store=self.store.kind,
            ledger=LEDGER_ID,
            params={"graph": named, **params},
        )
        data = json.dumps({} if given is None else given).encode()
        return registry.create_from(self.database, self.objects, data, "input.json", new)

    def drive(self, run, graph=None, **more):
        serving = Serving(graph, self.objects, lambda: ("http://ledger", "token"))
        given = parts(self.store, self.ledger, self.objects, self.folder, **more)
        return drive(
            run.run_id, replace(given, foreign=serving.workflow, make_context=serving.context)
        )

    def run(self, name, given=None, **params):
        made = self.new(name, given, **params)
        return made, self.drive(made)

    def answer(self, run, value, question_id=None):
        run = registry.get(self.database, run.run_id)
        asked = answering.asked(self.database, run.run_id)
        known = answering.answers(self.database, run.run_id)
        chosen = answering.choose(run, asked, known, question_id)
        return answering.record(self.database, run, chosen, value, "bob")

    def result(self, run):
        found = [e.data for e in events.read_all(self.database, run.run_id) if e.kind == "result"]
        assert len(found) == 1
        whole = json.loads(self.objects.read_checked(found[0]["object"]["key"], found[0]["object"]["digest"]))
        assert found[0]["values"] == whole
        return whole

    def status(self, run):
        return registry.get(self.database, run.run_id).status

    @property
    def effects(self):
        world = self.project / "world"
        return world.read_text().split("\n")[:-1] if world.exists() else []

    def steps(self, run):
        return [e.step for e in events.read_all(self.database, run.run_id) if e.kind == "step_started"]


@pytest.fixture
def world(store, database, ledger, objects, project, tmp_path):
    return World(store, database, ledger, objects, project, tmp_path)


ORDER = {"number": 7, "lines": ["tea"]}


@pytest.mark.parametrize("name", ["graph", "make_graph", "running_async"])
def test_a_graph_runs_to_its_end(world, name):
    run, outcome = world.run(name, {"answer": "me"})
    assert (outcome.status, outcome.exit_code) == (Status.SUCCEEDED, 0)
    second = "work_async" if name == "running_async" else "work"
    assert world.result(run) == {"order": ORDER, "log": ["begin for me", second], "answer": "me"}
    assert world.effects == ["begin", second]
    assert world.steps(run) == ["begin#1", f"{second}#2"]
