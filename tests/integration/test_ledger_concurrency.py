"""Many at once: one send for one id, locks that order what must be ordered, a feed that misses no commit."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Thread

import psycopg
import pytest

from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.store import approvals, claims, fences
from onward_ledger.store.claims import Call
from onward_ledger.store.records import Records
from tests.support.ledger import ENGINES, open_bed


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


@pytest.fixture
def postgres(request, tmp_path):
    with open_bed("postgres", request, tmp_path) as bed:
        yield bed


def at_once(functions):
    """Call them all at the same moment; results and errors in their order."""
    barrier = Barrier(len(functions))

    def call(function):
        barrier.wait(20)
        try:
            return function()
        except errors.LedgerError as error:
            return error

    with ThreadPoolExecutor(len(functions)) as pool:
        return list(pool.map(call, functions))


def patient(put):
    """As the client does: wait while somebody performs it."""

    def call():
        end = time.monotonic() + 20
        while True:
            try:
                return put()
            except errors.InProgress:
                assert time.monotonic() < end
                time.sleep(0.01)

    return call


def test_many_callers_with_one_id_get_one_effect_and_one_receipt(bed):
    answers = at_once([patient(lambda: bed.put(bed.intent()))] * 24)
    assert {(a.status, a.version, a.claim_token) for a in answers} == {
        (Status.SUCCEEDED, 3, answers[0].claim_token),
    }
    assert len(bed.sink.sends) == len(bed.sink.effects) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert bed.words(answers[0]) == ["propose", "claim", "record"]


def test_two_instances_with_one_id_make_one_effect(postgres):
    bed = postgres
    other = bed.another()
    bed._others[-1].liveness.hold()
    calls = [patient(lambda ledger=ledger: ledger.put(bed.intent(), propose=False)) for ledger in (bed.ledger, other)]
    answers = at_once(calls * 8)
    assert {answer.status for answer in answers} == {Status.SUCCEEDED}
    assert len(bed.sink.sends) == 1


def test_many_callers_with_one_publication_publish_once(bed):
    proposed = bed.put(bed.publication(bed.put(bed.draft())), propose=True)
    bed.decide(proposed, "approve")
    wanted = bed.publication(bed.ledger.store.actions(run_id=bed.run_id)[0])
    answers = at_once([lambda: bed.put(wanted)] * 12)
    assert {answer.receipt["publication_id"] for answer in answers} == {answers[0].receipt["publication_id"]}
    assert sum(not answer.replayed for answer in answers) == 1


def test_different_requests_for_one_id_end_with_one_of_them(bed):
    calls = [patient(lambda n=n: bed.put(bed.intent(amount=n))) for n in range(8)]
    answers = at_once(calls)
    done = [a for a in answers if not isinstance(a, errors.LedgerError)]
    assert len(done) == 1
    assert {type(a) for a in answers if a is not done[0]} == {errors.ParamsConflict}
    assert len(bed.sink.effects) == 1


def test_many_callers_under_an_epoch_that_nobody_announced_do_not_block_each_other(bed):
    bed.ledger.store.announce(bed.run_id, 1, "old driver")
    calls = [lambda n=n: bed.put(bed.intent(f"s{n}", epoch=2)) for n in range(12)]
    assert [answer.status for answer in at_once(calls)] == [Status.SUCCEEDED] * 12
    assert bed.ledger.store.announce(bed.run_id, 2, "new driver").epoch == 2


def test_opposite_decisions_at_once_one_stands(bed):
    proposed = bed.put(bed.publication(bed.put(bed.draft())), propose=True)
    words = ["approve", "reject"] * 6
    answers = at_once([lambda word=word: bed.decide(proposed, word, principal=word) for word in words])
    standing = bed.ledger.store.action(proposed.action_id).decision
    for word, answer in zip(words, answers, strict=True):
        if word == standing.decision:
            assert answer == standing
        else:
            assert isinstance(answer, errors.DecisionConflict)
            assert answer.decision == standing


def test_cancel_and_claim_at_once_one_of_them_comes_first(bed):
    outcomes = set()
    for n in range(12):
        bed.run_id = f"{n:08d}-0000-4000-8000-000000000000"
        put, closed = at_once(
            [lambda: bed.put(bed.intent()), lambda: bed.ledger.store.close_fence(bed.run_id, "a", "r")]
        )
        found = bed.ledger.store.actions(run_id=bed.run_id)
        if isinstance(put, errors.FenceClosed):
            assert found == []
        else:
            assert put.status is Status.SUCCEEDED
            assert [a.action_id for a in closed.claimed] == [put.action_id], "cancel says that it came too late"
        outcomes.add(type(put).__name__)
    assert outcomes <= {"FenceClosed", "Action"}


@contextmanager
def open_transaction(bed):
    with bed.opened.database.transaction() as tx:
        yield Records(tx)


def blocked(bed) -> int:
    """How many sessions wait for a lock of this bed's schema."""
    with psycopg.connect(bed.opened.database.conninfo) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        ).fetchone()
    return row[0]


