"""Look-ups in the background: what is in flight for nobody becomes UNKNOWN, and what is UNKNOWN is asked about."""

import threading
import time
from datetime import timedelta

import pytest

from onward_ledger import sweeper
from onward_ledger.action import Status
from onward_ledger.providers.interface import Applied, ProviderClass
from onward_ledger.store.claims import RECORD_GRACE_SECONDS
from onward_ledger.store.look_ups import HOLD_SECONDS
from onward_ledger.store.outbox import Later
from onward_ledger.sweeper import MOST_LOOK_UPS, Sweeper
from tests.support.exchanges import exchanges
from tests.support.ledger import ENGINES, open_bed

pytestmark = pytest.mark.campaign

S = Status


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path, provider_class=ProviderClass.QUERYABLE) as bed:
        yield bed


def unknown(bed, step="pay", word="raise", **more):
    bed.sink.script = [word]
    action = bed.put(bed.intent(step, **more))
    assert action.status is S.UNKNOWN
    return action


def due(ledger):
    kinds = {"kinds": ledger.kinds, "asked_kinds": ledger.asked_kinds}
    return ledger.store.look_ups.due(ledger.instance, **kinds, limit=sweeper.MOST_IN_A_ROUND)


def sweep(bed, when):
    """One round at that time, in this thread; how many actions it had."""
    ledger = bed.another(clock=when)
    found = due(ledger)
    for action in found:
        Sweeper(ledger).settle(action)
    return len(found)


def look(bed, action):
    return bed.ledger.store.outbox.look(action.action_id)


def test_what_is_unknown_is_found_soon(bed):
    action = unknown(bed, word="lost")
    assert sweep(bed, action.updated_at + timedelta(seconds=0.9)) == 0, "its driver may ask before"
    assert sweep(bed, action.updated_at + timedelta(seconds=1.1)) == 1
    found = look(bed, action)
    assert (found.status, bed.words(action)[-1], bed.sink.sends) == (S.SUCCEEDED, "find", [action.action_id])
    told = found.look_ups
    assert (told.count, told.answer, told.again_at) == (1, f"It is there: {found.provider_id}.", None)


def test_pauses_double_until_the_budget_is_used_up_and_the_version_stays(bed):
    action = unknown(bed)
    now, pauses = action.updated_at + timedelta(seconds=2), []
    for _ in range(MOST_LOOK_UPS):
        assert sweep(bed, now) == 1
        told = look(bed, action).look_ups
        if told.again_at is None:
            break
        pauses.append(round((told.again_at - now).total_seconds()))
        now = told.again_at
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, *[3600] * 17]
    stands = look(bed, action)
    assert (stands.look_ups.count, stands.look_ups.answer) == (MOST_LOOK_UPS, "There is no trace of it.")
    assert (stands.status, stands.version) == (S.UNKNOWN, action.version), "an operator's word on it stays valid"
    assert sweep(bed, now + timedelta(days=30)) == 0, "now it waits for a person"
    assert bed.sink.sends == [action.action_id], "nothing is sent by looking"


def test_a_provider_that_cannot_tell_is_told_as_such(bed):
    action = unknown(bed)
    bed.sink.can_tell = False
    sweep(bed, action.updated_at + timedelta(seconds=2))
    assert look(bed, action).look_ups.answer == "It could not be told: the sink is down"


def test_what_may_be_sent_again_once_absent_is_asked_about_when_that_is_sure(bed):
    bed.sink.resend_after_absent = True
    action = unknown(bed)
    settled_at = bed.sink.settled_at(action)
    sweep(bed, action.updated_at + timedelta(seconds=2))
    assert (look(bed, action).status, look(bed, action).look_ups.again_at) == (S.UNKNOWN, settled_at)
    assert sweep(bed, settled_at - timedelta(microseconds=1)) == 0
    assert sweep(bed, settled_at) == 1
    ready = look(bed, action)
    assert (ready.status, ready.in_doubt, bed.sink.sends) == (S.PREPARED, False, [action.action_id])
    done = bed.another(clock=settled_at).put(bed.intent(), propose=False)
    assert (done.status, bed.sink.sends) == (S.SUCCEEDED, [action.action_id] * 2), "its caller sends it"


def test_what_is_in_the_outbox_is_sent_again_by_the_service(bed):
    bed.sink.provider_class = ProviderClass.IDEMPOTENT
    bed.sink.script = ["raise"]
    action = bed.ledger.put(bed.intent(), propose=False, later=Later())
    assert bed.ledger.dispatch(action).status is S.UNKNOWN
    bed.ledger.stored.clear()
    when = look(bed, action).updated_at + timedelta(seconds=2)
    ledger = bed.another(clock=when)
    Sweeper(ledger).settle(due(ledger)[0])
    assert (look(bed, action).status, ledger.stored.is_set()) == (S.PREPARED, True)
    [ready] = ledger.store.outbox.due([], 10)
    assert ledger.dispatch(ready.action).status is S.SUCCEEDED


def test_kinds_that_cannot_be_asked_are_left_to_a_person(bed):
    bed.sink.looks_up = False
    action = unknown(bed)
    assert sweep(bed, action.updated_at + timedelta(days=1)) == 0
    assert bed.sink.lookups == []


