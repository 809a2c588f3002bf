"""The records over both engines: every transition, every refusal, replay, conflict, unknown outcomes, late truth."""

import sqlite3
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.audit import broken_at, event_hash
from onward_ledger.database import Unreachable
from onward_ledger.providers.interface import Absent, Applied, NotSent, ProviderClass, Refused
from onward_ledger.store.claims import Call, Claimed
from onward_ledger.store.operators import Resolution
from onward_ledger.store.records import Cause, Records
from tests.support.ledger import ENGINES, execute, open_bed


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


def claim(bed, intent=None, *, ledger=None):
    """Begin and go no further: what a service leaves that dies between the claim and the send."""
    ledger = ledger or bed.ledger
    intent = intent or bed.intent()
    call = Call(intent=intent, provider=bed.sink, propose=False, sender=ledger.sender)
    ledger.performing.add(call.claim_token)
    step = ledger.store.begin(call)
    assert isinstance(step, Claimed)
    return step.action


def settled(bed, action):
    """The record, after its history was found whole."""
    found = bed.ledger.store.action(action.action_id)
    assert broken_at(found, bed.ledger.store.events(found.action_id)) is None
    return found


def test_a_fresh_action_is_sent_once_and_keeps_its_receipt(bed):
    action = bed.put(bed.intent())
    assert (action.status, action.replayed, action.claims) == (Status.SUCCEEDED, False, 1)
    assert action.receipt == {"params": {"amount": 5}}
    assert action.first_sent_at == action.created_at or action.first_sent_at > action.created_at
    assert bed.words(action) == ["propose", "claim", "record"]
    assert settled(bed, action).version == 3


def test_the_same_again_is_replayed_and_sends_nothing(bed):
    first = bed.put(bed.intent())
    again = bed.put(bed.intent())
    assert again == replace(first, replayed=True)
    assert bed.sink.sends == [first.action_id]
    assert settled(bed, first).version == first.version


def test_what_is_recorded_is_replayed_although_a_newer_version_would_not_record_it(bed, monkeypatch):
    first = bed.put(bed.intent())

    def stricter(*_):
        raise errors.BadRequest("accounts have a country now")

    monkeypatch.setattr(bed.sink, "validate", stricter)
    assert bed.put(bed.intent()).receipt == first.receipt
    with pytest.raises(errors.BadRequest):
        bed.put(bed.intent("other"))


def test_a_failed_action_is_final_and_replayed(bed):
    bed.sink.script = ["refuse"]
    action = bed.put(bed.intent())
    assert (action.status, action.reason) == (Status.FAILED, "the sink refuses")
    again = bed.put(bed.intent())
    assert (again.status, again.replayed, len(bed.sink.sends)) == (Status.FAILED, True, 1)
    assert settled(bed, action).receipt is None


@pytest.mark.parametrize("state", ["SUCCEEDED", "PREPARED", "IN_FLIGHT", "UNKNOWN", "WITHDRAWN"])
def test_the_same_id_with_another_request_is_refused_in_every_state(bed, state):
    match state:
        case "SUCCEEDED":
            bed.put(bed.intent())
        case "IN_FLIGHT":
            claim(bed)
        case "UNKNOWN":
            bed.sink.script, bed.sink.can_tell = ["raise"], False
            bed.put(bed.intent())
        case _:
            action = bed.put(bed.intent(), propose=True)
            if state == "WITHDRAWN":
                bed.ledger.store.withdraw(action.action_id, "anna", "not wanted")
    sent = len(bed.sink.sends)
    for other in (bed.intent(amount=6), bed.intent(resource="account/2")):
        with pytest.raises(errors.ParamsConflict) as refused:
            bed.put(other)
        assert refused.value.action.params == {"amount": 5}
        assert refused.value.action.status == state
    assert len(bed.sink.sends) == sent


