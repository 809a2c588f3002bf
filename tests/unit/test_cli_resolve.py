"""What nobody but a person can know is settled by a person's word, and then the run goes on."""

import json
from contextlib import nullcontext

import pytest

from onward_ledger.action import Status
from onward_ledger.errors import Conflict, NotFound
from runs.cli import main
from runs.commands import effects
from runs.registry import Status as RunStatus
from runs.show import run_view
from tests.support.runs_values import RUN_ID, a_run, an_action

ACTION = an_action("write_draft", "draft", "draft.save", "drafts/1", {"digest": "e" * 64, "objects": []})


class Ledger:
    """A ledger that holds one action."""

    def __init__(self, status):
        self.action_now = an_action(
            "write_draft", "draft", "draft.save", "drafts/1", ACTION.params, status=status, version=4
        )
        self.words = []

    def action(self, action_id):
        if action_id != self.action_now.action_id:
            raise NotFound("There is no such action.")
        return self.action_now

    def events(self, action_id):
        return ()

    def resolve(self, action_id, **word):
        if self.action_now.status is not Status.UNKNOWN:
            raise Conflict(f"Only an UNKNOWN action can be resolved; this one is {self.action_now.status}.")
        self.words.append(word)
        return an_action("write_draft", "draft", "draft.save", "drafts/1", ACTION.params, status=word["status"])


@pytest.fixture
def ledger(monkeypatch):
    found = Ledger(Status.UNKNOWN)
    monkeypatch.setattr(effects, "_ledgers", lambda store: iter([None]))
    monkeypatch.setattr(effects.local_ledger, "connect", lambda settings: nullcontext(found))
    return found


def test_it_happened_with_what_proves_it(ledger, capsys):
    words = ["--reason", "I looked", "--receipt", '{"provider_id": "42"}']
    assert main(["ledger", "resolve", ACTION.action_id, *words, "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["status"] == "SUCCEEDED"
    assert f"onward resume {RUN_ID}" in shown.err
    assert ledger.words == [
        {"status": Status.SUCCEEDED, "receipt": {"provider_id": "42"}, "reason": "I looked", "expected_version": 4}
    ]


def test_it_did_not_happen(ledger, capsys):
    assert main(["ledger", "resolve", ACTION.action_id, "--reason", "I looked", "--failed"]) == 0
    assert "FAILED" in capsys.readouterr().out
    assert (ledger.words[0]["status"], ledger.words[0]["receipt"]) == (Status.FAILED, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "either --receipt JSON"),
        (["--failed", "--receipt", "{}"], "either --receipt JSON"),
        (["--receipt", "yes"], "must be a JSON object"),
        (["--receipt", "[1]"], "must be a JSON object"),
    ],
)
def test_a_word_that_cannot_be_meant_settles_nothing(ledger, capsys, words, said):
    assert main(["ledger", "resolve", ACTION.action_id, "--reason", "r", *words]) == 2
    assert said in capsys.readouterr().err
    assert ledger.words == []


def test_what_is_known_is_not_settled_again(ledger, capsys):
    ledger.action_now = an_action("write_draft", "draft", "draft.save", "drafts/1", {}, status=Status.SUCCEEDED)
    assert main(["ledger", "resolve", ACTION.action_id, "--reason", "r", "--failed"]) == 4
    assert "this one is SUCCEEDED" in capsys.readouterr().err


def test_an_action_that_is_not_there(ledger):
    assert main(["ledger", "resolve", RUN_ID, "--reason", "r", "--failed"]) == 3


def test_the_run_names_the_words_that_settle_it():
    unknown = an_action("write_draft", "draft", "draft.save", "drafts/1", ACTION.params, status=Status.UNKNOWN)
    run = a_run(status=RunStatus.WAITING_HUMAN, reason="unknown_outcome", epoch=1)
    view = run_view(run, [], [unknown], None)
    assert view["approval"] is None
    assert view["next_action"]["commands"] == [
        f"onward ledger resolve {unknown.action_id} --reason TEXT --receipt JSON",
        f"onward ledger resolve {unknown.action_id} --reason TEXT --failed",
        "onward resume 11111111",
    ]
