"""`onward-ledger perform`, `waiting`, `decide` and `revoke` at a service: what a person at a shell sees and gets."""

import json

import pytest
from typer.testing import CliRunner

from onward_ledger.__main__ import app
from onward_ledger.action import ActionKey
from onward_ledger.objects import Objects
from tests.support.ledger import draft_request, publication_request
from tests.support.ledger_process import ledger_process


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    with ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}") as process:
        yield process.start(exec=True)


@pytest.fixture
def command(service):
    env = {"ONWARD_LEDGER_URL": service.url, "ONWARD_LEDGER_TOKEN": service.token}
    return lambda *arguments, **more: CliRunner().invoke(app, list(arguments), env=env | more)


NOTE = ("perform", "ledger.note", "greetings")


def test_an_effect_is_performed_once_and_its_receipt_replayed(command):
    asked = (*NOTE, "--run", "once", "--params", '{"text": "hello"}')
    first, again = command(*asked), command(*asked)
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "Done. Receipt note-" in first.stdout
    assert "Replayed: nothing was sent. Receipt note-" in again.stdout
    assert first.stdout.split()[0] == again.stdout.split()[0]


def test_the_same_id_with_other_params_is_refused(command):
    assert command(*NOTE, "--run", "conflict", "--params", '{"amount": 5}').exit_code == 0
    other = command(*NOTE, "--run", "conflict", "--params", '{"amount": 6}')
    assert other.exit_code == 4
    assert "recorded with another request; nothing was sent" in other.stderr
    stands = json.loads(command(*NOTE, "--run", "conflict", "--params", '{"amount": 5}', "--json").stdout)
    assert (stands["params"], stands["replayed"]) == ({"amount": 5}, True)


def test_another_slot_or_revision_is_another_effect(command):
    ids = {
        json.loads(command(*NOTE, "--run", "more", "--slot", slot, "--json").stdout)["action_id"]
        for slot in ("a", "b", "a")
    }
    assert len(ids) == 2


@pytest.fixture
def proposal(service):
    """A publication that waits for a person."""
    objects = Objects(service.objects)
    with service.client() as client:
        run = "0a0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
        saved = client.perform(
            ActionKey(run, "write_draft", "draft"), "draft.save", lambda: draft_request(objects, run, b"# R"), epoch=1
        )
        key = ActionKey(run, "deliver", "publish")
        return client.propose(key, "report.publish", lambda: publication_request(saved), epoch=1)


def test_a_person_sees_what_waits_decides_about_exactly_that_and_takes_it_back(command, proposal):
    seen = command("waiting")
    assert proposal.action_id in seen.stdout
    assert f"request {proposal.request_hash[:12]}" in seen.stdout
    unseen = command("decide", proposal.action_id, "approve", ONWARD_PRINCIPAL="anna")
    assert (unseen.exit_code, "Say with --request" in unseen.stderr) == (2, True)
    wrong = command("decide", proposal.action_id, "approve", "--request", "0" * 12)
    assert (wrong.exit_code, "look at it again" in wrong.stderr) == (2, True)
    request = ("--request", proposal.request_hash[:12])
    decided = command("decide", proposal.action_id, "approve", *request, ONWARD_PRINCIPAL="anna")
    assert (decided.exit_code, decided.stdout) == (0, "approve, by anna.\n")
    assert proposal.action_id not in command("waiting").stdout
    other = command("decide", proposal.action_id, "reject", *request, ONWARD_PRINCIPAL="bert")
    assert (other.exit_code, "anna has already decided: approve" in other.stderr) == (4, True)
    back = command("revoke", proposal.action_id, "--reason", "Wrong figures.", ONWARD_PRINCIPAL="anna")
    assert (back.exit_code, back.stdout) == (0, "The approval by anna was revoked by anna.\n")
    assert proposal.action_id in command("waiting").stdout