def test_propose_stops_before_the_send_and_is_harmless_to_repeat(bed):
    action = bed.put(bed.intent(), propose=True)
    again = bed.put(bed.intent(), propose=True)
    assert (action.status, again.status, again.version) == (Status.PREPARED, Status.PREPARED, 1)
    assert bed.sink.sends == []
    assert bed.put(bed.intent()).status is Status.SUCCEEDED
    assert bed.put(bed.intent(), propose=True).status is Status.SUCCEEDED


def test_definitely_not_sent_goes_back_to_prepared_and_waits(bed):
    bed.sink.script = ["not_sent"]
    with pytest.raises(errors.NotApplied) as first:
        bed.put(bed.intent())
    assert first.value.action.status is Status.PREPARED
    assert 0 < first.value.retry_after_seconds <= 0.5
    with pytest.raises(errors.NotApplied, match="the sink is down"):
        bed.put(bed.intent())
    assert len(bed.sink.sends) == 1, "within the back-off nothing is sent"
    later = bed.another(clock=bed.ledger.store.now() + timedelta(seconds=1))
    action = later.put(bed.intent(), propose=False)
    assert (action.status, action.claims) == (Status.SUCCEEDED, 2)
    assert bed.words(action) == ["propose", "claim", "unsend", "claim", "record"]


def test_back_off_doubles_up_to_its_limit(bed):
    bed.sink.script = ["not_sent"] * 9
    now = bed.ledger.store.now()
    waits = []
    for _ in range(9):
        with pytest.raises(errors.NotApplied):
            bed.another(clock=now).put(bed.intent(), propose=False)
        action = bed.ledger.store.action(bed.intent().key.action_id)
        waits.append((action.not_before_at - now).total_seconds())
        now = action.not_before_at
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_a_lost_answer_is_unknown_then_found(bed):
    bed.sink.script = ["lost"]
    action = bed.put(bed.intent())
    assert (action.status, bed.sink.effects) == (Status.UNKNOWN, [action.action_id])
    again = bed.put(bed.intent())
    assert (again.status, again.replayed, len(bed.sink.sends)) == (Status.SUCCEEDED, True, 1)
    assert bed.words(action) == ["propose", "claim", "lose", "find"]
    settled(bed, action)


def test_a_lost_request_is_unknown_then_sent_again_in_the_same_call(bed):
    bed.sink.script = ["raise"]
    assert bed.put(bed.intent()).status is Status.UNKNOWN
    action = bed.put(bed.intent())
    assert (action.status, action.replayed, action.claims) == (Status.SUCCEEDED, False, 2)
    assert bed.words(action) == ["propose", "claim", "lose", "unsend", "claim", "record"]
    assert bed.sink.effects == [action.action_id]


def test_a_look_up_is_believed_only_if_the_record_has_not_moved_since_it_was_asked(bed):
    """A look-up that was under way during a second send must not grant a third."""
    bed.sink.script = ["raise", "raise"]
    first = bed.put(bed.intent())
    second = bed.put(bed.intent())
    assert (second.status, second.claims) == (Status.UNKNOWN, 2)
    late = bed.ledger.store.settle(first, Absent(), bed.sink, Cause(), asked_at=bed.ledger.store.now())
    assert (late.status, late.version) == (Status.UNKNOWN, second.version)


def test_the_first_send_is_remembered_over_later_ones(bed):
    """The provider's memory of the key began with it."""
    bed.sink.script = ["raise"]
    first = bed.put(bed.intent())
    done = bed.another(clock=first.first_sent_at + timedelta(hours=1)).put(bed.intent(), propose=False)
    assert (done.first_sent_at, done.claims) == (first.first_sent_at, 2)


