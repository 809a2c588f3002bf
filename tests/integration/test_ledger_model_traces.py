"""Histories of real runs are paths of the model: services killed for real, decisions, cancels, two services at once."""

import threading
import time
import uuid
from dataclasses import replace

import pytest

from experiments.protocol_model.paths import is_path, variant_of
from onward_ledger import errors, protocol
from onward_ledger.action import ActionKey
from onward_ledger.objects import Objects
from tests.support.ledger import ENGINES, draft_request, open_bed, publication_request, shared_database
from tests.support.ledger_process import ledger_process

pytestmark = pytest.mark.campaign

KINDS = {
    "draft.save": variant_of("idempotent"),
    "report.publish": variant_of("transactional", approval=True),
    "test.sink": variant_of("idempotent"),
}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A killed service does not come back by itself: do not wait for it."""
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))


@pytest.fixture(params=ENGINES)
def process(request, tmp_path):
    store = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else shared_database(request)
    with ledger_process(tmp_path, store, schema=f"ledger_{uuid.uuid4().hex[:12]}") as process:
        yield process


def histories(client, run_id):
    """Every action's kind and history, oldest line first."""
    return [(action.kind, client.events(action.action_id)) for action in client.actions(run_id, limit=1000)]


def bad_lines(found):
    """The lines that are no path of the model."""
    judged = [is_path(KINDS[kind], events) for kind, events in found]
    return [line for line in judged if line is not True]


def save(client, run_id, objects, step, *, epoch):
    wanted = draft_request(objects, run_id, b"# Report", epoch)
    return client.perform(ActionKey(run_id, step, "draft"), "draft.save", lambda: wanted, epoch=epoch)


def test_a_run_killed_around_its_sends_and_decided_by_a_person(process):
    """Killed before one send and behind another; then published by approval, by edit, and cancelled."""
    run_id, objects = str(uuid.uuid4()), Objects(process.objects)
    for epoch, window in ((1, "before"), (2, "after")):
        process.start(die=window)
        with pytest.raises(errors.LedgerUnreachable):
            save(process.client(), run_id, objects, f"write#{epoch}", epoch=epoch)
        process.wait()
    client = process.start().client()
    client.fence(run_id, 3, holder="the next driver")
    saved = [save(client, run_id, objects, f"write#{epoch}", epoch=3) for epoch in (1, 2)]
    for step, decision, changes in (("a", "approve", None), ("b", "edit", {"title": "Better"}), ("c", "reject", None)):
        key, wanted = ActionKey(run_id, step, "publish"), publication_request(saved[0])
        wanted = (f"reports/{step}", wanted[1])
        proposed = client.propose(key, "report.publish", lambda wanted=wanted: wanted, epoch=3)
        client.decide(proposed.action_id, decision, request_hash=proposed.request_hash, changes=changes)
        if decision == "approve":
            client.perform(key, "report.publish", lambda wanted=wanted: wanted, epoch=3)
    client.close_fence(run_id, principal="anna", reason="enough")

    found = histories(client, run_id)
    words = sorted([e.word for e in events] for _, events in found)
    assert words == [
        ["propose", "claim", "lose", "find"],
        ["propose", "claim", "lose", "unsend", "claim", "record"],
        ["propose", "decide", "apply"],
        ["propose", "decide", "withdraw"],
        ["propose", "decide", "withdraw"],
        ["propose", "decide", "withdraw"],
    ]
    assert bad_lines(found) == []


def test_runs_killed_at_a_random_moment(request, tmp_path):
    """Four clients work while the service is killed, twice; whatever it was doing, its histories are paths."""
    with ledger_process(tmp_path, shared_database(request), schema=f"ledger_{uuid.uuid4().hex[:12]}") as process:
        runs, objects = [str(uuid.uuid4()) for _ in range(4)], Objects(process.objects)
        for epoch in (1, 2):
            process.start()
            done = []
            clients = [process.client() for _ in runs]
            working = [
                threading.Thread(target=work, args=(client, run_id, objects, epoch, done))
                for client, run_id in zip(clients, runs, strict=True)
            ]
            for thread in working:
                thread.start()
            end = time.monotonic() + 30
            while len(done) < 12 * epoch and time.monotonic() < end:
                time.sleep(0.002)
            process.kill()
            for thread in working:
                thread.join(30)
        client = process.start().client()
        for run_id in runs:
            for action in client.fence(run_id, 3, holder="the next driver").unsettled:
                client.reconcile(action.action_id)
        found = [history for run_id in runs for history in histories(client, run_id)]
        assert len(found) >= 36
        assert bad_lines(found) == []


def work(client, run_id, objects, epoch, done):
    """Draft after draft, until the service is gone."""
    n = 0
    while True:
        try:
            done.append(save(client, run_id, objects, f"write#{epoch}.{n}", epoch=epoch).action_id)
        except errors.LedgerError:
            return
        n += 1


@pytest.fixture
def history(request, tmp_path):
    """A real history: lost, sent again in doubt and refused, sent again."""
    with open_bed("sqlite", request, tmp_path) as bed:
        bed.sink.script = ["raise", "refuse"]
        for _ in range(2):
            bed.put(bed.intent())
        action = bed.put(bed.intent())
        events = bed.ledger.store.events(action.action_id)
    twice = ["claim", "lose", "unsend"] * 2
    assert [e.word for e in events] == ["propose", *twice, "claim", "record"]
    return events


def test_a_history_with_a_line_that_cannot_be_is_no_path(history):
    """Negative controls: what a broken ledger would have written."""
    variant = KINDS["test.sink"]
    assert is_path(variant, history) is True
    for n in range(1, len(history) - 1):
        assert is_path(variant, history[:n] + history[n + 1 :]) is not True, f"without line {n + 1}"
    sent_again = [*history, replace(history[1], from_status=history[-1].to_status)]
    assert is_path(variant, sent_again) is sent_again[-1], "a success is never claimed again"
    refused = [*history[:5], replace(history[5], word="refuse", to_status="FAILED")]
    assert is_path(replace(variant, window=""), refused) is refused[-1], "in doubt, a refusal settles nothing"
    other = replace(history[6], claim_token=None, detail={"claim_token": history[1].claim_token})
    assert is_path(variant, [*history[:6], other]) is other, "the first claim cannot say that the second was not sent"


def test_other_classes_do_not_take_this_path(history):
    """What is right for one class of provider is a mistake for another."""
    assert is_path(variant_of("queryable"), history) is history[3], "absent is held for a person"
    assert is_path(variant_of("opaque"), history) is history[3]
    assert is_path(variant_of("queryable", resend_after_absent=True), history) is True
    assert is_path(variant_of("transactional"), history) is history[1]
    assert is_path(variant_of("idempotent", approval=True), history) is history[1], "nothing was approved"
