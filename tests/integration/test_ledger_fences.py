"""Fences over both engines: stale epochs, holders, closing, and what closing came too late for."""

import pytest

from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.providers.interface import NotSent
from onward_ledger.store.claims import Call, Claimed
from onward_ledger.store.records import Cause
from tests.support.ledger import ENGINES, open_bed


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


def announce(bed, epoch, holder="driver"):
    return bed.ledger.store.announce(bed.run_id, epoch, holder)


def close(bed, principal="anna", reason="cancelled by anna"):
    return bed.ledger.store.close_fence(bed.run_id, principal, reason)


def claim(bed):
    call = Call(intent=bed.intent(), provider=bed.sink, propose=False, sender=bed.ledger.sender)
    bed.ledger.performing.add(call.claim_token)
    step = bed.ledger.store.begin(call)
    assert isinstance(step, Claimed)
    return step.action


def test_an_announcement_answers_what_is_recorded(bed):
    done, waiting = bed.put(bed.intent("a")), bed.put(bed.intent("b"), propose=True)
    fence = announce(bed, 2)
    assert (fence.epoch, fence.holder, fence.closed_at) == (2, "driver", None)
    assert [(a.action_id, a.status) for a in fence.actions] == [
        (done.action_id, Status.SUCCEEDED),
        (waiting.action_id, Status.PREPARED),
    ]


@pytest.mark.parametrize("propose", [False, True])
def test_an_older_epoch_can_do_nothing(bed, propose):
    announce(bed, 3)
    with pytest.raises(errors.StaleEpoch) as stale:
        bed.put(bed.intent(epoch=2), propose=propose)
    assert stale.value.fence_epoch == 3
    assert (bed.sink.sends, bed.ledger.store.actions(run_id=bed.run_id)) == ([], [])
    assert bed.put(bed.intent(epoch=3)).status is Status.SUCCEEDED


def test_the_epoch_is_looked_at_before_the_request_and_the_replay(bed):
    bed.put(bed.intent())
    announce(bed, 2)
    with pytest.raises(errors.StaleEpoch):
        bed.put(bed.intent(epoch=1))
    with pytest.raises(errors.StaleEpoch):
        bed.put(bed.intent(epoch=1, amount=6))
    assert bed.put(bed.intent(epoch=2)).replayed


def test_the_same_epoch_belongs_to_one_holder(bed):
    announce(bed, 2, "first")
    assert announce(bed, 2, "first").epoch == 2
    with pytest.raises(errors.StaleEpoch, match="announced by first") as stale:
        announce(bed, 2, "second")
    assert stale.value.fence_epoch == 2
    with pytest.raises(errors.StaleEpoch):
        announce(bed, 1, "first")
    assert announce(bed, 3, "second").holder == "second"


def test_an_action_under_a_higher_epoch_announces_it(bed):
    announce(bed, 1)
    bed.put(bed.intent(epoch=5))
    with pytest.raises(errors.StaleEpoch):
        announce(bed, 4)
    assert announce(bed, 5, "whoever drives").holder == "whoever drives"


def test_a_claim_takes_its_own_epoch(bed):
    bed.put(bed.intent(epoch=1), propose=True)
    assert bed.put(bed.intent(epoch=4)).epoch == 4


def test_closing_withdraws_what_is_prepared_and_refuses_what_comes(bed):
    waiting = bed.put(bed.intent("waits"), propose=True)
    done = bed.put(bed.intent("done"))
    fence = close(bed)
    assert (fence.closed_by, fence.closed_reason) == ("anna", "cancelled by anna")
    assert [a.action_id for a in fence.claimed] == [done.action_id]
    gone = bed.ledger.store.action(waiting.action_id)
    assert (gone.status, gone.reason) == (Status.WITHDRAWN, "The run was cancelled: cancelled by anna")
    with pytest.raises(errors.FenceClosed) as closed:
        bed.put(bed.intent("new"))
    assert closed.value.closed_at == fence.closed_at
    assert bed.put(bed.intent("done")).replayed
    assert len(bed.sink.sends) == 1


def test_the_first_closing_stands(bed):
    first = close(bed)
    again = close(bed, "bert", "me too")
    assert (again.closed_at, again.closed_by, again.closed_reason) == (first.closed_at, "anna", "cancelled by anna")


def test_a_closed_fence_can_still_be_announced_so_that_somebody_can_clean_up(bed):
    close(bed)
    fence = announce(bed, 2)
    assert (fence.epoch, fence.closed_reason) == (2, "cancelled by anna")
    with pytest.raises(errors.FenceClosed):
        bed.put(bed.intent(epoch=2))


def test_what_was_claimed_before_the_closing_keeps_its_outcome(bed):
    action = claim(bed)
    assert [a.action_id for a in close(bed).claimed] == [action.action_id]
    recorded = bed.ledger.store.record(action, bed.sink.applied(action), Cause())
    assert recorded.status is Status.SUCCEEDED


def test_what_was_claimed_but_not_sent_is_withdrawn_after_a_closing(bed):
    action = claim(bed)
    close(bed)
    gone = bed.ledger.store.record(action, NotSent("down"), Cause())
    assert (gone.status, bed.words(action)) == (Status.WITHDRAWN, ["propose", "claim", "unsend", "withdraw"])


@pytest.mark.parametrize(("applied", "after"), [(True, Status.SUCCEEDED), (False, Status.WITHDRAWN)])
def test_an_unknown_of_a_cancelled_run_is_settled_and_never_sent_again(bed, applied, after):
    """Not found at once says little: the request may still be under way. Found, or not found later, settles it."""
    bed.sink.script = ["lost" if applied else "raise"]
    action = bed.put(bed.intent())
    close(bed)
    soon = bed.ledger.reconcile(action.action_id)
    assert soon.status is (Status.SUCCEEDED if applied else Status.UNKNOWN)
    bed.sink.resend_after_absent = True
    later = bed.another(clock=bed.sink.settled_at(action))
    assert later.reconcile(action.action_id).status is after
    assert len(bed.sink.sends) == 1