def test_what_the_provider_cannot_tell_stays_unknown(bed):
    bed.sink.provider_class = ProviderClass.QUERYABLE
    bed.sink.script, bed.sink.can_tell = ["lost"], False
    action = bed.put(bed.intent())
    assert bed.put(bed.intent()).status is Status.UNKNOWN
    assert bed.ledger.reconcile(action.action_id).status is Status.UNKNOWN
    assert len(bed.sink.sends) == 1
    bed.sink.can_tell = True
    assert bed.ledger.reconcile(action.action_id).status is Status.SUCCEEDED


@pytest.mark.parametrize("provider_class", [ProviderClass.QUERYABLE, ProviderClass.OPAQUE])
def test_absent_is_no_permission_to_resend_where_the_provider_does_not_dedup(bed, provider_class):
    bed.sink.provider_class = provider_class
    bed.sink.script = ["raise"]
    assert bed.put(bed.intent()).status is Status.UNKNOWN
    again = bed.put(bed.intent())
    assert (again.status, again.replayed, len(bed.sink.sends)) == (Status.UNKNOWN, True, 1)


def test_an_idempotency_key_that_may_be_forgotten_is_not_used_again(bed, monkeypatch):
    monkeypatch.setattr(bed.sink, "key_lifetime_seconds", 3600.0, raising=False)
    monkeypatch.setattr(bed.sink, "request_lifetime_seconds", 60.0, raising=False)
    bed.sink.script = ["raise"]
    action = bed.put(bed.intent())
    late = bed.another(clock=action.first_sent_at + timedelta(seconds=3600 - 60 - 30))
    assert late.put(bed.intent(), propose=False).status is Status.UNKNOWN
    in_time = bed.another(clock=action.first_sent_at + timedelta(seconds=3600 - 60 - 31))
    assert in_time.put(bed.intent(), propose=False).status is Status.SUCCEEDED


def test_in_flight_within_its_deadline_is_in_progress(bed):
    action = claim(bed)
    with pytest.raises(errors.InProgress) as busy:
        bed.put(bed.intent())
    assert busy.value.retry_after_seconds > 0
    with pytest.raises(errors.InProgress):
        bed.ledger.reconcile(action.action_id)
    assert bed.sink.lookups == []


def test_in_flight_behind_its_deadline_is_unknown_first_and_then_looked_up(bed):
    action = claim(bed)
    bed.sink._apply(action)
    late = same_instance_at(bed, action.deadline_at)
    found = late.put(bed.intent(), propose=False)
    assert (found.status, bed.words(action)) == (Status.SUCCEEDED, ["propose", "claim", "lose", "find"])
    assert bed.sink.sends == []


def same_instance_at(bed, clock):
    """The same instance with another clock: its own claims are judged by their deadline alone."""
    ledger = bed.another(clock=clock)
    ledger.instance, ledger.performing = bed.ledger.instance, bed.ledger.performing
    return ledger


def test_a_deadline_a_moment_away_is_not_over(bed):
    action = claim(bed)
    with pytest.raises(errors.InProgress):
        same_instance_at(bed, action.deadline_at - timedelta(microseconds=1)).put(bed.intent(), propose=False)


def test_a_claim_that_no_thread_of_its_own_instance_holds_is_an_orphan(bed):
    """The commit of the claim came through, its answer did not; nobody is performing it."""
    action = claim(bed)
    bed.ledger.performing.clear()
    assert bed.put(bed.intent()).status is Status.SUCCEEDED
    assert bed.words(action) == ["propose", "claim", "lose", "unsend", "claim", "record"]
    assert bed.ledger.performing == set()


def test_what_a_gone_instance_left_in_flight_is_unknown_at_once(bed):
    dead = dead_instance(bed)
    action = claim(bed, ledger=dead)
    assert bed.ledger.store.lose_gone(bed.ledger.sender) == 1
    assert settled(bed, action).status is Status.UNKNOWN
    assert bed.ledger.store.lose_gone(bed.ledger.sender) == 0


def test_a_gone_instance_is_also_noticed_when_its_action_is_met(bed):
    action = claim(bed, ledger=dead_instance(bed))
    assert bed.put(bed.intent()).status is Status.SUCCEEDED
    assert bed.words(action) == ["propose", "claim", "lose", "unsend", "claim", "record"]