def in_flight(bed):
    """A send that hangs, and what ends it."""
    bed.sink.script = ["hang"]
    bed.sink.sending.clear()
    sending = threading.Thread(target=bed.put, args=[bed.intent()])
    sending.start()
    assert bed.sink.sending.wait(15)
    [action] = bed.ledger.store.actions(run_id=bed.run_id, status=S.IN_FLIGHT)
    return action, sending


def test_a_send_whose_deadline_has_passed_becomes_unknown_without_anybody_asking(bed):
    action, sending = in_flight(bed)
    over = action.updated_at + timedelta(seconds=bed.sink.deadline_seconds + RECORD_GRACE_SECONDS)
    ledger = bed.another(clock=over - timedelta(milliseconds=100))
    ledger.instance = bed.ledger.instance  # this instance looks: for another one it would be gone on SQLite
    assert due(ledger) == []
    late = bed.another(clock=over + timedelta(milliseconds=100))
    late.instance = bed.ledger.instance
    Sweeper(late).settle(due(late)[0])
    lost = look(bed, action)
    assert (lost.status, lost.reason) == (S.UNKNOWN, "Its deadline has passed without an answer.")
    bed.sink.release.set()
    sending.join(15)
    assert look(bed, action).status is S.SUCCEEDED, "late truth"


def test_what_a_service_that_is_gone_had_in_flight_becomes_unknown(bed):
    action, sending = in_flight(bed)
    bed.opened.liveness.release()
    sweep(bed, bed.ledger.store.now())
    assert look(bed, action).reason == "The service that sent it is gone."
    bed.sink.release.set()
    sending.join(15)


def test_one_instance_at_a_time_looks_an_action_up(bed):
    action = unknown(bed)
    when = action.updated_at + timedelta(seconds=2)
    one, other = (bed.another(clock=when).store.look_ups for _ in range(2))
    assert (one.take(action.action_id), other.take(action.action_id)) == (0, None)
    later = bed.another(clock=when + timedelta(seconds=HOLD_SECONDS)).store.look_ups
    assert later.take(action.action_id) == 0, "the one that took it has died on the way"


def test_control_without_taking_it_both_would_ask(bed):
    action = unknown(bed)
    when = action.updated_at + timedelta(seconds=2)
    for ledger in [bed.another(clock=when) for _ in range(2)]:
        Sweeper(ledger)._look_up(action, 1)
    assert bed.sink.lookups == [action.action_id] * 2


def test_a_round_asks_about_so_many_at_most(bed, monkeypatch):
    for n in range(4):
        unknown(bed, f"s{n}")
    monkeypatch.setattr(sweeper, "MOST_IN_A_ROUND", 3)
    when = bed.ledger.store.now() + timedelta(seconds=2)
    assert [sweep(bed, when), sweep(bed, when), sweep(bed, when)] == [3, 1, 0]


def test_the_thread_does_it_and_a_look_up_that_hangs_holds_up_no_other(bed, monkeypatch):
    hanging, release = threading.Event(), threading.Event()
    first = unknown(bed, "first")
    second = unknown(bed, "second", word="lost")
    bed.sink.can_tell = True
    real = bed.sink.lookup

    def lookup(action):
        if action.action_id == first.action_id:
            hanging.set()
            release.wait(20)
        return real(action)

    monkeypatch.setattr(bed.sink, "lookup", lookup)
    sweeping = Sweeper(bed.ledger)
    sweeping.start()
    try:
        assert hanging.wait(15)
        end = time.monotonic() + 15
        while look(bed, second).status is not S.SUCCEEDED:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        sweeping.end()
        began = time.monotonic()
        sweeping.join(time.monotonic() + 0.2)
        assert time.monotonic() - began < 5, "a stop does not wait for it longer than it is given"
        release.set()
        sweeping.join(time.monotonic() + 15)


def test_a_round_that_finds_nothing_is_one_exchange(request, tmp_path):
    with open_bed("postgres", request, tmp_path) as bed:
        sweeping = Sweeper(bed.ledger)
        sweeping.do_round()
        with exchanges() as seen:
            sweeping.do_round()
        assert (seen.count, seen.connections) == (1, 0)


# --- a whole run ------------------------------------------------------------------------------------------------------


def test_a_run_is_reconciled_as_each_of_its_actions_would_be(bed):
    found, absent = unknown(bed, "found", "lost"), unknown(bed, "absent")
    done = bed.put(bed.intent("done"))
    flying, sending = in_flight(bed)
    answers = {a.step: (a.status, a.replayed) for a in bed.ledger.reconcile_run(bed.run_id)}
    assert answers == {"found": (S.SUCCEEDED, True), "absent": (S.UNKNOWN, True), "pay": (S.IN_FLIGHT, True)}
    assert {a.action_id for a in (found, absent)} <= set(bed.sink.lookups)
    assert done.action_id not in bed.sink.lookups
    assert flying.action_id not in bed.sink.lookups
    bed.sink.release.set()
    sending.join(15)
    assert [a.step for a in bed.ledger.reconcile_run(bed.run_id)] == ["absent"]


def test_several_effects_are_named(bed):
    effects = tuple(Applied(provider_id=name, receipt={"n": name}) for name in ("tr_1", "tr_2"))
    assert sweeper.told(sweeper.Several(effects)) == "It is there 2 times: tr_1, tr_2."
