"""The notebook from top to bottom in two kernels: the first is killed, the second goes on by the run's id."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from notebooks import render
from tests.support import notebooks
from tests.support.cli_world import is_gone, wait_until_gone

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(240)]

# Behind the first half: another run, whose driver is at work when the kernel is killed.
DRIVE = """
import json, os, signal
other = notebook.start(notebook.EXAMPLES / "sales.csv", "total revenue", drive=False)
driver = other.drive()
for event in driver.events():
    if event.kind == "claimed":
        break
print(json.dumps({"run": run.run_id, "other": other.run_id, "driver": driver.pid}))
"""
DIE = "os.kill(os.getpid(), signal.SIGKILL)"

# Behind the second half: the decisions that the notebook only names.
DECIDE_WITH_BUTTONS = """
other = notebook.find(OTHER)
left = (other.show()["driver"]["state"], other.epochs)
other.resume()
buttons = other.buttons()
buttons.reject.click()
without_reason = (other.status, buttons.reject.disabled)
buttons.reason.value = "The figures are <old>"
buttons.reject.click()
"""
LOOK = """
import json, sys
before = run.epochs
run.edit(title="Revenue by region", note="Approved in a notebook")
sys.modules["ipywidgets"] = None
def figures(run):
    view = run.show()
    return {"status": view["status"], "reason": view["reason"], "publications": run.publications(),
        "receipts": len(run.receipts("report.publish")), "epochs": run.epochs,
        "deliver": next(step["attempts"] for step in view["steps"] if step["step"] == "deliver")}
print(json.dumps({"run": figures(run), "before": before, "second": figures(second), "in_time": in_time,
    "other": figures(other), "left": left, "without_reason": without_reason, "disabled": buttons.approve.disabled,
    "calls": repr(second.buttons())}))
"""


@pytest.fixture(scope="module")
def told(postgres_cli):
    """What both kernels said: `first` and `second` are the notebooks with outputs, `one` and `two` their last words."""
    first, second = notebooks.halves()
    notebooks.add(first, DRIVE)
    notebooks.add(first, DIE)
    one = notebooks.execute(first, postgres_cli, dies=True)
    wait_until_gone(one["driver"])
    restart = second.cells[0]
    assert "RUN_ID = None" in restart.source
    restart.source = restart.source.replace("RUN_ID = None", f'RUN_ID = "{one["run"][:8]}"')
    notebooks.add(second, DECIDE_WITH_BUTTONS.replace("OTHER", f'"{one["other"]}"'))
    notebooks.add(second, LOOK)
    return SimpleNamespace(first=first, second=second, one=one, two=notebooks.execute(second, postgres_cli))


def test_the_first_kernel_leaves_a_run_that_waits(told):
    said = notebooks.output_of(told.first, "notebook.start(")
    assert f"Run {told.one['run']}" in said
    assert "the run is waiting_human (approval)" in said
    shown = next(cell for cell in told.first.cells if cell.source == "run.buttons()").outputs[0].data
    assert render.WIDGET in shown
    assert "run.approve()" in shown["text/plain"]


def test_a_driver_ends_with_its_kernel_and_another_one_goes_on(told):
    assert is_gone(told.one["driver"])
    assert told.two["left"] == ["gone", [1]]
    assert told.two["other"]["epochs"] == [1, 2, 3]  # killed with its kernel; to the proposal; to the end


def test_the_second_kernel_decides_by_the_runs_id(told):
    run = told.two["run"]
    assert (run["status"], run["epochs"], run["receipts"]) == ("succeeded", [1, 2], 1)
    (publication,) = run["publications"]
    assert (publication["title"], publication["note"]) == ("Revenue by region", "Approved in a notebook")
    assert "Another decision stands" in notebooks.output_of(told.second, "notebook.Conflict")


def test_deciding_twice_changes_nothing(told):
    assert "Already decided, and nothing has changed" in notebooks.printed(told.second.cells[-1])
    assert told.two["before"] == told.two["run"]["epochs"]


def test_a_kill_behind_the_publication_leaves_one_effect_one_receipt_two_epochs(told):
    second = told.two["second"]
    assert told.two["in_time"]  # or nothing was shown
    assert second["deliver"] == 2
    assert "ended by SIGKILL" in notebooks.output_of(told.second, "def kill_behind")
    assert "receipt reused, nothing was sent" in notebooks.output_of(told.second, "second.resume()")
    assert (second["status"], second["epochs"], second["receipts"]) == ("succeeded", [1, 2], 1)
    assert len(second["publications"]) == 1
    counted = notebooks.output_of(told.second, "len(second.publications())")
    assert counted.splitlines() == ["1 publication", "1 receipt", "2 epochs: [1, 2]", "The run has succeeded"]


def test_rejecting_with_a_button(told):
    other = told.two["other"]
    assert told.two["without_reason"] == ["waiting_human", False]
    assert (other["status"], other["reason"]) == ("failed", "rejected")
    assert (other["publications"], other["receipts"]) == ([], 0)
    assert told.two["disabled"]


def test_without_ipywidgets_it_is_said_what_to_call(told):
    assert told.two["calls"] == "Nothing waits for a decision: the run is succeeded."