def dead_instance(bed):
    """An instance that holds nothing: neither a session's lock nor the lock file."""
    return bed.another()


def test_a_living_instance_is_not_taken_for_gone(request, tmp_path):
    with open_bed("postgres", request, tmp_path) as bed:
        other = bed.another()
        bed._others[-1].liveness.hold()
        action = claim(bed, ledger=other)
        assert bed.ledger.store.lose_gone(bed.ledger.sender) == 0
        with pytest.raises(errors.InProgress):
            bed.put(bed.intent())
        bed._others[-1].liveness.release()
        assert bed.put(bed.intent()).status is Status.SUCCEEDED
        assert "lose" in bed.words(action)


def test_late_truth_is_accepted_at_any_epoch(bed):
    action = claim(bed)
    bed.ledger.store.lose(action, Cause(reason="gave up"))
    bed.ledger.store.announce(bed.run_id, 7, "newer driver")
    late = bed.ledger.store.record(action, bed.sink.applied(action), Cause())
    assert (late.status, late.alarm) == (Status.SUCCEEDED, None)
    assert bed.words(action) == ["propose", "claim", "lose", "record"]


def test_late_truth_of_an_earlier_claim_settles_the_action_and_the_second_send_agrees(bed):
    first = claim(bed)
    bed.ledger.store.lose(first, Cause(reason="gave up"))
    bed.ledger.reconcile(first.action_id)
    second = claim(bed)
    assert second.claim_token != first.claim_token
    assert bed.ledger.store.record(first, bed.sink.applied(first), Cause()).status is Status.SUCCEEDED
    agreed = bed.ledger.store.record(second, bed.sink.applied(second), Cause())
    assert (agreed.status, agreed.alarm, bed.words(first)[-1]) == (Status.SUCCEEDED, None, "record")


def test_late_truth_that_contradicts_the_record_is_kept_and_alarms(bed):
    action = claim(bed)
    bed.ledger.store.lose(action, Cause(reason="gave up"))
    word = resolution(bed, action, Status.FAILED)
    assert bed.ledger.store.resolve(word).status is Status.FAILED
    late = bed.ledger.store.record(action, bed.sink.applied(action), Cause())
    assert (late.status, bed.words(action)[-1]) == (Status.FAILED, "duplicate")
    assert "happened" in late.alarm
    assert bed.ledger.store.events(action.action_id)[-1].detail["provider_id"].startswith("sink-")
    settled(bed, action)


def test_two_different_effects_for_one_action_are_never_hidden(bed):
    first = claim(bed)
    bed.ledger.store.lose(first, Cause(reason="gave up"))
    bed.ledger.reconcile(first.action_id)
    second = claim(bed)
    bed.ledger.store.record(second, Applied(provider_id="b", receipt={"n": 2}), Cause())
    late = bed.ledger.store.record(first, Applied(provider_id="a", receipt={"n": 1}), Cause())
    assert (late.provider_id, late.status, bed.words(first)[-1]) == ("b", Status.SUCCEEDED, "duplicate")
    assert late.alarm is not None


@pytest.mark.parametrize("outcome", [Refused("no"), NotSent("down")])
def test_a_sender_that_denies_what_an_operator_confirmed_alarms(bed, outcome):
    action = claim(bed)
    bed.ledger.store.lose(action, Cause(reason="gave up"))
    bed.ledger.store.resolve(resolution(bed, action, Status.SUCCEEDED))
    late = bed.ledger.store.record(action, outcome, Cause())
    assert (late.status, bed.words(action)[-1]) == (Status.SUCCEEDED, "contradiction")
    assert late.alarm is not None


