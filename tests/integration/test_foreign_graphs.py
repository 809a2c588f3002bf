"""Graphs of somebody else under runs, in this process: what they ask, how they end, what is refused."""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from onward_ledger import LedgerClient
from runs import cancelling, events, registry
from runs.checkpoints import open_saver
from runs.drive import drive
from runs.errors import Conflict, OtherVersion, UsageError
from runs.foreign import answering, questions
from runs.foreign.errors import GraphError
from runs.foreign.serving import Serving, find
from runs.foreign.specs import spec_of
from runs.registry import NewRun, Status
from runs.wake import wake_if_decided
from tests.support import foreign_graphs
from tests.support.ledger_process import ledger_process
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
    with warnings.catch_warnings():  # what their modules have opened ends with their process
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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

    file = "shop.py"

    def new(self, name, given=None, **params):
        spec = spec_of(f"{self.file}:{name}", folder=self.project)
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
        return drive(run.run_id, replace(given, foreign=serving.workflow, make_context=serving.context))

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
def store(request, tmp_path):
    """SQLite, but for those that are marked: what differs between the stores is tested with our own graph."""
    return request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_store")


both_stores = pytest.mark.parametrize("store", ["postgres", "sqlite"], indirect=True)


@pytest.fixture
def world(store, database, ledger, objects, project, tmp_path):
    return World(store, database, ledger, objects, project, tmp_path)


ORDER = {"number": 7, "lines": ["tea"]}


@both_stores
@pytest.mark.parametrize("name", ["graph", "make_graph", "running_async"])
def test_a_graph_runs_to_its_end(world, name):
    run, outcome = world.run(name, {"answer": "me"})
    assert (outcome.status, outcome.exit_code) == (Status.SUCCEEDED, 0)
    second = "work_async" if name == "running_async" else "work"
    assert world.result(run) == {"order": ORDER, "log": ["begin for me", second], "answer": "me"}
    assert world.effects == ["begin", second]
    assert world.steps(run) == ["begin#1", f"{second}#2"]


@both_stores
def test_a_question_waits_for_its_answer_and_the_first_one_stands(world):
    run, outcome = world.run("asking", {"answer": "me"})
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.WAITING_HUMAN, "question", 5)
    (question,) = answering.asked(world.database, run.run_id)
    assert (question.node, question.kind) == ("ask", "value")
    assert question.value == {"question": "pay?", "order": ORDER}
    with pytest.raises(Exception, match="waits for a person"):
        world.drive(run)
    first = world.answer(run, {"yes": True})
    assert (first.is_new, world.status(run)) == (True, Status.QUEUED)
    again = world.answer(run, {"yes": True})
    assert (again.is_new, again.principal) == (False, "bob")
    with pytest.raises(Conflict, match=r'Another answer stands: \{"yes": true\} by bob'):
        world.answer(run, {"yes": False})
    assert world.drive(run).status is Status.SUCCEEDED
    assert world.result(run)["answer"] == {"yes": True}
    assert world.effects == ["begin", "work"]
    assert world.answer(run, {"yes": True}).is_new is False, "answered again when it is all over"


def test_each_question_of_one_node_gets_its_own_answer(world):
    run, _ = world.run("twice")
    world.answer(run, 1)
    assert world.drive(run).status is Status.WAITING_HUMAN
    (second,) = answering.asked(world.database, run.run_id)
    assert second.value == "second?"
    world.answer(run, 2)
    assert world.drive(run).status is Status.SUCCEEDED
    assert world.result(run)["log"] == ["begin for None", "1 then 2"]


def test_questions_side_by_side_are_told_apart_and_all_have_to_be_answered(world):
    run, _ = world.run("both")
    asked = {each.node: each.question_id for each in answering.asked(world.database, run.run_id)}
    with pytest.raises(UsageError, match="several questions"):
        world.answer(run, 1)
    world.answer(run, "r", asked["right"][:8])
    assert world.status(run) is Status.WAITING_HUMAN
    world.answer(run, "l")
    assert world.status(run) is Status.QUEUED
    assert world.drive(run).status is Status.SUCCEEDED
    assert sorted(world.result(run)["log"]) == ["left l", "right r"]


def test_an_answer_that_comes_while_the_run_is_coming_to_wait_is_not_lost(world, monkeypatch):
    run = world.new("asking")
    end_drive = sys.modules["runs.drive"].end_drive

    def answered_meanwhile(*given):
        world.answer(run, "quick")
        assert world.status(run) is Status.RUNNING
        return end_drive(*given)

    monkeypatch.setattr("runs.drive.end_drive", answered_meanwhile)
    assert world.drive(run).status is Status.QUEUED
    monkeypatch.undo()
    assert world.drive(run).status is Status.SUCCEEDED
    assert world.result(run)["answer"] == "quick"


