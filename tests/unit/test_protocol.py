"""The wire protocol without a wire: what is sent, what waits, what is asked again, and what errors become."""

import json
import uuid

import pytest

from onward_ledger import errors, protocol
from onward_ledger.action import ActionKey, Status
from onward_ledger.problems import problem
from onward_ledger.protocol import Answer, Lost, Recorded, Request, Wait
from tests.unit.test_ledger_action import NOW, RUN, action

KEY = ActionKey(RUN, "deliver", "publish")
WANTED = ("reports/x", {"title": "T"})


def drive(operation, *answers):
    """Run an operation against scripted answers: `(result, what it yielded)`. Waits take no time."""
    script, steps, reply = list(answers), [], None
    while True:
        try:
            step = operation.send(reply)
        except StopIteration as end:
            assert not script, f"{len(script)} answers were not asked for"
            return end.value, steps
        steps.append(step)
        reply = None if isinstance(step, Wait) else script.pop(0)


def ok(body, status=200):
    return Answer(status=status, body=json.dumps(body).encode())


def refused(error):
    response = problem(error)
    return Answer(status=response.status_code, body=response.body, retry_after=response.headers.get("Retry-After"))


def put(recorded=None, build=lambda: WANTED, **more):
    options = {"epoch": 3, "recorded": recorded or Recorded(), "propose": False, "pinned": True}
    options |= {"patience_seconds": 60.0} | more
    return protocol.put_action(KEY, "report.publish", build, **options)


def requests(steps):
    return [step for step in steps if isinstance(step, Request)]


def waits(steps):
    return [step.seconds for step in steps if isinstance(step, Wait)]


def test_a_put_carries_the_whole_intent():
    done, steps = drive(put(), ok(action(status=Status.SUCCEEDED, receipt={}).to_json()))
    assert done.status is Status.SUCCEEDED
    assert steps == [
        Request(
            method="PUT",
            path=f"/v1/actions/{KEY.action_id}",
            body={
                "run_id": RUN,
                "step": "deliver",
                "slot": "publish",
                "rev": 1,
                "kind": "report.publish",
                "resource": "reports/x",
                "params": {"title": "T"},
                "epoch": 3,
            },
        )
    ]


def test_a_proposal_says_so():
    _, steps = drive(put(propose=True), ok(action().to_json(), 202))
    assert steps[0].path.endswith("?propose=1")


def test_a_lost_answer_sends_the_very_same_request_again():
    done, steps = drive(put(), Lost("cut"), Lost("cut"), ok(action().to_json(), 202))
    assert done == action()
    assert requests(steps) == [requests(steps)[0]] * 3
    assert waits(steps) == [0.1, 0.4]


def test_after_a_few_lost_answers_the_ledger_is_unreachable():
    with pytest.raises(errors.LedgerUnreachable, match="refused") as lost:
        drive(put(), *[Lost("refused")] * 4)
    assert (lost.value.definite, lost.value.retryable) == (False, True)


@pytest.mark.parametrize(
    "bad",
    [
        Answer(status=502, body=b"<html>"),
        Answer(status=500, body=b"{}"),
        refused(errors.ServiceFault("a defect")),
        refused(errors.LedgerUnreachable("its database is down")),
        ok([1, 2]),
    ],
)
def test_a_fault_of_the_service_is_asked_again(bad):
    done, steps = drive(put(), bad, ok(action().to_json()))
    assert (done, len(requests(steps))) == (action(), 2)
    with pytest.raises((errors.ServiceFault, errors.LedgerUnreachable)):
        drive(put(), *[bad] * 4)


def test_in_progress_waits_as_it_is_told_up_to_the_limit():
    busy = refused(errors.InProgress("busy", retry_after_seconds=0.3))
    done, steps = drive(put(), busy, busy, ok(action().to_json()))
    assert (done, waits(steps)) == (action(), [0.3, 0.3])
    with pytest.raises(errors.InProgress):
        drive(put(patience_seconds=1.0), *[busy] * 4)


def test_the_retry_after_header_alone_is_enough():
    body = json.dumps({"code": "in-progress", "detail": "busy"}).encode()
    _, steps = drive(put(), Answer(status=409, body=body, retry_after="2"), ok(action().to_json()))
    assert waits(steps) == [2.0]


def test_a_wait_is_never_longer_than_a_few_seconds_nor_a_busy_loop():
    long, short = (refused(errors.NotApplied("down", retry_after_seconds=s)) for s in (60.0, 0.0))
    _, steps = drive(put(), long, short, ok(action().to_json()))
    assert waits(steps) == [5.0, 0.05]