@pytest.mark.parametrize(("outcome", "after"), [(Refused("no"), Status.FAILED), (NotSent("down"), Status.PREPARED)])
def test_the_senders_own_late_answer_settles_an_unknown(bed, outcome, after):
    action = claim(bed)
    bed.ledger.store.lose(action, Cause(reason="gave up"))
    assert bed.ledger.store.record(action, outcome, Cause()).status is after
    settled(bed, action)


def test_an_earlier_claims_refusal_says_nothing_about_the_later_one(bed):
    first = claim(bed)
    bed.ledger.store.lose(first, Cause(reason="gave up"))
    bed.ledger.reconcile(first.action_id)
    claim(bed)
    late = bed.ledger.store.record(first, Refused("no"), Cause())
    assert (late.status, bed.words(first)[-1]) == (Status.IN_FLIGHT, "late")


def test_a_send_behind_its_hard_deadline_is_unknown_and_its_answer_is_late_truth(bed, monkeypatch):
    monkeypatch.setattr(bed.sink, "deadline_seconds", 0.05, raising=False)
    bed.sink.script = ["hang"]
    action = bed.put(bed.intent())
    assert (action.status, action.reason) == (Status.UNKNOWN, "No answer within 0.05 s.")
    bed.sink.release.set()
    wait_for(lambda: bed.ledger.store.action(action.action_id).status is Status.SUCCEEDED)
    assert bed.words(action) == ["propose", "claim", "lose", "record"]


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


def test_a_process_suspended_right_behind_its_claim_sends_nothing(bed, monkeypatch):
    monkeypatch.setattr(bed.sink, "deadline_seconds", 0.05, raising=False)
    real = bed.ledger.store.begin

    def suspended(call):
        step = real(call)
        time.sleep(0.06)
        return step

    monkeypatch.setattr(bed.ledger.store, "begin", suspended)
    action_id = bed.intent().key.action_id
    with suppress(errors.NotApplied):
        bed.put(bed.intent())
    wait_for(lambda: bed.ledger.store.action(action_id).status is Status.PREPARED)
    assert (bed.sink.sends, bed.sink.effects) == ([], [])


def test_a_send_that_starts_too_late_sends_nothing(bed, monkeypatch):
    """As in a process that was suspended in mid-send, before it wrote."""
    monkeypatch.setattr(bed.sink, "deadline_seconds", 0.05, raising=False)
    woken, real = threading.Event(), bed.sink.send

    def suspended(action, deadline):
        woken.wait(10)
        return real(action, deadline)

    monkeypatch.setattr(bed.sink, "send", suspended)
    action = bed.put(bed.intent())
    assert action.status is Status.UNKNOWN
    woken.set()
    wait_for(lambda: bed.ledger.store.action(action.action_id).status is Status.PREPARED)
    assert (bed.sink.sends, bed.sink.effects) == ([], [])


def resolution(bed, action, status, **more):
    version = bed.ledger.store.action(action.action_id).version
    receipt = {"provider_id": "by hand"} if status is Status.SUCCEEDED else None
    members = {"expected_version": version, "receipt": receipt, "reason": "looked", "principal": "anna"} | more
    return Resolution(action_id=action.action_id, status=status, **members)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED])
def test_an_operator_settles_an_unknown_and_may_say_so_twice(bed, status):
    action = claim(bed)
    bed.ledger.store.lose(action, Cause(reason="gave up"))
    word = resolution(bed, action, status)
    first = bed.ledger.store.resolve(word)
    again = bed.ledger.store.resolve(word)
    assert (first.status, first.reason, again.version) == (status, "looked", first.version)
    feed = bed.ledger.store.decisions(0, 10)
    assert [(item.what, item.status) for item in feed.items] == [("resolution", status)]
    settled(bed, action)


