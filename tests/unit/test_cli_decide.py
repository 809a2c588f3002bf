"""Which action a decision is about, and how the decision that stands is told."""

from datetime import timedelta

import pytest

from onward_ledger.action import Status
from runs.commands.decide import _asked_about, _other_decision, _words
from runs.errors import Conflict
from runs.registry import Status as RunStatus
from tests.support.runs_values import NOW, a_decision, a_run, an_action

PARAMS = {"title": "Report", "note": "", "digest": "e" * 64, "objects": []}
DRAFT = an_action("write_draft", "draft", "draft.save", "drafts/1", {"digest": "e" * 64, "objects": []})


def a_proposal(step="deliver", **changed):
    return an_action(step, "publish", "report.publish", "reports/sales", PARAMS, **changed)


def test_it_is_about_the_last_proposal():
    first, second = a_proposal(status=Status.WITHDRAWN), a_proposal("deliver#2")
    assert _asked_about([DRAFT, first, second], a_run(), edits=False) is second


def test_an_edit_again_is_compared_with_what_it_was_an_edit_of():
    original = a_proposal()
    edited = a_proposal(action_id="22222222-2222-4222-8222-222222222222", rev=2)
    decision = a_decision(original, "edit", successor_action_id=edited.action_id)
    original = a_proposal(status=Status.WITHDRAWN, decision=decision)
    assert _asked_about([DRAFT, original, edited], a_run(), edits=True) is original
    assert _asked_about([DRAFT, original, edited], a_run(), edits=False) is edited


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (a_run(status=RunStatus.QUEUED), "is queued, and there is nothing to decide on: nothing is proposed yet"),
        (a_run(status=RunStatus.FAILED, reason="error", finished_at=NOW), "it was never proposed"),
    ],
)
def test_without_a_proposal_there_is_nothing_to_decide_on(run, words):
    with pytest.raises(Conflict, match=words):
        _asked_about([DRAFT], run, edits=False)


def test_the_decision_that_stands_is_named_with_who_and_when():
    proposal = a_proposal()
    standing = a_decision(proposal, "reject", reason="Not\x1b[2J now", expires_at=NOW + timedelta(days=1))
    told = _words(standing)
    assert told == "reject by bob (asserted) at 2030-01-02 03:04:05 UTC, reason: Not\\x1b[2J now"
    assert (
        str(_other_decision(standing, ""))
        == f"Another decision stands: {told}. The first one counts; nothing has changed."
    )
    assert "by a standing grant" in _words(a_decision(proposal, "approve", grant_id="g"))
    assert str(_other_decision(None, "As the ledger says.")) == "As the ledger says."