def until(condition):
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


def behind(bed, function):
    """Start something that has to wait for a lock, and see it waiting."""
    waiting = Thread(target=function)
    waiting.start()
    until(lambda: blocked(bed) == 1)
    return waiting


def test_an_announcement_waits_for_claims_under_way_and_none_comes_behind_it(postgres):
    bed, announced = postgres, []
    bed.put(bed.intent("first"), propose=True)
    with open_transaction(bed) as records:
        call = Call(intent=bed.intent(), provider=bed.sink, propose=False, sender=bed.ledger.sender)
        claims.begin(records, call)
        waiting = behind(bed, lambda: announced.append(bed.ledger.store.announce(bed.run_id, 2, "new driver")))
        assert announced == []
    waiting.join(15)
    statuses = {a.step: a.status for a in announced[0].actions}
    assert statuses == {"first": Status.PREPARED, "pay": Status.IN_FLIGHT}, "what was claimed before is in the answer"


def test_a_closing_waits_for_an_edit_and_withdraws_what_it_made(postgres):
    bed = postgres
    proposed = bed.put(bed.publication(bed.put(bed.draft())), propose=True)
    with open_transaction(bed) as records:
        answer = bed.answer(proposed, "edit", changes={"title": "Other"})
        approvals.decide(records, answer, bed.ledger.provider("report.publish"), bed.run_id)
        waiting = behind(bed, lambda: bed.ledger.store.close_fence(bed.run_id, "anna", "cancelled"))
    waiting.join(15)
    statuses = {a.rev: a.status for a in bed.ledger.store.actions(run_id=bed.run_id, step="deliver")}
    assert statuses == {1: Status.WITHDRAWN, 2: Status.WITHDRAWN}


def test_a_claim_behind_a_closing_finds_the_action_withdrawn(postgres):
    bed, answers = postgres, []
    bed.put(bed.intent(), propose=True)
    with open_transaction(bed) as records:
        fences.close(records, bed.run_id, "anna", "cancelled")
        waiting = behind(bed, lambda: answers.append(bed.put(bed.intent())))
    waiting.join(15)
    assert [(a.status, a.replayed) for a in answers] == [(Status.WITHDRAWN, True)]
    assert bed.sink.sends == []


def test_the_feed_never_skips_a_commit(postgres):
    bed = postgres
    saved = bed.put(bed.draft())
    first, second = (bed.put(bed.publication(saved, step=f"deliver#{n}"), propose=True) for n in (1, 2))
    provider = bed.ledger.provider("report.publish")
    with open_transaction(bed) as records:
        approvals.decide(records, bed.answer(first, "approve"), provider, bed.run_id)
        waiting = behind(bed, lambda: bed.decide(second, "approve"))
        assert bed.ledger.store.decisions(0, 10).items == (), "the second has no number before the first commits"
    waiting.join(15)
    feed = bed.ledger.store.decisions(0, 10)
    assert [(i.seq, i.action_id) for i in feed.items] == [(1, first.action_id), (2, second.action_id)]


def test_control_a_plain_sequence_does_skip(postgres):
    """Why the feed's number comes from a locked row: a follower at 2 would never see 1."""
    conninfo = postgres.opened.database.conninfo
    with psycopg.connect(conninfo) as slow, psycopg.connect(conninfo, autocommit=True) as fast:
        fast.execute("create table plain (seq bigint generated always as identity)")
        slow.execute("insert into plain default values")
        fast.execute("insert into plain default values")
        assert fast.execute("select seq from plain where seq > 0").fetchall() == [(2,)]
        slow.commit()
        assert fast.execute("select seq from plain where seq > 2").fetchall() == []
        fast.execute("drop table plain")