def test_an_operators_word_on_a_record_that_moved_on_is_refused(bed):
    action = claim(bed)
    bed.ledger.store.lose(action, Cause(reason="gave up"))
    word = resolution(bed, action, Status.FAILED)
    bed.ledger.reconcile(action.action_id)
    with pytest.raises(errors.VersionConflict) as moved:
        bed.ledger.store.resolve(word)
    assert moved.value.action.status is Status.PREPARED
    other = replace(word, status=Status.SUCCEEDED, receipt={"x": 1})
    with pytest.raises(errors.VersionConflict):
        bed.ledger.store.resolve(other)


@pytest.mark.parametrize("state", ["PREPARED", "IN_FLIGHT", "SUCCEEDED"])
def test_only_an_unknown_can_be_resolved(bed, state):
    match state:
        case "PREPARED":
            action = bed.put(bed.intent(), propose=True)
        case "IN_FLIGHT":
            action = claim(bed)
        case _:
            action = bed.put(bed.intent())
    with pytest.raises(errors.Conflict, match="Only an UNKNOWN"):
        bed.ledger.store.resolve(resolution(bed, action, Status.FAILED))


@pytest.mark.parametrize(
    "bad", [{"status": Status.UNKNOWN}, {"status": Status.SUCCEEDED, "receipt": None}, {"receipt": {"a": 1}}]
)
def test_a_resolution_that_cannot_be_meant_is_a_bad_request(bed, bad):
    action = claim(bed)
    word = replace(resolution(bed, action, Status.FAILED), **bad)
    with pytest.raises(errors.BadRequest):
        bed.ledger.store.resolve(word)


def test_withdraw_takes_back_what_is_prepared_only(bed):
    action = bed.put(bed.intent(), propose=True)
    gone = bed.ledger.store.withdraw(action.action_id, "anna", "not wanted")
    assert (gone.status, gone.reason) == (Status.WITHDRAWN, "not wanted")
    assert bed.ledger.store.withdraw(action.action_id, "anna", "again").version == gone.version
    replay = bed.put(bed.intent())
    assert (replay.status, replay.replayed, bed.sink.sends) == (Status.WITHDRAWN, True, [])
    done = bed.put(bed.intent("other"))
    with pytest.raises(errors.TooLate):
        bed.ledger.store.withdraw(done.action_id, "anna", "too late")


def test_one_revision_is_live_at_a_time(bed):
    first = bed.put(bed.intent(), propose=True)
    with pytest.raises(errors.OtherRevision) as other:
        bed.put(bed.intent(rev=2))
    assert other.value.action.action_id == first.action_id
    bed.ledger.store.withdraw(first.action_id, None, "replaced")
    assert bed.put(bed.intent(rev=2)).status is Status.SUCCEEDED


def test_an_unknown_action_is_not_found(bed):
    nobody = bed.intent().key.action_id
    for call in (
        lambda: bed.ledger.store.action(nobody),
        lambda: bed.ledger.store.events(nobody),
        lambda: bed.ledger.reconcile(nobody),
        lambda: bed.ledger.store.withdraw(nobody, None, "x"),
        lambda: bed.ledger.store.resolve(
            Resolution(action_id=nobody, status=Status.FAILED, reason="x", expected_version=1, principal="a")
        ),
    ):
        with pytest.raises(errors.NotFound):
            call()


def test_lists_are_in_order_and_paged(bed):
    made = [bed.put(bed.intent(f"s{n}"), propose=True).action_id for n in range(7)]
    bed.put(bed.intent("done"))
    listed, after = [], None
    while page := bed.ledger.store.actions(run_id=bed.run_id, status=Status.PREPARED, after=after, limit=3):
        listed += [action.action_id for action in page]
        after = listed[-1]
    assert listed == made
    assert [a.step for a in bed.ledger.store.actions(status=Status.SUCCEEDED)] == ["done"]
    assert bed.ledger.store.actions(run_id="00000000-0000-0000-0000-000000000000") == []


