"""The outbox: stored and answered at once, performed by the service, in order where asked, dead letters for people."""

import threading
import time
from datetime import timedelta

import psycopg
import pytest

from onward_ledger import background, errors
from onward_ledger.action import Status
from onward_ledger.database import Unreachable
from onward_ledger.dispatcher import BATCH, Dispatcher
from onward_ledger.providers.interface import ApprovalPolicy, Deadline, ProviderClass
from onward_ledger.store import outbox as store_outbox
from onward_ledger.store.outbox import MOST_ATTEMPTS, Later
from onward_ledger.store.records import Records
from tests.support.exchanges import exchanges
from tests.support.ledger import ENGINES, execute, open_bed

S = Status


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


@pytest.fixture
def postgres(request, tmp_path):
    with open_bed("postgres", request, tmp_path) as bed:
        yield bed


def later(bed, step, *, in_order=False, ledger=None, **more):
    return (ledger or bed.ledger).put(bed.intent(step, **more), propose=False, later=Later(in_order=in_order))


def due(bed, ledger=None):
    ledger = ledger or bed.ledger
    return [each.action.step for each in ledger.store.outbox.due(ledger.approved_kinds, 100)]


def turn(bed, ledger=None):
    """What a dispatcher does with all that is due, one after the other."""
    ledger = ledger or bed.ledger
    dispatcher = Dispatcher(ledger, chance=lambda: 0.0)
    for each in ledger.store.outbox.due(ledger.approved_kinds, BATCH):
        dispatcher.attempt(each)


def look(bed, action):
    return bed.ledger.store.outbox.look(action.action_id)


# --- stored -----------------------------------------------------------------------------------------------------------


def test_it_is_stored_with_its_record_and_answered_at_once(bed):
    action = later(bed, "a")
    assert (action.status, action.replayed, bed.sink.sends) == (S.PREPARED, False, [])
    entry = look(bed, action).outbox
    assert (entry.in_order, entry.attempts, entry.dead_at) == (False, 0, None)
    assert due(bed) == ["a"]


def test_whoever_else_asks_for_it_is_answered_with_the_record(bed):
    action = later(bed, "a")
    again = bed.put(bed.intent("a"))
    assert (again.status, again.replayed, bed.sink.sends) == (S.PREPARED, True, [])
    assert later(bed, "a").version == action.version
    assert bed.words(action) == ["propose"]


def test_another_request_under_its_id_is_a_conflict_as_ever(bed):
    later(bed, "a")
    with pytest.raises(errors.ParamsConflict):
        bed.put(bed.intent("a", amount=6))


def test_what_was_proposed_before_can_be_left_to_the_service(bed):
    bed.put(bed.intent("a"), propose=True)
    assert due(bed) == []
    action = later(bed, "a")
    assert (action.replayed, due(bed)) == (True, ["a"])


def test_what_is_settled_already_does_not_come_into_the_outbox(bed):
    bed.put(bed.intent("a"))
    assert later(bed, "a").status is S.SUCCEEDED
    assert look(bed, bed.put(bed.intent("a"))).outbox is None


def test_nothing_is_stored_for_a_closed_run(bed):
    bed.ledger.store.close_fence(bed.run_id, "anna", "Cancelled.")
    with pytest.raises(errors.FenceClosed):
        later(bed, "a")


# --- performed --------------------------------------------------------------------------------------------------------


def test_the_service_performs_it_and_it_leaves_the_outbox(bed):
    action = later(bed, "a")
    turn(bed)
    done = look(bed, action)
    assert (done.status, done.claims, done.outbox) == (S.SUCCEEDED, 1, None)
    assert bed.words(action) == ["propose", "claim", "record"]
    assert bed.ledger.store.outbox.entries(dead=None, run_id=None, after=None, limit=10) == []


def test_a_transactional_effect_is_performed_too(bed):
    saved = bed.put(bed.draft())
    intent = bed.publication(saved)
    action = bed.ledger.put(intent, propose=False, later=Later())
    turn(bed)
    assert look(bed, action).status is S.PREPARED
    bed.decide(action, "approve")
    turn(bed)
    assert look(bed, action).status is S.SUCCEEDED


