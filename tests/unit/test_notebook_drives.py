"""What a cell is told when a drive leaves a run neither ended nor waiting."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from runs import registry
from runs.commands import driving
from runs.commands.driving import Ended
from runs.errors import Conflict, Exit, HandedBack, RunError, ServiceUnreachable, UsageError
from runs.notebook import view
from runs.notebook.driver import CellProgress
from runs.notebook.view import RunView
from runs.registry import Status
from tests.support.runs_values import a_run


def drive(monkeypatch, status, code):
    run = a_run()
    monkeypatch.setattr(driving, "drive_here", lambda *_: Ended(exit_code=code, message="What happened."))
    monkeypatch.setattr(registry, "get", lambda *_: replace(run, status=status))
    view._drive_here(SimpleNamespace(database=None), run, CellProgress())


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Exit.HANDED_BACK, HandedBack),
        (Exit.CONFLICT, Conflict),
        (Exit.UNREACHABLE, ServiceUnreachable),
        (Exit.USAGE, RunError),
    ],
)
def test_a_drive_that_was_broken_off_fails_the_cell(monkeypatch, code, error):
    with pytest.raises(error, match=r"What happened\.\nIn a notebook: notebook\.find\(\"\w{8}\"\)\.resume"):
        drive(monkeypatch, Status.QUEUED, code)


@pytest.mark.parametrize(
    ("status", "code"),
    [(Status.SUCCEEDED, Exit.OK), (Status.WAITING_HUMAN, Exit.WAITING), (Status.FAILED, Exit.FAILED)],
)
def test_a_drive_that_came_to_an_end_is_told(monkeypatch, status, code, capsys):
    drive(monkeypatch, status, code)
    assert capsys.readouterr().out == "What happened.\n"


@pytest.mark.parametrize(
    "decide",
    [lambda run: run.reject(" "), lambda run: run.revise(""), lambda run: run.edit()],
    ids=["no", "again", "edit"],
)
def test_a_decision_that_says_nothing_is_refused_before_anything_is_opened(decide):
    with pytest.raises(UsageError):
        decide(RunView("11111111-2222-4333-8444-555555555555", "sqlite"))
