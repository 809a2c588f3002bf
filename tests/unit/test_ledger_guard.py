"""The guard's protocol by itself: what it asks for, whom it believes, and how long it waits. No service, no clock."""

import importlib
import importlib.util
import json
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from onward_ledger import errors
from onward_ledger.action import ActionKey, Status
from onward_ledger.guard_protocol import Ask, Begun, Declaration, Next, Seen, Wanted, World, enter
from onward_ledger.performing import MOST_CALLERS, Performing
from onward_ledger.protocol import Answer, Lost, Request, Wait
from onward_ledger.routes.guards import CompleteBody, Declared, FoundBody
from tests.unit.test_ledger_action import NOW, RUN, action

KEY = ActionKey(RUN, "answer", "ticket")
TOKEN = "5b1f9a52-5a3e-4a55-8a0e-7f4a6f0f2b61"


def wanted(**declared):
    declaration = Declaration(**{"looks_up": True} | declared)
    return Wanted(key=KEY, kind="ticket.create", resource="tickets", params={}, epoch=1, declared=declaration)


def record(status=Status.IN_FLIGHT, **changes):
    members = {"kind": "ticket.create", "claim_token": TOKEN, "deadline_at": NOW + timedelta(seconds=35)}
    return replace(action(status=status), **members | changes)


class Service:
    """Answers requests from a list; what it was asked, in what order, and what was waited for, stands in `told`."""

    def __init__(self, *answers, world=None):
        self.answers = list(answers)
        self.world = list(world or [])
        self.told = []
        self.now = 100.0

    def run(self, operation):
        reply = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                return end.value
            reply = self._reply(step)

    def _reply(self, step):
        match step:
            case Wait(seconds):
                self.told.append(seconds)
                self.now += seconds
                return None
            case Ask():
                self.told.append("ask")
                return self.world.pop(0)
            case Request():
                self.told.append(step.path.rpartition("/")[2] if step.method == "POST" else "begin")
                answer = self.answers.pop(0)
                return answer(step) if callable(answer) else answer

    def enter(self, want=None, patience_seconds=60):
        return self.run(enter(want or wanted(), patience_seconds=patience_seconds, clock=lambda: self.now))


def said(value, status=200):
    return Answer(status=status, body=json.dumps(value).encode())


def begun(next, recorded, asked_at=None):
    return said(Begun(next=next, action=recorded, asked_at=asked_at).to_json())


def with_its_own_token(next, status):
    """The record of the very claim that is asked for."""
    return lambda request: begun(next, record(status, claim_token=request.body["claim_token"]), NOW)


def in_progress(seconds=2.0):
    problem = {"code": "in-progress", "detail": "busy", "retry_after_seconds": seconds}
    return said(problem, 409)


RUN_IT = begun(Next.RUN, record())
ASK_IT = begun(Next.VERIFY, record(Status.UNKNOWN, reason="TimeoutError"), NOW)
SETTLED = said(record(Status.SUCCEEDED, provider_id="T-1", receipt={}).to_json())
STILL = said(record(Status.UNKNOWN, reason="TimeoutError").to_json())
FREE = said(record(Status.PREPARED).to_json())
NONE = World()


def test_the_time_to_run_counts_from_before_the_claim():
    service = Service(RUN_IT)
    assert service.enter(wanted(deadline_seconds=7)).ends == 107.0


def test_a_claim_behind_a_wait_has_its_own_time():
    """Waiting for somebody else must not use up the time of the claim that is made afterwards."""
    service = Service(in_progress(), in_progress(), RUN_IT)
    entered = service.enter(wanted(deadline_seconds=7))
    assert (entered.to_run, entered.ends, service.told) == (True, 111.0, ["begin", 2.0, "begin", 2.0, "begin"])


def test_each_claim_has_a_token_of_its_own_and_a_lost_answer_is_asked_for_with_the_same():
    tokens = []

    def note(answer):
        return lambda request: (tokens.append(request.body["claim_token"]), answer)[1]

    Service(note(Lost("cut")), note(in_progress()), note(RUN_IT)).enter()
    assert tokens[0] == tokens[1] != tokens[2]


def test_it_is_patient_so_long_and_no_longer():
    service = Service(*[in_progress(4.0)] * 9)
    with pytest.raises(errors.InProgress):
        service.enter(patience_seconds=10)
    assert service.told == ["begin", 4.0, "begin", 4.0, "begin"]


@pytest.mark.parametrize("next", [Next.VERIFY, Next.UNKNOWN])
def test_a_claim_that_died_with_the_service_before_it_was_answered_did_nothing(next):
    """UNKNOWN to the next instance, but this caller knows: it never began. It says so, and claims anew."""
    completions = []

    def complete(request):
        completions.append(request.body)
        return FREE

    service = Service(with_its_own_token(next, Status.UNKNOWN), complete, RUN_IT)
    assert service.enter().to_run
    assert service.told == ["begin", "complete", "begin"]
    assert [body["outcome"] for body in completions] == ["not_sent"]


def test_what_is_found_is_settled_and_not_run():
    replay = begun(Next.REPLAY, record(Status.SUCCEEDED, provider_id="T-1", receipt={}))
    service = Service(ASK_IT, SETTLED, replay, world=[World((Seen(receipt={}, provider_id="T-1"),))])
    assert service.enter().to_run is False
    assert service.told == ["begin", "ask", "found", "begin"]