def test_its_settlement_is_in_the_feed(bed):
    done, refused = later(bed, "a"), later(bed, "b")
    lost = later(bed, "c")
    bed.sink.script = ["apply", "refuse", "lost"]
    for action in (done, refused, lost):
        bed.ledger.dispatch(action)
    assert look(bed, lost).status is S.UNKNOWN
    bed.ledger.reconcile(lost.action_id)
    feed = [(i.what, i.action_id, i.status) for i in bed.ledger.store.decisions(0, 10).items]
    assert feed == [
        ("resolution", done.action_id, S.SUCCEEDED),
        ("resolution", refused.action_id, S.FAILED),
        ("resolution", lost.action_id, S.SUCCEEDED),
    ]


def test_what_its_caller_performs_tells_the_feed_nothing(bed):
    bed.put(bed.intent("a"))
    assert bed.ledger.store.decisions(0, 10).items == ()


def test_a_newer_epoch_takes_nothing_back(bed):
    """The intention is stored; only a closing withdraws it."""
    action = later(bed, "a")
    bed.ledger.store.announce(bed.run_id, 2, "a new driver")
    with pytest.raises(errors.StaleEpoch):
        bed.put(bed.intent("a"))
    turn(bed)
    done = look(bed, action)
    assert (done.status, done.epoch) == (S.SUCCEEDED, 1)


def test_closing_the_run_withdraws_it(bed):
    action = later(bed, "a", in_order=True)
    bed.ledger.store.close_fence(bed.run_id, "anna", "Cancelled.")
    assert (look(bed, action).status, look(bed, action).outbox, due(bed)) == (S.WITHDRAWN, None, [])
    assert bed.ledger.dispatch(action).status is S.WITHDRAWN, "a dispatcher that has looked before"
    assert bed.sink.sends == []


def test_what_needs_an_approval_is_not_due_before_it_has_one(bed):
    bed.sink.approval = ApprovalPolicy(approvers=2)
    action = later(bed, "a")
    assert due(bed) == []
    bed.decide(action, "approve", principal_asserted=False)
    assert due(bed) == [], "one of two"
    bed.decide(action, "approve", principal="ben", principal_asserted=False)
    assert due(bed) == ["a"]
    turn(bed)
    assert look(bed, action).status is S.SUCCEEDED


def test_an_edit_takes_the_place_of_what_it_edits(bed):
    bed.sink.approval = ApprovalPolicy()
    first, second = (later(bed, step, in_order=True) for step in ("a", "b"))
    bed.decide(second, "approve")
    assert due(bed) == []
    bed.decide(first, "edit", changes={"amount": 7})
    assert due(bed) == ["a"]
    turn(bed)
    turn(bed)
    assert [bed.ledger.store.action(id).rev for id in bed.sink.sends] == [2, 1]
    assert look(bed, second).status is S.SUCCEEDED


def test_an_edit_that_changes_the_resource_comes_last_in_the_other_line(bed):
    bed.sink.approval, bed.sink.editable = ApprovalPolicy(), frozenset({"resource"})
    moved = later(bed, "moved", in_order=True)
    other = later(bed, "other", in_order=True, resource="account/2")
    bed.decide(other, "approve")
    bed.decide(moved, "edit", changes={"resource": "account/2"})
    assert due(bed) == ["other"]
    turn(bed)
    assert due(bed) == ["moved"]


def test_a_held_ledger_stores_and_sends_nothing(bed):
    values = "'7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'"
    execute(bed, f"insert into ledger (ledger_id, made_at, held_at, held_reason) values ({values}, 'It was restored.')")
    action = later(bed, "a")
    assert due(bed) == []
    with pytest.raises(errors.Held):
        bed.ledger.dispatch(action)
    execute(bed, "update ledger set held_at = null, held_reason = null")
    assert due(bed) == ["a"]


def test_a_refusal_is_final(bed):
    action = later(bed, "a")
    bed.sink.script = ["refuse"]
    turn(bed)
    assert (look(bed, action).status, look(bed, action).outbox) == (S.FAILED, None)


def test_an_unknown_outcome_waits_to_be_settled_and_is_sent_again_where_that_is_safe(bed):
    action = later(bed, "a")
    bed.sink.script = ["raise"]
    turn(bed)
    assert (look(bed, action).status, due(bed)) == (S.UNKNOWN, [])
    assert bed.ledger.reconcile(action.action_id).status is S.PREPARED
    assert bed.put(bed.intent("a")).status is S.PREPARED, "it is the service's to send"
    turn(bed)
    assert (look(bed, action).status, bed.sink.sends) == (S.SUCCEEDED, [action.action_id] * 2)


