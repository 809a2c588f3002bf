"""Unknown outcomes: what each provider class does with one, with none, with several, and with "cannot tell".

The sink can be told to answer anything; times are set on the database's clock.
"""

from datetime import timedelta

import pytest

from onward_ledger import errors
from onward_ledger import ledger as module
from onward_ledger.action import Status
from onward_ledger.providers.interface import Applied, NotSent, ProviderClass, Refused, Several
from onward_ledger.store.records import Cause
from tests.support.ledger import ENGINES, execute, open_bed

S = Status


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


def unknown(bed, word="lost"):
    bed.sink.script = [word]
    action = bed.put(bed.intent())
    assert action.status is S.UNKNOWN
    return action


def prepared_in_doubt(bed):
    """Sent, lost, then sent again to a provider that is down."""
    action = unknown(bed)
    bed.sink.can_tell = False
    bed.sink.script = ["not_sent"]
    with pytest.raises(errors.NotApplied):
        bed.put(bed.intent())
    action = bed.ledger.store.action(action.action_id)
    assert (action.status, action.in_doubt, action.claims) == (S.PREPARED, True, 2)
    return action


# --- sent too late ----------------------------------------------------------------------------------------------------


def test_a_send_that_did_not_begin_in_time_is_not_applied_also_where_nobody_waits_for_it_any_more(bed, monkeypatch):
    """Whoever waits gives up at the same moment; the sender's word may be recorded first."""

    def sender_first(deadline, send, late):
        late(NotSent("The send did not start within its 5 seconds."))

    monkeypatch.setattr(module, "within", sender_first)
    with pytest.raises(errors.NotApplied, match="did not start within") as told:
        bed.put(bed.intent())
    assert (told.value.action.status, told.value.retry_after_seconds > 0) == (S.PREPARED, True)
    assert bed.words(told.value.action) == ["propose", "claim", "unsend"]
    assert bed.sink.effects == []


# --- idempotent -------------------------------------------------------------------------------------------------------


def test_an_idempotent_provider_that_cannot_tell_is_sent_the_same_key_again(bed):
    action = unknown(bed)
    bed.sink.can_tell = False
    done = bed.put(bed.intent())
    assert (done.status, done.in_doubt, done.claims) == (S.SUCCEEDED, False, 2)
    assert bed.words(action) == ["propose", "claim", "lose", "unsend", "claim", "record"]
    assert bed.sink.effects == [action.action_id]


def test_what_was_not_found_too_soon_is_sent_again_in_doubt(bed):
    """Absent may mean: not there yet. The second request is safe, its refusal is no proof."""
    action = unknown(bed, "raise")
    bed.sink.script = ["refuse"]
    again = bed.put(bed.intent())
    assert (again.status, bed.words(action)[-2:]) == (S.UNKNOWN, ["claim", "lose"])
    assert "earlier send" in (again.reason or "")


def test_what_was_not_found_when_nothing_can_be_under_way_is_sent_again_without_doubt(bed):
    action = unknown(bed, "raise")
    bed.sink.resend_after_absent = True
    bed.sink.script = ["refuse"]
    later = bed.another(clock=bed.sink.settled_at(action))
    assert later.put(bed.intent(), propose=False).status is S.FAILED


def test_a_key_that_the_provider_has_forgotten_is_not_sent_again(bed):
    bed.sink.key_lifetime_seconds = 3600.0
    action = unknown(bed)
    bed.sink.can_tell = False
    forgotten_at = action.first_sent_at + timedelta(seconds=3600)
    under_way = timedelta(seconds=bed.sink.deadline_seconds + bed.sink.request_lifetime_seconds)
    late = bed.another(clock=forgotten_at - under_way)
    assert late.put(bed.intent(), propose=False).status is S.UNKNOWN
    assert len(bed.sink.sends) == 1
    just_in_time = bed.another(clock=forgotten_at - under_way - timedelta(seconds=1))
    assert just_in_time.put(bed.intent(), propose=False).status is S.SUCCEEDED


