"""Forks of the agent's own runs: the draft that a state refers to becomes the fork's own, and so does the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from graph.versions import VERSIONS
from onward_ledger.objects import Objects
from runs import events, fork, local_ledger, registry
from runs.assembly import parts_for, served_workflow
from runs.drain import Drain
from runs.drive import drive
from runs.registry import Run, Status
from runs.settings import Settings
from runs.store import open_store
from tests.migration.golden_files import load
from tests.migration.make_golden import approve, digest_of


class Place:
    """A run that has published its report, and what is needed to fork it."""

    def __init__(self, settings: Settings) -> None:
        golden = load("1", settings)
        self.settings, self.parent, self.digest = settings, golden.runs["finished"], golden.digest
        self.objects = Objects(settings.objects_url)

    def fork(self, step: str, **change: Any) -> Run:
        with (
            closing(open_store(self.settings).database()) as database,
            local_ledger.connect(self.settings) as ledger,
        ):
            parent = registry.get(database, self.parent)
            workflow = served_workflow("1")
            found = fork.points(database, parent, workflow, lambda node, state, _: VERSIONS["1"].step_of(node, state))
            point, given = fork.find_point(found, step), fork.Change(**change)
            return fork.fork(database, self.objects, ledger, parent, workflow, point, given, owner="bob")

    def drive(self, run_id: str) -> Any:
        with parts_for(self.settings, Drain()) as parts:
            return drive(run_id, parts)

    def steps(self, run_id: str) -> list[str | None]:
        with closing(open_store(self.settings).database()) as database:
            told = events.read_all(database, run_id)
        return [event.step for event in told if event.kind == "step_started"]

    def drafts(self, run_id: str) -> list[Any]:
        with local_ledger.connect(self.settings) as ledger:
            return [action for action in ledger.actions(run_id) if action.kind == "draft.save"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home: Path = tmp_path_factory.mktemp("forks") / "home"
    home.mkdir(mode=0o700)
    settings = Settings(home=home, store="sqlite", principal="alice")
    yield Place(settings)
    local_ledger.stop(settings)


def test_from_its_delivery_the_report_is_approved_anew(place: Place) -> None:
    made = place.fork("deliver")
    [saved] = place.drafts(made.run_id)
    [parents] = place.drafts(place.parent)
    assert (saved.step, saved.status, saved.action_id != parents.action_id) == ("write_draft", "SUCCEEDED", True)
    assert saved.params["digest"] == parents.params["digest"] == place.digest
    assert place.drive(made.run_id).status is Status.WAITING_HUMAN
    approve(place.settings, made.run_id)
    assert place.drive(made.run_id).status is Status.SUCCEEDED
    assert place.steps(made.run_id) == ["deliver", "deliver"]
    assert digest_of(place.settings, made.run_id) == place.digest


def test_from_a_question_the_rest_is_computed_from_files_of_its_own(place: Place) -> None:
    made = place.fork("analyze#2")
    assert place.drafts(made.run_id) == []
    assert place.drive(made.run_id).status is Status.WAITING_HUMAN
    assert place.steps(made.run_id)[0] == "analyze#2"
    [saved] = place.drafts(made.run_id)
    assert saved.params["digest"] == place.digest
    assert all(key.split("/")[1] == made.run_id for key in _keys(place, made))


def _keys(place: Place, made: Run) -> list[str]:
    """Every key below `runs/` that the fork's state refers to."""
    from runs.joined import head_of, saver_in

    with closing(open_store(place.settings).database()) as database, database.reading() as tx, saver_in(tx) as saver:
        saved = head_of(saver, made.run_id)
    assert saved is not None
    found = [text for text in fork.strings_of(saved.checkpoint["channel_values"]) if text.startswith("runs/")]
    assert len(found) > 5
    return found


def test_from_the_plan_other_questions_are_answered(place: Place) -> None:
    asks = ["What is the total revenue?"]
    made = place.fork("plan", row={"asks": asks}, state={"asks": asks})
    assert place.drive(made.run_id).status is Status.WAITING_HUMAN
    assert place.steps(made.run_id)[:2] == ["plan", "analyze#1"]
    [saved] = place.drafts(made.run_id)
    assert saved.params["digest"] != place.digest