@pytest.mark.parametrize(("name", "node"), [("careful", "work"), ("behind", "work")])
def test_a_breakpoint_is_a_question_and_is_not_passed_by_a_take_over(world, name, node):
    run, outcome = world.run(name)
    assert (outcome.status, world.effects) == (Status.WAITING_HUMAN, ["begin"])
    (question,) = answering.asked(world.database, run.run_id)
    assert (question.kind, question.node) == ("breakpoint", node)
    registry.queue_decided(world.database, run.run_id)  # as after a crash just behind the checkpoint
    assert (world.drive(run).status, world.effects) == (Status.WAITING_HUMAN, ["begin"])
    assert answering.asked(world.database, run.run_id) == [question]
    world.answer(run, questions.approval(question))
    assert (world.drive(run).status, world.effects) == (Status.SUCCEEDED, ["begin", "work"])


def test_the_functional_api(world):
    run, _ = world.run("functional", "tea")
    world.answer(run, "two")
    assert world.drive(run).status is Status.SUCCEEDED
    assert world.result(run) == "tea is ready, two"
    assert world.effects == ["brew tea"]


def test_an_error_of_theirs_fails_the_run_with_their_words(world):
    _, outcome = world.run("broken")
    assert (outcome.status, outcome.reason, outcome.message) == (
        Status.FAILED,
        "error",
        "ValueError: the oven is cold",
    )
    assert world.effects == ["begin"]


def test_a_router_that_failed_behind_a_result_is_not_skipped_in_silence(world):
    """LangGraph alone goes on as if the graph were at its end: the control."""
    run, outcome = world.run("routed")
    assert (outcome.status, outcome.exit_code, world.effects) == (Status.FAILED, 1, ["begin"])
    assert "choice of what follows begin failed behind its result (ConnectionError('no answer" in outcome.message
    with open_saver(world.store, run.run_id, 1, 1, lambda: None) as saver:
        alone = foreign_graphs.routed.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": run.run_id}, "max_concurrency": 1}
        alone.invoke(None, config, durability="sync")
        assert not alone.get_state(config).tasks


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("outer", "in inner keeps a checkpointer of its own"),
        ("stops_inside", "in inner has breakpoints"),
        ("no_graph", "no_graph is no graph, but an int"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(world, name, sentence):
    _, outcome = world.run(name)
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 1)
    assert sentence in outcome.message
    assert world.effects == []


def test_a_file_that_cannot_be_imported_leaves_the_run_as_it_is(world):
    run = world.new("graph")
    source = (world.project / "shop.py").read_text()
    (world.project / "shop.py").write_text(source + "\nraise RuntimeError('no key')\n")
    with pytest.raises(OtherVersion, match="is graph:graph@"):
        world.drive(run)
    version = run.workflow_version.rpartition("@")[2]
    with pytest.raises(GraphError, match="cannot be imported: RuntimeError: no key"):
        world.drive(run, f"{world.project}/shop.py:graph@{version}")
    (world.project / "shop.py").unlink()
    with pytest.raises(OtherVersion, match=r"is not here: --graph .*there is no file"):
        world.drive(run)
    assert world.status(run) is Status.QUEUED
    (world.project / "shop.py").write_text(source)
    assert world.drive(run).status is Status.SUCCEEDED


def test_a_worker_takes_no_file_that_a_run_names(world):
    run = world.new("graph")
    with pytest.raises(OtherVersion, match="Serve it: onward worker --graph"):
        find(run, None, named_by_run=False)
    served = f"{world.project}/shop.py:graph"
    assert find(run, served, named_by_run=False).version == run.workflow_version
    with pytest.raises(OtherVersion, match=rf"ONWARD_GRAPH={served}@\w+ onward resume"):
        find(run, f"{served}@2", named_by_run=False)


def test_a_graph_that_waits_is_cancelled_and_an_answer_that_comes_later_changes_nothing(world):
    run, _ = world.run("asking")
    cancelling.request(world.database, registry.get(world.database, run.run_id), cancelling.Asked(principal="bob"))
    assert world.drive(run).status is Status.CANCELLED
    world.answer(run, "late")
    assert (world.status(run), world.effects) == (Status.CANCELLED, ["begin"])