def test_a_key_that_is_forgotten_while_the_action_waits_makes_it_unknown(bed):
    """It was to be sent again, the provider was down, and then too much time went by."""
    bed.sink.key_lifetime_seconds = 3600.0
    action = prepared_in_doubt(bed)
    late = bed.another(clock=action.first_sent_at + timedelta(hours=2))
    answer = late.put(bed.intent(), propose=False)
    assert (answer.status, bed.words(action)[-2:]) == (S.UNKNOWN, ["unsend", "doubt"])
    assert bed.sink.sends == [action.action_id] * 2, "the second was not accepted"


def test_taking_back_what_is_in_doubt_makes_it_unknown(bed):
    action = prepared_in_doubt(bed)
    taken = bed.ledger.store.withdraw(action.action_id, "anna", "No longer wanted.")
    assert (taken.status, bed.words(action)[-1]) == (S.UNKNOWN, "doubt")
    assert taken.reason == "No longer wanted. An earlier send may have had its effect."


def test_closing_the_run_does_not_hide_what_is_in_doubt(bed):
    action = prepared_in_doubt(bed)
    fence = bed.ledger.store.close_fence(bed.run_id, "anna", "Cancelled.")
    assert [(a.action_id, a.status) for a in fence.unsettled] == [(action.action_id, S.UNKNOWN)]
    bed.sink.can_tell = True
    assert bed.ledger.reconcile(action.action_id).status is S.SUCCEEDED
    assert bed.sink.effects == [action.action_id]


def test_a_late_refusal_does_not_settle_what_is_in_doubt(bed):
    """The second send's refusal comes late: the first may have succeeded."""
    prepared_in_doubt(bed)
    later = bed.another(clock=bed.ledger.store.now() + timedelta(minutes=5))
    bed.sink.script = ["raise"]
    second = later.put(bed.intent(), propose=False)
    assert (second.status, second.in_doubt) == (S.UNKNOWN, True)

    late = bed.ledger.store.record(second, Refused("no"), Cause())
    assert (late.status, bed.words(second)[-1]) == (S.UNKNOWN, "late")


@pytest.mark.parametrize("depth", [5, 100_000])
def test_an_effect_is_recorded_however_odd_its_receipt_is(bed, monkeypatch, depth):
    """Deeper than any reader follows, or with numbers that JSON does not hold: it happened, and the record says so."""
    odd = 2**70
    for _ in range(depth):
        odd = [odd]
    receipt = {"id": "ch_1", "odd": odd}
    monkeypatch.setattr(bed.sink, "applied", lambda action: Applied(provider_id="ch_1", receipt=receipt))
    done = bed.put(bed.intent())
    assert (done.status, done.receipt["id"]) == (S.SUCCEEDED, "ch_1")
    assert bed.put(bed.intent()).receipt == done.receipt


# --- queryable --------------------------------------------------------------------------------------------------------


@pytest.fixture
def queryable(bed):
    bed.sink.provider_class = ProviderClass.QUERYABLE
    return bed


def test_what_a_queryable_provider_has_no_trace_of_waits_for_a_person(queryable):
    action = unknown(queryable, "raise")
    later = queryable.another(clock=queryable.sink.settled_at(action) + timedelta(days=1))
    assert later.reconcile(action.action_id).status is S.UNKNOWN
    assert later.put(queryable.intent(), propose=False).status is S.UNKNOWN
    assert queryable.sink.effects == []


@pytest.mark.parametrize(("seconds", "after"), [(-1, S.UNKNOWN), (0, S.SUCCEEDED)])
def test_resend_after_absent_waits_until_nothing_can_be_under_way(queryable, seconds, after):
    queryable.sink.resend_after_absent = True
    action = unknown(queryable, "raise")
    then = queryable.sink.settled_at(action) + timedelta(seconds=seconds)
    answer = queryable.another(clock=then).put(queryable.intent(), propose=False)
    assert (answer.status, answer.in_doubt) == (after, False)
    assert len(queryable.sink.sends) == (2 if after is S.SUCCEEDED else 1)


def test_resend_after_absent_does_not_take_cannot_tell_for_absent(queryable):
    queryable.sink.resend_after_absent, queryable.sink.can_tell = True, False
    action = unknown(queryable)
    later = queryable.another(clock=queryable.sink.settled_at(action) + timedelta(days=1))
    assert later.put(queryable.intent(), propose=False).status is S.UNKNOWN
    assert queryable.sink.effects == [action.action_id]


