"""Decisions and grants over both engines: bound, first one wins, consumed by the claim, expired, edited, derived."""

from datetime import UTC, datetime, timedelta

import pytest

from onward_ledger import errors
from onward_ledger.action import Intent, Status
from onward_ledger.audit import broken_at
from onward_ledger.objects import digest_of
from tests.support.ledger import ENGINES, execute, open_bed

FAR = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


@pytest.fixture
def proposed(bed):
    """A publication that waits for a decision."""
    return bed.put(bed.publication(bed.put(bed.draft())), propose=True)


def perform(bed, action, *, ledger=None):
    intent = Intent(key=action.key, kind=action.kind, resource=action.resource, params=action.params, epoch=1)
    return (ledger or bed.ledger).put(intent, propose=False)


def publications(bed):
    with bed.opened.database.transaction() as tx:
        return [
            (row["title"], row["digest"])
            for resource in ("reports/sales", "reports/other")
            for row in tx.all("publications_of_resource", resource=resource)
        ]


def test_without_an_approval_it_waits_and_nothing_is_published(bed, proposed):
    waiting = perform(bed, proposed)
    assert (waiting.status, waiting.reason) == (Status.PREPARED, "It waits for an approval.")
    assert publications(bed) == []


def test_an_approval_is_consumed_in_the_commit_that_publishes(bed, proposed):
    decision = bed.decide(proposed, "approve", reason="looks right")
    assert (decision.principal, decision.request_hash) == ("anna", proposed.request_hash)
    assert (decision.resource, decision.scope) == ("reports/sales", "report.publish")
    done = perform(bed, proposed)
    assert (done.status, done.approval_id, done.replayed) == (Status.SUCCEEDED, decision.decision_id, False)
    assert done.receipt["digest"] == proposed.params["digest"]
    assert publications(bed) == [("Sales", proposed.params["digest"])]
    stands = bed.ledger.store.action(proposed.action_id).decision
    assert stands.consumed_at == done.updated_at
    assert bed.words(done) == ["propose", "decide", "apply"]
    assert perform(bed, proposed).replayed
    assert len(publications(bed)) == 1


def test_the_same_decision_again_is_the_one_that_stands(bed, proposed):
    first = bed.decide(proposed, "approve")
    assert bed.decide(proposed, "approve", principal="bert") == first
    perform(bed, proposed)
    assert bed.decide(proposed, "approve").decision_id == first.decision_id
    assert len(bed.ledger.store.decisions(0, 10).items) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [("approve", "reject"), ("approve", "revise"), ("reject", "approve"), ("revise", "approve"), ("reject", "revise")],
)
def test_another_decision_is_refused_with_the_one_that_stands(bed, proposed, first, second):
    standing = bed.decide(proposed, first, reason="because")
    with pytest.raises(errors.DecisionConflict, match=f"anna has already decided: {first}") as refused:
        bed.decide(proposed, second, principal="bert", reason="no")
    assert refused.value.decision == standing


@pytest.mark.parametrize("decision", ["reject", "revise"])
def test_a_no_withdraws_the_action(bed, proposed, decision):
    bed.decide(proposed, decision, reason="compare with last year")
    gone = perform(bed, proposed)
    assert (gone.status, gone.reason) == (Status.WITHDRAWN, "compare with last year")
    assert (gone.decision.decision, gone.decision.reason) == (decision, "compare with last year")
    assert publications(bed) == []
    assert bed.words(gone) == ["propose", "decide", "withdraw"]


def test_an_edit_makes_the_next_revision_approved_by_the_same_person(bed, proposed):
    edit = bed.decide(proposed, "edit", changes={"title": "Sales, checked", "resource": "reports/other"})
    gone = bed.ledger.store.action(proposed.action_id)
    assert (gone.status, edit.successor_action_id) == (Status.WITHDRAWN, proposed_successor(proposed))
    [successor] = [a for a in bed.ledger.store.actions(run_id=bed.run_id, step="deliver") if a.rev == 2]
    assert (successor.status, successor.resource, successor.params["title"]) == (
        Status.PREPARED,
        "reports/other",
        "Sales, checked",
    )
    assert successor.params | {"title": "Sales"} == proposed.params
    assert (successor.decision.decision, successor.decision.principal) == ("approve", "anna")
    assert perform(bed, successor).status is Status.SUCCEEDED
    assert publications(bed) == [("Sales, checked", proposed.params["digest"])]
    assert [item.decision.decision for item in bed.ledger.store.decisions(0, 10).items] == ["edit", "approve"]
    for action in bed.ledger.store.actions(run_id=bed.run_id):
        assert broken_at(action, bed.ledger.store.events(action.action_id)) is None