def test_configuration_and_context_reach_the_graph(world):
    (world.project / "shop.py").write_text(
        "from typing import TypedDict\n"
        "from langgraph.graph import START, StateGraph\n"
        "class Context(TypedDict):\n    who: str\n"
        "class State(TypedDict, total=False):\n    said: list\n"
        "def node(state, runtime, config):\n"
        "    known = config['configurable']\n"
        "    return {'said': [runtime.context['who'], known['model'], known['onward_epoch'], known['thread_id']]}\n"
        "from langchain_core.runnables import RunnableConfig\n"
        "from langgraph.runtime import Runtime\n"
        "node.__annotations__ = {'runtime': Runtime[Context], 'config': RunnableConfig}\n"
        "graph = StateGraph(State, context_schema=Context)\n"
        "graph.add_node('node', node)\ngraph.add_edge(START, 'node')\n"
    )
    given = {"configurable": {"model": "small", "thread_id": "theirs", "onward_epoch": 99}}
    run, _ = world.run("graph", context={"who": "ada"}, config=given)
    assert world.result(run) == {"said": ["ada", "small", 1, run.run_id]}


def test_only_classes_of_theirs_come_back_from_a_checkpoint(world):
    """The control of the dataclass that does: what else a row names is not imported and called."""
    (world.project / "shop.py").write_text(
        "from typing import Any, TypedDict\n"
        "from langgraph.graph import START, StateGraph\nfrom langgraph.types import interrupt\n"
        "from onward_ledger.guard import Seen\n"
        "class State(TypedDict, total=False):\n    kept: Any\n    seen: str\n"
        "graph = StateGraph(State)\n"
        "graph.add_node('a', lambda state: {'kept': Seen(receipt={})})\n"
        "graph.add_node('b', lambda state: {'seen': type(state['kept']).__name__ + str(interrupt('?'))})\n"
        "graph.add_edge(START, 'a')\ngraph.add_edge('a', 'b')\n"
    )
    run, _ = world.run("graph")
    world.answer(run, 1)
    assert world.drive(run).status is Status.SUCCEEDED
    assert world.result(run)["seen"] == "dict1"


# --- agents -----------------------------------------------------------------------------------------------------------

MESSAGE = {"messages": [{"role": "user", "content": "tea"}]}


@pytest.fixture
def agent(world):
    """Their file has a name that Onward has too."""
    (world.project / "graph.py").write_text((Path(foreign_graphs.__file__).parent / "foreign_agent.py").read_text())
    world.file = "graph.py"
    return world


@pytest.mark.parametrize(("approves", "said"), [(True, "It says: bought tea"), (False, "too dear")])
def test_langchain_s_review_is_approved_or_rejected(agent, approves, said):
    run, outcome = agent.run("reviewed", MESSAGE)
    assert (outcome.status, agent.effects) == (Status.WAITING_HUMAN, [])
    (question,) = answering.asked(agent.database, run.run_id)
    assert (question.kind, len(question.allowed)) == ("review", 1)
    agent.answer(run, questions.approval(question) if approves else questions.rejection(question, "too dear"))
    assert agent.drive(run).status is Status.SUCCEEDED
    assert said in agent.result(run)["messages"][-1]["content"]
    assert agent.effects == (["bought tea"] if approves else [])
    now = registry.get(agent.database, run.run_id)
    assert (now.input_tokens, now.output_tokens) == (14, 6)


# Their file opens a client for the life of its process, and is loaded anew for each drive here.
@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_outcome_that_nobody_knows_makes_the_run_wait_until_a_person_settles_it(agent, tmp_path, monkeypatch):
    with ledger_process(tmp_path, f"sqlite:///{tmp_path / 'ledger.db'}") as process:
        process.start()
        client = LedgerClient(process.url, process.token, principal="bob")
        agent.ledger = client
        monkeypatch.setenv("LEDGER_URL", process.url)
        monkeypatch.setenv("LEDGER_TOKEN", process.token)
        run, outcome = agent.run("guarded", MESSAGE)
        assert (outcome.status, outcome.reason) == (Status.QUEUED, "transient"), "what the tool itself raised"
        assert agent.effects == ["tea"]
        outcome = agent.drive(run)
        assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.WAITING_HUMAN, "unknown_outcome", 8)
        (action,) = client.actions(run.run_id)
        assert (action.status, action.epoch) == ("UNKNOWN", 1)
        wake_if_decided(agent.database, client, registry.get(agent.database, run.run_id))
        assert agent.drive(run).reason == "unknown_outcome", "resumed, its guard is asked again, and cannot tell"
        client.resolve(
            action.action_id,
            status="SUCCEEDED",
            receipt={"content": "it arrived"},
            reason="looked",
            expected_version=client.action(action.action_id).version,
        )
        wake_if_decided(agent.database, client, registry.get(agent.database, run.run_id))
        assert agent.drive(run).status is Status.SUCCEEDED
        assert agent.result(run)["messages"][-1]["content"] == "It says: it arrived"
        assert agent.effects == ["tea"], "once, whatever was tried"
        client.close()
        gc.collect()