def test_what_its_caller_left_unknown_can_be_left_to_the_service(bed):
    bed.sink.script = ["raise"]
    action = bed.put(bed.intent("a"))
    assert later(bed, "a").status is S.UNKNOWN
    bed.ledger.reconcile(action.action_id)
    turn(bed)
    assert look(bed, action).status is S.SUCCEEDED


# --- in order ---------------------------------------------------------------------------------------------------------


def test_of_a_line_only_the_head_is_due(bed):
    steps = [f"s{n}" for n in range(5)]
    actions = [later(bed, step, in_order=True) for step in steps]
    other = later(bed, "other", in_order=True, resource="account/2")
    later(bed, "free")
    assert set(due(bed)) == {"s0", "other", "free"}
    for _ in steps:
        turn(bed)
    line = [id for id in bed.sink.sends if id in {a.action_id for a in actions}]
    assert line == [action.action_id for action in actions]
    assert look(bed, other).status is S.SUCCEEDED


def test_control_without_order_all_are_due_at_once(bed):
    for n in range(5):
        later(bed, f"s{n}")
    assert len(due(bed)) == 5


@pytest.mark.parametrize("word", ["refuse", "apply"])
def test_a_settled_head_lets_the_next_one_go(bed, word):
    for step in ("a", "b"):
        later(bed, step, in_order=True)
    bed.sink.script = [word]
    turn(bed)
    assert due(bed) == ["b"]


def test_nothing_goes_behind_what_is_in_flight_unknown_put_off_or_dead(bed):
    first = later(bed, "a", in_order=True)
    later(bed, "b", in_order=True)
    bed.sink.script = ["hang"]
    sending = threading.Thread(target=bed.ledger.dispatch, args=[first])
    sending.start()
    assert bed.sink.sending.wait(15)
    assert (look(bed, first).status, due(bed)) == (S.IN_FLIGHT, [])
    bed.sink.release.set()
    sending.join(15)
    assert due(bed) == ["b"]

    bed.sink.script = ["not_sent"]
    later(bed, "c", in_order=True)
    turn(bed)
    assert due(bed) == [], "b is put off"
    second = look(bed, bed.put(bed.intent("b")))
    bed.ledger.store.outbox.bury(second.action_id, attempts=1, reason="told so", instance=bed.ledger.instance)
    assert due(bed, bed.another(clock=bed.ledger.store.now() + timedelta(hours=1))) == []
    bed.ledger.store.withdraw(second.action_id, "anna", "No longer wanted.")
    assert due(bed) == ["c"]


def test_the_order_is_that_of_the_commits_whatever_the_clock_says(bed):
    now = bed.ledger.store.now()
    for n, hours in enumerate((0, -2, -1, -2, 0)):
        later(bed, f"s{n}", in_order=True, ledger=bed.another(clock=now + timedelta(hours=hours)))
    turns = []
    for _ in range(5):
        turns += due(bed)
        turn(bed)
    assert turns == ["s0", "s1", "s2", "s3", "s4"]


def test_who_stores_into_a_line_waits_for_the_one_before(postgres):
    """So that nothing that commits later comes before what was sent already."""
    bed, stored = postgres, []
    first = bed.put(bed.intent("a"), propose=True)
    with bed.opened.database.transaction() as tx:
        records = Records(tx)
        action, _ = records.lock(first.action_id)
        tx.at_once(*store_outbox.entering(action, Later(in_order=True)))
        second = threading.Thread(target=lambda: stored.append(later(bed, "b", in_order=True)))
        second.start()
        with psycopg.connect(bed.opened.database.conninfo) as watching:
            query = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            while watching.execute(query).fetchone()[0] == 0:
                assert second.is_alive(), "it did not wait"
        assert later(bed, "c", in_order=True, resource="account/2").status is S.PREPARED, "another line does not wait"
    second.join(15)
    entries = bed.ledger.store.outbox.entries(dead=None, run_id=None, after=None, limit=10)
    assert [e.step for e in entries if e.resource == "account/1"] == ["a", "b"]


# --- back-off and dead letters ----------------------------------------------------------------------------------------


