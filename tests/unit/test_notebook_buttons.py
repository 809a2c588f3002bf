"""Deciding with buttons: a click does what the call of the same name does. No kernel is needed for that."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import ipywidgets
import pytest

from onward_ledger.errors import BadRequest
from runs.errors import Conflict
from runs.notebook import buttons
from runs.notebook.view import Proposal

PROPOSAL = Proposal(title="Sales", note="", resource="reports/sales", digest="d", action_id="a")


class Run:
    """Remembers what was decided. `follows` is what is proposed afterwards."""

    def __init__(self, follows=None, error=None):
        self.calls, self.status, self._follows, self._error = [], "waiting_human", follows, error
        self._proposal = PROPOSAL

    def proposal(self):
        return self._proposal

    def _decided(self, *call):
        if self._error is not None:
            raise self._error
        self.calls.append(call)
        self._proposal = self._follows
        return self

    def approve(self):
        return self._decided("approve")

    def edit(self, **changes):
        return self._decided("edit", changes)

    def revise(self, reason):
        return self._decided("revise", reason)

    def reject(self, reason):
        return self._decided("reject", reason)

    def __repr__(self):
        return "the run as it stands"


def pressed(run, name, **fields):
    shown = buttons.Buttons(run, PROPOSAL, ipywidgets)
    for field, value in fields.items():
        getattr(shown, field).value = value
    getattr(shown, name).click()
    return shown


@pytest.mark.parametrize(
    ("button", "fields", "call"),
    [
        ("approve", {}, ("approve",)),
        ("approve", {"title": "Sales in May"}, ("edit", {"title": "Sales in May"})),
        ("approve", {"note": "n", "resource": "reports/x"}, ("edit", {"note": "n", "resource": "reports/x"})),
        ("revise", {"reason": "shorter", "title": "ignored"}, ("revise", "shorter")),
        ("reject", {"reason": "wrong"}, ("reject", "wrong")),
    ],
)
def test_a_click_decides_once(button, fields, call, capsys):
    run = Run()
    shown = pressed(run, button, **fields)
    assert run.calls == [call]
    assert shown.approve.disabled
    assert shown.revise.disabled
    assert shown.reject.disabled
    assert "the run as it stands" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [Conflict("Another decision \x1b stands."), BadRequest("The title must not be empty.")]
)
def test_what_was_refused_is_said_and_can_be_corrected(error, capsys):
    run = Run(error=error)
    shown = pressed(run, "approve", title="")
    assert str(error).replace("\x1b", "\\x1b") in capsys.readouterr().out
    assert not shown.approve.disabled


def test_another_proposal_is_asked_for_anew(capsys):
    again = Proposal(title="Sales, again", note="", resource="reports/sales", digest="e", action_id="b")
    shown = pressed(Run(follows=again), "revise", reason="shorter")
    assert shown.approve.disabled
    assert "Proposed: Sales, again at reports/sales" in capsys.readouterr().out


def test_outside_a_kernel_the_calls_are_named():
    shown = repr(buttons.ask(Run()))
    assert shown.startswith("Proposed: Sales at reports/sales\n")
    for call in ("run.approve()", "run.edit(title=", "run.revise(", "run.reject("):
        assert call in shown


@pytest.fixture
def in_a_kernel(monkeypatch):
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: SimpleNamespace(kernel=object()))


@pytest.mark.usefixtures("in_a_kernel")
def test_in_a_kernel_there_are_buttons_and_the_calls_for_front_ends_that_show_none():
    shown = buttons.ask(Run())
    assert isinstance(shown, buttons.Buttons)
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "run.approve()" in bundle["text/plain"]


@pytest.mark.usefixtures("in_a_kernel")
def test_without_ipywidgets_the_calls_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert isinstance(buttons.ask(Run()), buttons.Calls)


@pytest.mark.usefixtures("in_a_kernel")
def test_where_nothing_waits_there_is_nothing_to_press():
    run = Run()
    run.approve()
    assert repr(buttons.ask(run)) == "Nothing waits for a decision: the run is waiting_human."
