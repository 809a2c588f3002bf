"""Who may decide, who has to decide together, and what can be taken back before it is used."""

from datetime import timedelta

import pytest

from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.providers.interface import ApprovalPolicy
from onward_ledger.store.approvals import Revocation
from tests.support.ledger import ENGINES, open_bed

S = Status


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path, needs_approval=True) as bed:
        yield bed


@pytest.fixture
def pair(bed):
    """Two people are asked for, and every answer comes with a token that proves its person."""
    bed.sink.approval = ApprovalPolicy(approvers=2)
    answer = bed.answer
    bed.answer = lambda *arguments, **more: answer(*arguments, **{"principal_asserted": False, **more})
    return bed


def proposed(bed, step="pay"):
    return bed.put(bed.intent(step), propose=True)


def revoke(bed, action, principal="anna", **more):
    word = Revocation(action_id=action.action_id, principal=principal, reason="Wrong account.", **more)
    return bed.ledger.store.revoke(word)


def grant(bed, principal="anna", **more):
    ends = bed.ledger.store.now() + timedelta(hours=1)
    arguments = {"kind": "test.sink", "resource": None, "expires_at": ends, "uses": 1} | more
    return bed.ledger.grant(bed.run_id, principal=principal, principal_asserted=False, **arguments)


# --- roles and people -------------------------------------------------------------------------------------------------


def test_a_kind_that_asks_for_a_role_takes_no_decision_without_it(bed):
    bed.sink.approval = ApprovalPolicy(role="treasurer")
    action = proposed(bed)
    for roles in (frozenset(), frozenset({"publisher"})):
        with pytest.raises(errors.Forbidden, match="needs the role treasurer"):
            bed.decide(action, "approve", roles=roles)
    assert bed.put(bed.intent()).status is S.PREPARED
    bed.decide(action, "approve", roles=frozenset({"treasurer"}))
    assert bed.put(bed.intent()).status is S.SUCCEEDED


def test_a_kind_that_names_people_takes_decisions_of_nobody_else(bed):
    bed.sink.approval = ApprovalPolicy(principals=frozenset({"anna"}))
    action = proposed(bed)
    with pytest.raises(errors.Forbidden, match="bert is not among those who decide"):
        bed.decide(action, "reject", principal="bert")
    assert bed.decide(action, "approve").principal == "anna"


@pytest.mark.parametrize("policy", [ApprovalPolicy(role="treasurer"), ApprovalPolicy(principals=frozenset({"bert"}))])
def test_who_may_not_decide_may_not_grant_either(bed, policy):
    bed.sink.approval = policy
    with pytest.raises(errors.Forbidden):
        grant(bed)
    assert bed.put(bed.intent()).status is S.PREPARED


# --- two approvers ----------------------------------------------------------------------------------------------------


def test_two_different_people_approve_before_it_is_sent(pair):
    action = proposed(pair)
    first = pair.decide(action, "approve", principal="anna")
    assert (first.approvers, first.seconded_by) == (2, None)
    half = pair.put(pair.intent())
    assert (half.status, half.reason) == (S.PREPARED, "anna has approved; it waits for a second approver.")
    again = pair.decide(action, "approve", principal="anna")
    assert again == first, "one person is one approver, however often"
    assert pair.put(pair.intent()).status is S.PREPARED
    second = pair.decide(action, "approve", principal="bert")
    assert (second.decision_id, second.principal, second.seconded_by) == (first.decision_id, "anna", "bert")
    assert pair.put(pair.intent()).status is S.SUCCEEDED
    assert pair.words(action) == ["propose", "decide", "decide", "claim", "record"]
    assert [item.decision.seconded_by for item in pair.ledger.store.decisions(0, 10).items] == ["bert", "bert"]


def test_people_who_are_only_asserted_are_no_two_people(pair):
    action = proposed(pair)
    with pytest.raises(errors.Forbidden, match="anna is only asserted"):
        pair.decide(action, "approve", principal="anna", principal_asserted=True)
    pair.decide(action, "approve", principal="anna")
    with pytest.raises(errors.Forbidden, match="bert is only asserted"):
        pair.decide(action, "approve", principal="bert", principal_asserted=True)
    assert pair.put(pair.intent()).status is S.PREPARED


def test_the_second_approver_can_shorten_the_approval_and_not_lengthen_it(pair):
    action, now = proposed(pair), pair.ledger.store.now()
    pair.decide(action, "approve", principal="anna", expires_at=now + timedelta(hours=2))
    pair.decide(action, "approve", principal="bert", expires_at=now + timedelta(hours=1))
    late = pair.another(clock=now + timedelta(minutes=90))
    assert "expired" in late.put(pair.intent(), propose=False).reason