def test_an_action_that_is_found_several_times_succeeded_with_an_alarm(queryable, monkeypatch, caplog):
    action = unknown(queryable)
    effects = tuple(Applied(provider_id=name, receipt={"n": name}) for name in ("tr_1", "tr_2", "tr_3"))
    monkeypatch.setattr(queryable.sink, "lookup", lambda action: Several(effects))
    found = queryable.ledger.reconcile(action.action_id)
    assert (found.status, found.provider_id) == (S.SUCCEEDED, "tr_1")
    assert found.alarm == "The provider has this effect 3 times; beside tr_1 there is tr_2, tr_3."
    last = queryable.ledger.store.events(action.action_id)[-1]
    assert (last.word, [each["provider_id"] for each in last.detail["effects"]]) == (
        "duplicate",
        ["tr_1", "tr_2", "tr_3"],
    )
    assert "ALARM" in caplog.text


def test_a_look_up_that_raises_cannot_tell(queryable, monkeypatch):
    action = unknown(queryable)

    def broken(action):
        raise RuntimeError("the search is broken")

    monkeypatch.setattr(queryable.sink, "lookup", broken)
    assert queryable.ledger.reconcile(action.action_id).status is S.UNKNOWN


# --- opaque -----------------------------------------------------------------------------------------------------------


def test_an_opaque_provider_leaves_unknown_for_a_person_whatever_it_declares(bed):
    bed.sink.provider_class, bed.sink.looks_up = ProviderClass.OPAQUE, False
    bed.sink.can_tell = False
    action = unknown(bed)
    later = bed.another(clock=bed.sink.settled_at(action) + timedelta(days=1))
    assert later.put(bed.intent(), propose=False).status is S.UNKNOWN
    assert len(bed.sink.sends) == 1


# --- after a restore --------------------------------------------------------------------------------------------------


def held(bed, **columns):
    values = {"held_at": "null", "held_reason": "null", "look_first_until_at": "null"} | columns
    values |= {"ledger_id": "'7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e'", "made_at": "'2026-01-01T00:00:00.000000Z'"}
    execute(bed, f"insert into ledger ({', '.join(values)}) values ({', '.join(values.values())})")


def test_a_held_ledger_answers_what_is_recorded_and_sends_nothing(bed):
    done = bed.put(bed.intent("a"))
    waiting = bed.put(bed.intent("b"), propose=True)
    held(bed, held_at="'2026-01-01T00:00:00.000000Z'", held_reason="'It was restored.'")
    for step in ("b", "c"):
        with pytest.raises(errors.Held, match="It was restored"):
            bed.put(bed.intent(step))
    assert bed.put(bed.intent("a")).receipt == done.receipt
    assert bed.ledger.store.action(waiting.action_id).status is S.PREPARED
    assert bed.sink.sends == [done.action_id]


FAR = "'2999-01-01T00:00:00.000000Z'"


def test_after_a_restore_a_first_send_is_preceded_by_a_look_up(bed):
    """The effect is there, the record of it is gone: it is found, and not made again."""
    held(bed, look_first_until_at=FAR)
    bed.sink.effects.append(bed.intent("a").key.action_id)
    found = bed.put(bed.intent("a"))
    assert (found.status, bed.words(found)) == (S.SUCCEEDED, ["propose", "find"])
    fresh = bed.put(bed.intent("b"))
    assert (fresh.status, bed.words(fresh)) == (S.SUCCEEDED, ["propose", "claim", "record"])
    assert (bed.sink.sends, bed.sink.lookups) == ([fresh.action_id], [found.action_id, fresh.action_id])


def test_after_a_restore_nothing_is_sent_that_could_not_be_looked_up(bed):
    held(bed, look_first_until_at=FAR)
    bed.sink.can_tell = False
    with pytest.raises(errors.NotApplied, match="restored"):
        bed.put(bed.intent())
    assert bed.sink.sends == []


def test_when_that_time_is_over_nothing_is_looked_up_first(bed):
    held(bed, look_first_until_at="'2026-01-01T00:00:00.000000Z'")
    assert bed.put(bed.intent()).status is S.SUCCEEDED
    assert bed.sink.lookups == []