def test_it_is_tried_again_after_doubling_pauses_and_is_dead_behind_the_last_attempt(bed):
    action = later(bed, "a")
    bed.sink.script = ["not_sent"] * MOST_ATTEMPTS
    now, pauses = bed.ledger.store.now() + timedelta(minutes=1), []
    for _ in range(MOST_ATTEMPTS):
        turn(bed, bed.another(clock=now))
        entry = look(bed, action).outbox
        if entry.dead_at is None:
            pauses.append((entry.dispatch_at - now).total_seconds())
            assert due(bed, bed.another(clock=entry.dispatch_at - timedelta(microseconds=1))) == []
        now = entry.dispatch_at
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, *[60] * 12]
    dead = look(bed, action)
    assert (dead.status, dead.outbox.attempts, len(bed.sink.sends)) == (S.PREPARED, 20, 20)
    assert dead.outbox.dead_reason == "It was not sent in 20 attempts. The last time: the sink is down"
    assert bed.ledger.store.events(action.action_id)[-1].word == "dead"
    assert due(bed, bed.another(clock=now + timedelta(days=1))) == []


def test_what_failed_together_is_not_tried_again_together(bed):
    action = later(bed, "a")
    bed.sink.script = ["not_sent"]
    now = bed.ledger.store.now() + timedelta(minutes=1)
    another = bed.another(clock=now)
    Dispatcher(another, chance=lambda: 1.0).attempt(another.store.outbox.due([], 1)[0])
    assert look(bed, action).outbox.dispatch_at == now + timedelta(seconds=0.5 * 1.25)


def test_a_person_lets_a_dead_letter_be_tried_again(bed):
    action = later(bed, "a")
    bed.ledger.store.outbox.bury(action.action_id, attempts=20, reason="told so", instance=bed.ledger.instance)
    assert bed.put(bed.intent("a")).status is S.PREPARED, "nobody else sends it meanwhile"
    assert bed.sink.sends == []
    for _ in range(2):
        again = bed.ledger.store.outbox.retry(action.action_id, principal="anna", reason="It is back.")
        assert again.status is S.PREPARED
    assert bed.words(action) == ["propose", "dead", "retry"], "the second time it was not dead"
    event = bed.ledger.store.events(action.action_id)[-1]
    assert (event.principal, event.reason, look(bed, action).outbox.attempts) == ("anna", "It is back.", 0)
    turn(bed)
    assert look(bed, action).status is S.SUCCEEDED
    assert bed.ledger.store.outbox.retry(action.action_id, principal="anna", reason=None).status is S.SUCCEEDED


def test_only_the_outbox_has_dead_letters(bed):
    action = bed.put(bed.intent("a"), propose=True)
    with pytest.raises(errors.Conflict, match="its caller performs it"):
        bed.ledger.store.outbox.retry(action.action_id, principal="anna", reason=None)
    with pytest.raises(errors.NotFound):
        bed.ledger.store.outbox.retry(bed.run_id, principal="anna", reason=None)


def test_what_its_provider_takes_no_more_is_dead_at_once(bed, monkeypatch):
    action = later(bed, "a")

    def refuse(run_id, resource, params):
        raise errors.BadRequest("amounts are strings now.")

    monkeypatch.setattr(bed.sink, "validate", refuse)
    turn(bed)
    dead = look(bed, action)
    assert (dead.status, dead.outbox.attempts) == (S.PREPARED, 0)
    assert dead.outbox.dead_reason == "Its provider does not take it: amounts are strings now."


def test_a_kind_that_has_no_provider_any_more_is_tried_as_a_provider_that_is_down(bed):
    """Another service of the same database may have one."""
    action = later(bed, "a")
    del bed.ledger._providers["test.sink"]
    turn(bed)
    entry = look(bed, action).outbox
    assert (entry.attempts, entry.dead_at, bed.sink.sends) == (1, None, [])
    execute(bed, f"update outbox set attempts = {MOST_ATTEMPTS - 1}, dispatch_at = stored_at")
    turn(bed)
    assert look(bed, action).outbox.dead_reason.endswith("There is no provider for the kind test.sink.")


def test_an_attempt_that_nobody_survived_is_counted(bed):
    action = later(bed, "a")
    bed.sink.script = ["raise"]
    bed.ledger.dispatch(action)
    assert look(bed, action).outbox.attempts == 1, "the claim counts it, whatever becomes of the process"
    execute(bed, f"update outbox set attempts = {MOST_ATTEMPTS}")
    bed.ledger.reconcile(action.action_id)
    turn(bed)
    assert look(bed, action).outbox.dead_reason == "It was not sent in 20 attempts."