def proposed_successor(action):
    from onward_ledger.action import ActionKey

    return ActionKey(action.run_id, action.step, action.slot, action.rev + 1).action_id


def test_the_same_edit_again_stands_and_another_edit_is_refused(bed, proposed):
    edit = bed.decide(proposed, "edit", changes={"title": "A"})
    assert bed.decide(proposed, "edit", changes={"title": "A"}) == edit
    with pytest.raises(errors.DecisionConflict):
        bed.decide(proposed, "edit", changes={"title": "B"})
    with pytest.raises(errors.DecisionConflict):
        bed.decide(proposed, "approve")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"digest": "0" * 64}, "can change note, resource, title; not digest"),
        ({"objects": []}, "not objects"),
        ({"title": ""}, "must not be empty"),
        ({"title": 7}, "must be text"),
        ({"resource": "drafts/x"}, "below reports/"),
        ({"resource": "../x"}, "not usable"),
        ({"title": "Sales"}, "changes nothing"),
    ],
)
def test_an_edit_can_change_publication_parameters_only(bed, proposed, changes, sentence):
    with pytest.raises(errors.BadRequest, match=sentence):
        bed.decide(proposed, "edit", changes=changes)
    assert bed.ledger.store.action(proposed.action_id) == proposed.__class__(**vars(proposed) | {"replayed": False})


@pytest.mark.parametrize(
    ("decision", "more"),
    [("edit", {}), ("approve", {"changes": {"title": "x"}}), ("revise", {}), ("revise", {"reason": " "}), ("yes", {})],
)
def test_a_decision_that_cannot_be_meant_is_a_bad_request(bed, proposed, decision, more):
    with pytest.raises(errors.BadRequest):
        bed.decide(proposed, decision, **more)


def test_a_decision_for_another_request_is_refused(bed, proposed):
    answer = bed.answer(proposed, "approve")
    with pytest.raises(errors.ParamsConflict):
        bed.ledger.decide(answer.__class__(**vars(answer) | {"request_hash": "0" * 64}))


def test_a_kind_that_needs_no_approval_takes_no_decision(bed):
    saved = bed.put(bed.draft())
    with pytest.raises(errors.BadRequest, match="need no approval"):
        bed.decide(saved, "approve")
    with pytest.raises(errors.BadRequest, match="need no approval"):
        bed.ledger.grant(bed.run_id, kind="draft.save", resource=None, principal="anna", expires_at=FAR, uses=1)


def test_a_decision_on_a_withdrawn_action_comes_too_late(bed, proposed):
    bed.ledger.store.close_fence(bed.run_id, "anna", "cancelled")
    with pytest.raises(errors.TooLate, match="WITHDRAWN"):
        bed.decide(proposed, "approve")


def test_an_edit_once_claimed_is_refused(request, tmp_path):
    with open_bed("sqlite", request, tmp_path, needs_approval=True) as bed:
        action = bed.put(bed.intent(), propose=True)
        bed.decide(action, "approve")
        bed.sink.script = ["not_sent"]
        with pytest.raises(errors.NotApplied):
            bed.put(bed.intent())
        with pytest.raises(errors.DecisionConflict):
            bed.decide(action, "edit", changes={"amount": 6})


def test_a_safe_resend_needs_no_second_approval_also_when_the_first_expired_meanwhile(request, tmp_path):
    with open_bed("sqlite", request, tmp_path, needs_approval=True) as bed:
        action = bed.put(bed.intent(), propose=True)
        soon = bed.ledger.store.now() + timedelta(hours=1)
        bed.decide(action, "approve", expires_at=soon)
        bed.sink.script = ["not_sent"]
        with pytest.raises(errors.NotApplied):
            bed.put(bed.intent())
        late = bed.another(clock=soon + timedelta(hours=1))
        done = late.put(bed.intent(), propose=False)
        assert (done.status, done.claims) == (Status.SUCCEEDED, 2)


def test_an_expired_approval_lets_nothing_through_and_can_be_given_again(bed, proposed):
    soon = bed.ledger.store.now() + timedelta(hours=1)
    first = bed.decide(proposed, "approve", expires_at=soon)
    at_expiry = bed.another(clock=soon)
    waiting = perform(bed, proposed, ledger=at_expiry)
    assert waiting.status is Status.PREPARED
    assert waiting.reason == f"The approval by anna expired at {soon.isoformat()}."
    assert publications(bed) == []
    second = at_expiry.decide(bed.answer(proposed, "approve", principal="bert"))
    assert (second.principal, second.decision_id > first.decision_id) == ("bert", True)
    assert perform(bed, proposed, ledger=at_expiry).status is Status.SUCCEEDED