def test_history_is_append_only_and_the_intent_never_changes(bed):
    action = bed.put(bed.intent())
    for statement in (
        "update action_events set reason = 'x'",
        "delete from action_events",
        "update actions set resource = 'x'",
        "update actions set params = '{}'",
        "update actions set status = 'FAILED', receipt = null",
    ):
        with pytest.raises(Exception, match=r"append-only|never changes|final"):
            execute(bed, statement)
    assert settled(bed, action).status is Status.SUCCEEDED


def test_a_changed_history_breaks_the_chain(bed):
    action = bed.put(bed.intent())
    events = bed.ledger.store.events(action.action_id)
    assert broken_at(action, events) is None
    assert broken_at(action, [replace(events[0], reason="changed"), *events[1:]]) == 1
    assert broken_at(action, [events[0], events[2]]) == 2
    assert broken_at(action, events[:-1]) == 3
    assert broken_at(action, [events[1], events[0], events[2]]) == 1
    assert broken_at(replace(action, head=events[1].hash), events) == 4
    forged = replace(events[1], reason="forged")
    forged = replace(forged, hash=event_hash(forged))
    assert broken_at(action, [events[0], forged, events[2]]) == 3, "the next one still names the true hash"


def test_a_record_that_moved_since_it_was_read_is_not_written(bed):
    """The rows are locked, so only a bug can come here; the compare-and-set turns it into an error."""
    action = bed.put(bed.intent(), propose=True)
    refused = (psycopg.errors.NotNullViolation, sqlite3.IntegrityError)
    with pytest.raises(refused, match="seq"), bed.opened.database.transaction() as tx:
        records = Records(tx)
        records.next_seq()
        records.move(replace(action, version=7), "withdraw", Status.WITHDRAWN, records.now(), Cause(reason="x"))
    stands = settled(bed, action)
    assert (stands.status, stands.version, stands.events) == (Status.PREPARED, action.version, action.events)
    assert [event.word for event in bed.ledger.store.events(action.action_id)] == ["propose"]


def test_what_a_transition_answers_is_what_is_recorded(bed):
    """The answer is made of what was sent; a look at the record afterwards finds the same in every field."""
    proposed = bed.put(bed.intent("a"), propose=True)
    saved = bed.put(bed.draft())
    waiting = bed.put(bed.publication(saved))
    bed.sink.script = ["refuse"]
    failed = bed.put(bed.intent("b"))
    bed.sink.script = ["lost"]
    unknown = bed.put(bed.intent("c"))
    withdrawn = bed.ledger.store.withdraw(proposed.action_id, "anna", "not needed")
    for answer in (saved, waiting, failed, unknown, withdrawn):
        recorded = bed.ledger.store.action(answer.action_id)
        assert answer.reason == recorded.reason or answer is waiting, "why it waits is said and not recorded"
        told = replace(answer, replayed=recorded.replayed, decision=recorded.decision, reason=recorded.reason)
        assert told.to_json() == recorded.to_json()


def test_a_crash_before_the_commit_leaves_nothing(bed, monkeypatch):
    """The row is absent or PREPARED, and the same id is simply asked for again."""

    def fail(*_, **__):
        raise Unreachable("the connection was cut")

    monkeypatch.setattr(type(bed.opened.database), "at_once", fail)
    with pytest.raises(Unreachable):
        bed.put(bed.intent())
    monkeypatch.undo()
    assert bed.ledger.store.actions() == []
    assert bed.put(bed.intent()).status is Status.SUCCEEDED


def test_a_receipt_in_hand_is_recorded_when_the_database_comes_back(bed, monkeypatch):
    real = type(bed.ledger.store).record
    down = [2]

    def record(self, *args, **more):
        if down[0]:
            down[0] -= 1
            raise Unreachable("the server is restarting")
        return real(self, *args, **more)

    monkeypatch.setattr(type(bed.ledger.store), "record", record)
    action = bed.put(bed.intent())
    assert (action.status, down, len(bed.sink.sends)) == (Status.SUCCEEDED, [0], 1)
