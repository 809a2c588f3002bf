"""Every released workflow version is still resumed: its golden runs end with the report that they were made for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graph.versions import VERSIONS
from onward_ledger.objects import Objects
from runs import events, local_ledger, registry
from runs.assembly import parts_for
from runs.drain import Drain
from runs.drive import drive
from runs.errors import RunFinished
from runs.registry import Status
from runs.settings import Settings
from runs.store import open_store
from tests.migration.golden_files import STORES, Golden, StoreKind, load, path_of
from tests.migration.make_golden import approve, digest_of

EVERY = [(version, store) for version in VERSIONS for store in STORES]


@pytest.mark.parametrize(("version", "store"), EVERY)
def test_every_version_that_is_served_has_golden_files(version: str, store: StoreKind) -> None:
    assert path_of(version, store).exists(), "make them: python -m tests.migration.make_golden"


class Place:
    """A golden file, loaded; its runs are driven here."""

    def __init__(self, golden: Golden) -> None:
        self.golden = golden
        self.settings = golden.settings

    def drive(self, name: str) -> Any:
        with parts_for(self.settings, Drain()) as parts:
            return drive(self.golden.runs[name], parts)

    def approved(self, name: str) -> Any:
        approve(self.settings, self.golden.runs[name])
        return self.drive(name)

    def look(self, name: str) -> tuple[registry.Run, list[events.Event]]:
        with closing(open_store(self.settings).database()) as database:
            run_id = self.golden.runs[name]
            return registry.get(database, run_id), events.read_all(database, run_id)

    def started(self, name: str, behind: int) -> list[str | None]:
        return [event.step for event in self.look(name)[1] if event.kind == "step_started" and event.seq > behind]


@pytest.fixture(scope="module", params=EVERY, ids=lambda each: f"{each[0]} on {each[1]}")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    version, store = request.param
    home: Path = tmp_path_factory.mktemp(f"golden-{store}") / "home"
    home.mkdir(mode=0o700)
    url = _database(request, version) if store == "postgres" else None
    settings = Settings(home=home, store=store, principal="alice", database_url=url, ledger_database_url=url)
    yield Place(load(version, settings))
    local_ledger.stop(settings)


def _database(request: pytest.FixtureRequest, version: str) -> str:
    """An empty database that lives as long as the session."""
    name = request.getfixturevalue("database_template")(f"golden_{version}", lambda url: None)
    return request.getfixturevalue("postgres_server").replace("/postgres?", f"/{name}?", 1)


def test_a_run_that_waited_is_approved_and_ends(place: Place) -> None:
    run, before = place.look("waiting")
    assert (run.status, run.reason) == (Status.WAITING_HUMAN, "approval")
    assert place.approved("waiting").status is Status.SUCCEEDED
    assert place.started("waiting", before[-1].seq) == ["deliver"]
    assert digest_of(place.settings, run.run_id) == place.golden.digest


def test_a_run_that_was_stopped_in_its_analysis_does_the_rest(place: Place) -> None:
    run, before = place.look("analyzing")
    assert run.status is Status.QUEUED
    assert place.drive("analyzing").status is Status.WAITING_HUMAN
    started = place.started("analyzing", before[-1].seq)
    assert (started[0], started[-3:]) == ("analyze#3", ["write_draft", "test", "deliver"])
    assert place.approved("analyzing").status is Status.SUCCEEDED
    assert digest_of(place.settings, run.run_id) == place.golden.digest


def test_a_run_that_had_ended_executes_nothing(place: Place) -> None:
    run, before = place.look("finished")
    assert run.status is Status.SUCCEEDED
    with pytest.raises(RunFinished):
        place.drive("finished")
    assert place.look("finished")[1] == before
    assert digest_of(place.settings, run.run_id) == place.golden.digest


def test_the_report_that_had_been_published_is_still_there(place: Place) -> None:
    with local_ledger.connect(place.settings) as ledger:
        actions = ledger.actions(place.golden.runs["finished"])
    [published] = [action for action in actions if action.kind == "report.publish"]
    objects = Objects(place.settings.objects_url)
    for item in published.params["objects"]:
        assert len(objects.read_checked(item["key"], item["digest"])) == item["size"]


def test_a_change_that_old_checkpoints_do_not_survive_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with a node renamed inside version 1, the golden run that waits does not end well."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    settings = Settings(home=home, store="sqlite", principal="alice")
    place = Place(load("1", settings))
    monkeypatch.setitem(VERSIONS, "1", replace(VERSIONS["1"], build=_with_a_renamed_node))
    try:
        outcome = place.approved("waiting")
    finally:
        local_ledger.stop(settings)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "broken")


def _with_a_renamed_node() -> Any:
    from langgraph.graph import START, StateGraph

    from graph import nodes
    from graph.build import after_analysis
    from graph.context import Context
    from graph.state import State

    graph: Any = StateGraph(State, context_schema=Context)
    for name, node in {
        "plan": nodes.plan,
        "analyze": nodes.analyze,
        "write_draft": nodes.write_draft,
        "test": nodes.test,
        "hand_over": nodes.deliver,
    }.items():
        graph.add_node(name, node)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", after_analysis)
    graph.add_conditional_edges("analyze", after_analysis)
    graph.add_edge("write_draft", "test")
    graph.add_edge("test", "hand_over")
    return graph
