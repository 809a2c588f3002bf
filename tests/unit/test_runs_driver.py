"""The driver's loop and its command line, without a database."""

from __future__ import annotations

import json

import pytest

from onward_ledger.database import MissingRight, Unreachable
from runs import driver
from runs.driver import drive_again
from runs.errors import Exit, RunNotFound, ServiceUnreachable
from runs.failures import BACK_OFF_SECONDS
from runs.outcome import Outcome
from runs.registry import Status


def outcome(again=None, code=Exit.OK, status=Status.SUCCEEDED):
    return Outcome(status=status, reason=None, message="m", exit_code=code, again_after_seconds=again)


class Script:
    """What each drive does, and how long was waited between them."""

    def __init__(self, *steps, stop_at=None):
        self.steps, self.waited, self.stop_at = list(steps), [], stop_at

    def once(self):
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def wait(self, seconds):
        self.waited.append(seconds)
        return len(self.waited) == self.stop_at

    def run(self, ready=True):
        return drive_again(self.once, wait=self.wait, is_ready=lambda: ready)


def test_an_end_is_an_end():
    script = Script(outcome())
    assert script.run().exit_code == Exit.OK
    assert script.waited == []


def test_a_transient_failure_is_driven_again_after_its_pause():
    script = Script(outcome(0.5, Exit.HANDED_BACK), outcome(2.0, Exit.HANDED_BACK), outcome())
    assert script.run().exit_code == Exit.OK
    assert script.waited == [0.5, 2.0]


def test_a_decision_that_has_arrived_is_followed_at_once():
    script = Script(Outcome.decided(), outcome())
    assert script.run().exit_code == Exit.OK
    assert script.waited == [0.0]


def test_the_last_transient_failure_hands_the_run_back():
    script = Script(outcome(0.5, Exit.UNREACHABLE), outcome(None, Exit.UNREACHABLE))
    assert script.run().exit_code == Exit.UNREACHABLE


def test_a_request_to_stop_ends_the_waiting():
    script = Script(outcome(8.0, Exit.HANDED_BACK), stop_at=1)
    stopped = script.run()
    assert (stopped.exit_code, stopped.reason) == (Exit.HANDED_BACK, "drained")


@pytest.mark.parametrize("error", [Unreachable("gone"), ServiceUnreachable("gone")])
def test_a_lost_service_is_tried_again_a_bounded_number_of_times(error):
    script = Script(*[error] * (len(BACK_OFF_SECONDS) + 1))
    with pytest.raises(type(error)):
        script.run()
    assert script.waited == list(BACK_OFF_SECONDS)
    script = Script(error, error, outcome())
    assert script.run().exit_code == Exit.OK


def test_what_is_unreachable_from_the_start_is_said_at_once():
    script = Script(ServiceUnreachable("The ledger did not start."))
    with pytest.raises(ServiceUnreachable):
        script.run(ready=False)
    assert script.waited == []


def test_errors_that_are_answers_are_not_tried_again():
    script = Script(RunNotFound("There is no such run."))
    with pytest.raises(RunNotFound):
        script.run()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunNotFound("There is no such run."), 3),
        (Unreachable("Postgres does not answer."), 9),
        (MissingRight("Ask for this GRANT."), 1),
    ],
)
def test_the_process_ends_with_the_code_and_the_sentence(monkeypatch, capsys, tmp_path, error, code):
    def fail(run_id, settings):
        raise error

    monkeypatch.setattr(driver, "drive_until_done", fail)
    assert driver.main(["abcd", "--home", str(tmp_path), "--store", "sqlite"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told == {"status": None, "reason": type(error).__name__, "message": str(error), "exit_code": code}