def test_what_is_absent_runs_again_only_by_the_ledgers_word():
    service = Service(ASK_IT, FREE, RUN_IT, world=[NONE])
    assert service.enter().to_run
    service = Service(ASK_IT, STILL, world=[NONE])
    with pytest.raises(errors.UnknownOutcome, match=f"TimeoutError.*onward-ledger resolve {action().action_id}"):
        service.enter()


def test_it_waits_for_the_settle_window_where_one_was_declared():
    """35 seconds until the deadline, 3 + 4 behind it; then it is asked once more."""
    want = wanted(resend_after_absent=True, request_lifetime_seconds=3, settle_window_seconds=4)
    service = Service(ASK_IT, STILL, ASK_IT, FREE, RUN_IT, world=[NONE, NONE])
    assert service.enter(want).to_run
    assert service.told == ["begin", "ask", "found", 42.0, "begin", "ask", "found", "begin"]


@pytest.mark.parametrize(
    ("want", "world"),
    [
        (wanted(resend_after_absent=True), NONE),  # 35 + 60 + 60 seconds are longer than its patience
        (wanted(resend_after_absent=True, request_lifetime_seconds=0), World(why_not="The search is down.")),
        (wanted(), NONE),
    ],
)
def test_it_does_not_wait_where_waiting_changes_nothing(want, world):
    service = Service(ASK_IT, STILL, world=[world])
    with pytest.raises(errors.UnknownOutcome) as raised:
        service.enter(want)
    assert service.told == ["begin", "ask", "found"]
    assert (world.why_not or "TimeoutError") in raised.value.message


def test_after_a_restore_a_look_comes_first_and_is_said():
    looked = []

    def begin(answer):
        return lambda request: (looked.append(request.body["looked"]), answer)[1]

    first = begun(Next.VERIFY, record(Status.PREPARED, claim_token=None), NOW)
    service = Service(begin(first), FREE, begin(RUN_IT), world=[NONE])
    assert service.enter().to_run
    assert looked == [False, True]
    with pytest.raises(errors.NotApplied, match="restored"):
        Service(first, world=[World(why_not="The search is down.")]).enter()


def test_an_effect_without_an_id_counts_as_that_of_the_last_claim():
    sent = []
    service = Service(
        ASK_IT,
        lambda request: (sent.extend(request.body["effects"]), STILL)[1],
        world=[World((Seen(receipt={"n": 1}), Seen(receipt={"n": 2})))],
    )
    with pytest.raises(errors.UnknownOutcome):
        service.enter()
    assert [effect["provider_id"] for effect in sent] == [TOKEN, f"{TOKEN}#2"]


@pytest.mark.parametrize(
    "words",
    [{"resend_after_absent": True, "looks_up": False}, {"key_lifetime_seconds": 5.0}],
)
def test_words_that_do_not_go_together_are_refused(words):
    with pytest.raises(errors.BadRequest):
        Declaration(**words)
    with pytest.raises(errors.BadRequest):
        Declared(**words).value()


# --- bodies of requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "members",
    [
        {"outcome": "applied", "provider_id": "T-1"},
        {"outcome": "applied", "receipt": {}},
        {"outcome": "applied", "provider_id": "T-1", "receipt": {}, "reason": "why"},
        {"outcome": "lost"},
        {"outcome": "refused", "reason": "no", "receipt": {}},
        {"outcome": "not_sent", "reason": "no", "provider_id": "T-1"},
    ],
)
def test_a_completion_says_one_thing(members):
    with pytest.raises(errors.BadRequest):
        CompleteBody(claim_token=TOKEN, **members).value()


def test_the_world_does_not_say_two_things():
    body = {"version": 1, "asked_at": NOW, "declared": {}, "effects": [{"provider_id": "T-1", "receipt": {}}]}
    with pytest.raises(errors.BadRequest):
        FoundBody(**body, cannot_tell="The search is down.").value()


# --- who is alive -----------------------------------------------------------------------------------------------------


def test_a_callers_claim_is_in_hand_until_its_deadline():
    now = [0.0]
    performing = Performing(lambda: now[0])
    performing.add("a thread's")
    performing.keep("short", 5)
    performing.keep("long", 50)
    now[0] = 5.0
    performing.keep("next", 5)
    assert performing == {"a thread's", "long", "next"}
    performing.discard("long")
    assert performing == {"a thread's", "next"}


def test_callers_that_never_come_back_do_not_fill_the_memory():
    performing = Performing(lambda: 0.0)
    for number in range(MOST_CALLERS + 10):
        performing.keep(str(number), number)
    assert len(performing) == MOST_CALLERS
    assert "0" not in performing


# --- without LangGraph ------------------------------------------------------------------------------------------------


def test_without_langgraph_the_import_names_the_extra(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "langgraph" else real(name, *a))
    monkeypatch.delitem(sys.modules, "onward_ledger.langgraph", raising=False)
    with pytest.raises(ImportError, match=r"pip install \"onward-ledger\[langgraph\]\""):
        importlib.import_module("onward_ledger.langgraph")