def test_what_is_recorded_is_asked_for_and_nothing_is_built():
    recorded = Recorded()
    recorded.note(action(resource="reports/recorded", params={"title": "Recorded"}))
    _, steps = drive(put(recorded, build=lambda: pytest.fail("built")), ok(action().to_json()))
    assert (steps[0].body["resource"], steps[0].body["params"]) == ("reports/recorded", {"title": "Recorded"})


def test_a_conflict_pins_what_it_reveals_once():
    record = action(resource="reports/recorded", params={"title": "Recorded"})
    conflict = refused(errors.ParamsConflict("recorded otherwise", action=record))
    done, steps = drive(put(), conflict, ok(record.to_json()))
    assert (done, steps[1].body["params"], len(steps)) == (record, {"title": "Recorded"}, 2)
    with pytest.raises(errors.ParamsConflict):
        drive(put(), conflict, conflict)


def test_who_does_not_want_it_pinned_is_told_of_another_request():
    record = action(resource="reports/recorded", params={"title": "Recorded"})
    recorded = Recorded()
    recorded.note(record)
    operation = put(recorded, pinned=False)
    assert next(operation).body["params"] == {"title": "T"}
    with pytest.raises(errors.ParamsConflict):
        operation.send(refused(errors.ParamsConflict("recorded otherwise", action=record)))


def test_a_conflict_with_another_kind_is_not_pinned():
    other = action(kind="draft.save")
    with pytest.raises(errors.ParamsConflict):
        drive(put(), refused(errors.ParamsConflict("recorded otherwise", action=other)))


def test_a_record_of_another_kind_pins_nothing():
    recorded = Recorded()
    recorded.note(action(kind="draft.save", params={"other": 1}))
    _, steps = drive(put(recorded), ok(action().to_json()))
    assert steps[0].body["params"] == {"title": "T"}


def test_a_client_forgets_the_oldest_records(monkeypatch):
    monkeypatch.setattr(protocol, "MOST_RECORDED", 2)
    recorded = Recorded()
    ids = [recorded.note(action(action_id=str(uuid.uuid4()))).action_id for _ in range(3)]
    assert list(recorded.intents) == ids[1:]


def test_a_fence_pins_what_it_names():
    recorded = Recorded()
    body = {"run_id": RUN, "epoch": 4, "holder": "me", "actions": [action().to_json()]}
    fence, steps = drive(protocol.fence(RUN, 4, holder="me", recorded=recorded), ok(body))
    assert (fence.epoch, fence.actions, steps[0].body) == (4, (action(),), {"epoch": 4, "holder": "me"})
    assert KEY.action_id in recorded.intents


def test_live_is_the_revision_that_is_not_withdrawn():
    gone, live = action(status=Status.WITHDRAWN), action(action_id=str(uuid.uuid4()), rev=2)
    for listed, found in (([gone, live], live), ([gone], None), ([], None)):
        body = {"actions": [item.to_json() for item in listed]}
        result, steps = drive(protocol.live(RUN, "deliver", "publish", recorded=Recorded()), ok(body))
        assert result == found
        assert steps[0].path == f"/v1/actions?run_id={RUN}&step=deliver&slot=publish"


def test_reconcile_waits_while_somebody_performs_it():
    busy = refused(errors.InProgress("busy", retry_after_seconds=0.2))
    done, steps = drive(protocol.reconcile(KEY.action_id, patience_seconds=60), busy, ok(action().to_json()))
    assert (done, waits(steps)) == (action(), [0.2])


def all_errors():
    waiting, found = [errors.LedgerError], []
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += kind.__subclasses__()
    return found


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.code)
def test_every_error_crosses_the_wire_as_itself(kind):
    sent = kind("A plain sentence.", action=action(), fence_epoch=7, closed_at=NOW, retry_after_seconds=1.5)
    answer = refused(sent)
    with pytest.raises(errors.LedgerError) as caught:
        protocol.read_answer(answer)
    got = caught.value
    assert type(got) is kind
    assert (got.message, got.action, got.fence_epoch, got.closed_at, got.retry_after_seconds) == (
        "A plain sentence.",
        action(),
        7,
        NOW,
        1.5,
    )
    body = json.loads(answer.body)
    assert (body["definite"], body["terminal"], body["retryable"]) == (kind.definite, kind.terminal, not kind.terminal)
    assert answer.retry_after == "2"


def test_codes_are_unique():
    codes = [kind.code for kind in all_errors()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize(("status", "kind"), [(418, errors.LedgerError), (503, errors.ServiceFault)])
def test_an_unknown_problem_becomes_the_nearest_error(status, kind):
    with pytest.raises(kind, match="later version") as caught:
        protocol.read_answer(Answer(status=status, body=b'{"code": "new", "title": "of a later version"}'))
    assert type(caught.value) is kind
