"""The outbox: stored and answered at once, performed by the service, in order where asked, dead letters for people."""

import pytest

from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.store.outbox import Later
from tests.support.ledger import ENGINES, open_bed

S = Status


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


def later(bed, step, *, in_order=False, ledger=None, **more):
    return (ledger or bed.ledger).put(bed.intent(step, **more), propose=False, later=Later(in_order=in_order))


def due(bed, ledger=None, kinds=()):
    return [each.action.step for each in (ledger or bed.ledger).store.outbox.due(list(kinds), 100)]


def test_it_is_stored_with_its_record_and_answered_at_once(bed):
    action = later(bed, "a")
    assert (action.status, action.replayed, bed.sink.sends) == (S.PREPARED, False, [])
    entry = bed.ledger.store.outbox.look(action.action_id).outbox
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


def test_the_service_performs_it_and_it_leaves_the_outbox(bed):
    action = later(bed, "a")
    done = bed.ledger.dispatch(action)
    assert (done.status, done.claims, bed.words(action)) == (S.SUCCEEDED, 1, ["propose", "claim", "record"])
    assert bed.ledger.store.outbox.look(action.action_id).outbox is None
    assert bed.ledger.store.outbox.entries(dead=None, run_id=None, after=None, limit=10) == []
    feed = bed.ledger.store.decisions(0, 10).items
    assert [(i.what, i.action_id, i.status) for i in feed] == [("resolution", action.action_id, S.SUCCEEDED)]


def test_what_is_performed_at_once_tells_the_feed_nothing(bed):
    bed.put(bed.intent("a"))
    assert bed.ledger.store.decisions(0, 10).items == ()