@pytest.mark.parametrize(("word", "more"), [("reject", {}), ("revise", {"reason": "too much"})])
def test_the_second_person_can_say_no(pair, word, more):
    action = proposed(pair)
    pair.decide(action, "approve", principal="anna")
    no = pair.decide(action, word, principal="bert", **more)
    assert (no.decision, no.principal) == (word, "bert")
    assert pair.put(pair.intent()).status is S.WITHDRAWN
    with pytest.raises(errors.DecisionConflict, match="bert has already decided"):
        pair.decide(action, "approve", principal="carla")


def test_when_both_have_approved_nobody_can_say_no(pair):
    action = proposed(pair)
    pair.decide(action, "approve", principal="anna")
    pair.decide(action, "approve", principal="bert")
    with pytest.raises(errors.DecisionConflict):
        pair.decide(action, "reject", principal="carla")
    assert pair.decide(action, "approve", principal="carla").seconded_by == "bert"


def test_an_edit_is_approved_by_its_author_and_waits_for_another_person(pair):
    action = proposed(pair)
    edit = pair.decide(action, "edit", principal="anna", changes={"amount": 4})
    edited = pair.ledger.store.action(edit.successor_action_id)
    assert "second approver" in pair.put(pair.intent(rev=2, amount=4)).reason
    pair.decide(edited, "approve", principal="bert")
    assert pair.put(pair.intent(rev=2, amount=4)).status is S.SUCCEEDED


def test_a_grant_is_one_of_the_two(pair):
    grant(pair, "anna")
    action = proposed(pair)
    assert "second approver" in pair.put(pair.intent()).reason
    pair.decide(action, "approve", principal="bert")
    assert pair.put(pair.intent()).status is S.SUCCEEDED


def test_a_policy_that_became_stricter_holds_for_what_was_approved_before(bed):
    action = proposed(bed)
    bed.decide(action, "approve", principal="anna")
    bed.sink.approval = ApprovalPolicy(approvers=2)
    assert "second approver" in bed.put(bed.intent()).reason


# --- revoking ---------------------------------------------------------------------------------------------------------


def test_an_approval_can_be_taken_back_until_it_is_used(bed):
    action = proposed(bed)
    bed.decide(action, "approve")
    gone = revoke(bed, action)
    assert (gone.revoked_by, gone.revoked_reason) == ("anna", "Wrong account.")
    assert revoke(bed, action) == gone
    assert bed.put(bed.intent()).reason == "It waits for an approval."
    assert bed.decide(action, "approve", principal="bert").principal == "bert"
    assert bed.put(bed.intent()).status is S.SUCCEEDED
    assert bed.words(action) == ["propose", "decide", "revoke", "decide", "claim", "record"]
    with pytest.raises(errors.TooLate, match="was used"):
        revoke(bed, action, "bert")


def test_what_was_approved_and_claimed_cannot_be_revoked_before_it_is_sent_again(bed):
    """The approval is consumed by the claim; a resend needs no second one, so a revocation would come too late."""
    action = proposed(bed)
    bed.decide(action, "approve")
    bed.sink.script = ["not_sent"]
    with pytest.raises(errors.NotApplied):
        bed.put(bed.intent())
    with pytest.raises(errors.TooLate):
        revoke(bed, action)


def test_only_its_author_or_an_operator_revokes_an_approval(bed):
    action = proposed(bed)
    bed.decide(action, "approve", principal="anna")
    with pytest.raises(errors.Forbidden, match="cannot revoke"):
        revoke(bed, action, "bert")
    assert revoke(bed, action, "bert", operator=True).revoked_by == "bert"


def test_the_second_approver_can_revoke_too(pair):
    action = proposed(pair)
    pair.decide(action, "approve", principal="anna")
    pair.decide(action, "approve", principal="bert")
    assert revoke(pair, action, "bert").revoked_by == "bert"
    assert pair.put(pair.intent()).status is S.PREPARED


def test_there_is_nothing_to_revoke_where_nothing_was_approved(bed):
    action = proposed(bed)
    with pytest.raises(errors.NotFound):
        revoke(bed, action)
    bed.decide(action, "reject")
    with pytest.raises(errors.TooLate, match="only an approval"):
        revoke(bed, action)


def test_a_revoked_grant_gives_nothing_any_more(bed):
    given = grant(bed, uses=5)
    assert bed.put(bed.intent("a")).status is S.SUCCEEDED
    gone = bed.ledger.store.revoke_grant(bed.run_id, kind="test.sink", resource=None, principal="anna")
    assert (gone.grant_id, gone.used) == (given.grant_id, 1)
    assert bed.ledger.store.revoke_grant(bed.run_id, kind="test.sink", resource=None, principal="anna") == gone
    assert bed.put(bed.intent("b")).status is S.PREPARED
    with pytest.raises(errors.NotFound, match="bert has given no such grant"):
        bed.ledger.store.revoke_grant(bed.run_id, kind="test.sink", resource=None, principal="bert")