def test_an_approval_a_moment_before_its_expiry_counts(bed, proposed):
    soon = bed.ledger.store.now() + timedelta(hours=1)
    bed.decide(proposed, "approve", expires_at=soon)
    assert perform(bed, proposed, ledger=bed.another(clock=soon - timedelta(microseconds=1))).status is Status.SUCCEEDED


@pytest.mark.parametrize("column", ["request_hash", "resource", "scope"])
def test_an_approval_that_was_tampered_with_allows_nothing(bed, proposed, column):
    bed.decide(proposed, "approve")
    execute(bed, f"update decisions set {column} = 'other'")
    waiting = perform(bed, proposed)
    assert (waiting.status, waiting.reason) == (
        Status.PREPARED,
        "The approval is for another request, resource or scope.",
    )


def grant(bed, **more):
    members = {"kind": "report.publish", "resource": None, "principal": "anna", "expires_at": FAR, "uses": 1} | more
    return bed.ledger.grant(bed.run_id, **members)


def test_a_grant_decides_when_the_action_is_proposed_bound_to_its_hash(bed):
    given = grant(bed)
    proposed = bed.put(bed.publication(bed.put(bed.draft())), propose=True)
    decision = proposed.decision
    assert (decision.decision, decision.principal, decision.grant_id) == ("approve", "anna", given.grant_id)
    assert (decision.request_hash, decision.expires_at) == (proposed.request_hash, FAR)
    assert perform(bed, proposed).status is Status.SUCCEEDED


def test_a_grant_with_one_use_approves_one_action(bed):
    grant(bed)
    saved = bed.put(bed.draft())
    first = bed.put(bed.publication(saved))
    second = bed.put(bed.publication(saved, step="deliver#2"))
    assert (first.status, second.status, second.reason) == (
        Status.SUCCEEDED,
        Status.PREPARED,
        "It waits for an approval.",
    )
    assert grant(bed).used == 1, "asked for again it is the same grant, not another use"
    assert bed.put(bed.publication(saved, step="deliver#2")).status is Status.PREPARED
    assert grant(bed, uses=2).uses == 2
    assert bed.put(bed.publication(saved, step="deliver#2")).status is Status.SUCCEEDED


def test_a_grant_given_later_decides_what_waits(bed, proposed):
    grant(bed)
    assert bed.ledger.store.action(proposed.action_id).decision.decision == "approve"
    assert [item.action_id for item in bed.ledger.store.decisions(0, 10).items] == [proposed.action_id]


@pytest.mark.parametrize("other", [{"resource": "reports/other"}, {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}])
def test_a_grant_for_something_else_or_of_the_past_decides_nothing(bed, proposed, other):
    grant(bed, **other)
    assert perform(bed, proposed).reason == "It waits for an approval."


def test_a_grant_of_another_run_decides_nothing(bed, proposed):
    bed.ledger.grant(
        "00000000-0000-0000-0000-000000000001",
        kind="report.publish",
        resource=None,
        principal="anna",
        expires_at=FAR,
        uses=1,
    )
    assert perform(bed, proposed).status is Status.PREPARED


def test_changed_bytes_are_not_published_although_approved(bed, proposed):
    """What was approved is the digest; the bytes are hashed again before the commit."""
    bed.decide(proposed, "approve")
    key = proposed.params["objects"][0]["key"]
    (bed.folder / "objects" / key).write_bytes(b"# Other numbers")
    failed = perform(bed, proposed)
    assert (failed.status, publications(bed)) == (Status.FAILED, [])
    assert failed.reason == (
        f"The object {key} has the digest {digest_of(b'# Other numbers')[:12]}…, "
        f"not {proposed.params['objects'][0]['digest'][:12]}…."
    )
    assert perform(bed, proposed).replayed


def test_an_object_store_that_is_down_leaves_the_approved_publication_prepared(bed, proposed, monkeypatch):
    bed.decide(proposed, "approve")

    def down(*_):
        raise errors.ObjectsUnreachable("the bucket does not answer")

    monkeypatch.setattr(bed.objects, "read_checked", down)
    with pytest.raises(errors.NotApplied, match="does not answer"):
        perform(bed, proposed)
    monkeypatch.undo()
    assert perform(bed, proposed).status is Status.SUCCEEDED


def test_the_feed_is_read_from_a_cursor(bed):
    saved = bed.put(bed.draft())
    actions = [bed.put(bed.publication(saved, step=f"deliver#{n}"), propose=True) for n in range(3)]
    for action in actions:
        bed.decide(action, "approve")
    first = bed.ledger.store.decisions(0, 2)
    rest = bed.ledger.store.decisions(first.cursor, 2)
    assert [i.action_id for i in (*first.items, *rest.items)] == [a.action_id for a in actions]
    assert bed.ledger.store.decisions(rest.cursor, 2).items == ()
    assert bed.ledger.store.decisions(rest.cursor, 2).cursor == rest.cursor