def test_an_unexpected_error_is_an_attempt(bed, monkeypatch, caplog):
    action = later(bed, "a")
    monkeypatch.setattr(bed.sink, "validate", lambda *_: 1 / 0)
    turn(bed)
    assert look(bed, action).outbox.attempts == 1
    assert "could not be dispatched" in caplog.text


# --- threads ----------------------------------------------------------------------------------------------------------


def until(condition):
    end = threading.Event()
    for _ in range(2000):
        if condition():
            return
        end.wait(0.01)
    raise AssertionError("the condition did not come true")


def working(*ledgers, threads=8):
    dispatchers = [Dispatcher(ledger, threads=threads) for ledger in ledgers]
    for dispatcher in dispatchers:
        dispatcher.start()
    return dispatchers


def settled(bed):
    return not bed.ledger.store.outbox.entries(dead=None, run_id=None, after=None, limit=1)


def stop(dispatchers):
    for dispatcher in dispatchers:
        dispatcher.end()
        dispatcher.join(time.monotonic() + 15)


def test_two_services_send_two_hundred_actions_once_and_each_line_in_order(postgres):
    bed, lines = postgres, 20
    bed.sink.provider_class = ProviderClass.QUERYABLE  # it has no mercy with a second send
    other = bed.another()
    bed._others[-1].liveness.hold()
    actions = [later(bed, f"s{n}", in_order=True, resource=f"account/{n % lines}") for n in range(200)]
    other.stored.set()
    dispatchers = working(bed.ledger, other)
    until(lambda: settled(bed))
    stop(dispatchers)
    assert len(bed.sink.effects) == len(set(bed.sink.sends)) == 200
    place = {action_id: n for n, action_id in enumerate(bed.sink.sends)}
    for line in range(lines):
        places = [place[action.action_id] for action in actions[line::lines]]
        assert places == sorted(places)
    instances = {a.instance for a in bed.ledger.store.actions(run_id=bed.run_id, limit=200)}
    assert instances == {bed.ledger.instance, other.instance}, "both had a part in it"


def test_control_without_the_compare_and_set_two_services_send_twice(postgres):
    """A dispatcher that sends what it has seen PREPARED, as a naive one would."""
    bed = postgres
    bed.sink.provider_class = ProviderClass.QUERYABLE
    for n in range(20):
        later(bed, f"s{n}")
    seen, meeting = bed.ledger.store.outbox.due([], 100), threading.Barrier(2)

    def naive(ledger):
        for each in seen:
            meeting.wait(15)
            if ledger.store.action(each.action.action_id).status is S.PREPARED:
                bed.sink.send(each.action, Deadline(10))

    naives = [threading.Thread(target=naive, args=[ledger]) for ledger in (bed.ledger, bed.another())]
    for thread in naives:
        thread.start()
    for thread in naives:
        thread.join(15)
    assert len(bed.sink.effects) > len(set(bed.sink.effects))


def test_storing_wakes_the_dispatcher(bed):
    dispatchers = working(bed.ledger)
    later(bed, "a")
    assert bed.sink.sending.wait(0.9), "before its first look by the clock"
    until(lambda: settled(bed))
    stop(dispatchers)


def test_sends_are_in_parallel_up_to_a_bound(bed):
    bed.sink.script = ["hang"] * 3
    for n in range(3):
        later(bed, f"s{n}")
    dispatchers = working(bed.ledger, threads=2)
    until(lambda: len(bed.sink.effects) == 2)
    assert len(bed.sink.sends) == 2
    bed.sink.release.set()
    until(lambda: settled(bed))
    stop(dispatchers)
    assert len(bed.sink.sends) == 3


def test_a_look_that_finds_nothing_is_one_exchange(postgres):
    dispatcher = Dispatcher(postgres.ledger)
    dispatcher.do_round()
    with exchanges() as seen:
        dispatcher.do_round()
    assert (seen.count, seen.connections) == (1, 0)


def test_a_lost_database_is_told_once_and_tried_again(bed, monkeypatch, caplog):
    monkeypatch.setattr(background, "ROUND_SECONDS", 0.01)
    real, asked = bed.ledger.store.outbox.due, []

    def lost(*arguments):
        asked.append(arguments)
        if len(asked) < 5:
            raise Unreachable("The connection was lost.")
        return real(*arguments)

    monkeypatch.setattr(bed.ledger.store.outbox, "due", lost)
    later(bed, "a")
    dispatchers = working(bed.ledger)
    until(lambda: settled(bed))
    stop(dispatchers)
    assert caplog.text.count("The connection was lost.") == 1
