"""Removal by age: what is over goes, what may still be asked for stays, and nothing that went is ever sent again."""

import threading
import uuid
from datetime import timedelta

import psycopg
import pytest

from onward_ledger import errors, export, signing, trail
from onward_ledger.action import Status
from onward_ledger.export import Filter
from onward_ledger.store import identity, retention
from onward_ledger.store.retention import Removal
from onward_ledger.trail_since import since
from onward_ledger.watch import Watch
from onward_ledger.witness import Witness
from tests.support.ledger import ENGINES, execute, open_bed


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        identity.ensure(bed.opened.database)
        yield bed


@pytest.fixture
def postgres(request, tmp_path):
    with open_bed("postgres", request, tmp_path) as bed:
        identity.ensure(bed.opened.database)
        yield bed


def later(bed):
    """An instant behind all that was done."""
    return bed.ledger.store.now() + timedelta(days=1)


def prune(bed):
    return retention.prune(bed.opened.database, later(bed))


def close(bed):
    return bed.ledger.store.close_fence(bed.run_id, "anna", "it is over")


def new_run(bed):
    bed.run_id = str(uuid.uuid4())
    return bed.run_id


def rows(bed, what):
    """A question to the database, past the software."""
    if bed.opened.kind == "sqlite":
        with bed.opened.database.reading():
            return [tuple(row) for row in bed.opened.database._connection.execute(what).fetchall()]
    with psycopg.connect(bed.opened.database.conninfo) as connection:
        return connection.execute(what).fetchall()


def counts(bed, run_id):
    events = f"select count(*) from action_events join actions using (action_id) where run_id = '{run_id}'"
    found = {
        table: rows(bed, f"select count(*) from {table} where run_id = '{run_id}'") for table in ("actions", "feed")
    }
    return {name: row[0][0] for name, row in (found | {"events": rows(bed, events)}).items()}


def full_run(bed):
    """A run with everything that a ledger can hold of one."""
    run_id = new_run(bed)
    saved = bed.put(bed.draft())
    waits = bed.put(bed.publication(saved), propose=True)
    bed.decide(waits, "edit", changes={"title": "Other"})
    published = bed.put(bed.publication(saved, rev=2, title="Other"))
    bed.ledger.grant(run_id, kind="report.publish", resource=None, principal="anna", expires_at=later(bed), uses=1)
    granted = bed.put(bed.publication(saved, step="again"))
    bed.sink.script = ["refuse"]
    bed.put(bed.intent("refused"))
    waiting = bed.put(bed.intent("waiting"), propose=True)
    close(bed)
    final = {a.status for a in bed.ledger.store.actions(run_id=run_id)}
    assert final == {Status.SUCCEEDED, Status.FAILED, Status.WITHDRAWN}
    columns, false = (
        "action_id, kind, resource, created_at, created_at",
        "0" if bed.opened.kind == "sqlite" else "false",
    )
    execute(
        bed,
        "insert into outbox (action_id, kind, resource, stored_at, dispatch_at, in_order)"
        f" select {columns}, {false} from actions where action_id = '{waiting.action_id}'",
    )
    execute(bed, f"insert into look_ups (action_id, count, answer) values ('{waiting.action_id}', 1, 'absent')")
    return run_id, published, granted


def test_a_run_that_is_over_goes_with_all_that_belongs_to_it_but_its_fence_and_what_it_published(bed):
    run_id, published, granted = full_run(bed)
    held = counts(bed, run_id)
    counted = retention.count(bed.opened.database, retention.prunable(bed.opened.database, later(bed)))
    assert (counted.runs, counted.actions, counted.events) == (1, held["actions"], held["events"])
    assert counted.decisions == 3

    progress = []
    removed = retention.prune(bed.opened.database, later(bed), progress=progress.append)
    assert removed == counted == progress[-1]
    for table in ("actions", "action_events", "decisions", "grants", "feed", "outbox", "look_ups"):
        assert rows(bed, f"select count(*) from {table}") == [(0,)], table
    [(closed, pruned)] = rows(bed, f"select closed_at, pruned_at from fences where run_id = '{run_id}'")
    assert closed is not None and pruned is not None
    published_ids = {str(row[0]) for row in rows(bed, "select action_id from publications")}
    assert published_ids == {published.action_id, granted.action_id}
    assert prune(bed) == Removal(), "again there is nothing to remove"


def test_what_may_still_be_asked_for_stays(bed):
    """Open: it can resume. Unknown or in flight: nobody knows yet. Touched since: it is not old."""
    opened = new_run(bed)
    bed.put(bed.intent())

    unknown = new_run(bed)
    bed.sink.script, bed.sink.can_tell = ["raise"], False
    assert bed.put(bed.intent()).status is Status.UNKNOWN
    close(bed)

    in_flight = new_run(bed)
    bed.sink.script = ["hang"]
    bed.sink.sending.clear()
    sending = threading.Thread(target=bed.put, args=(bed.intent(),))
    sending.start()
    assert bed.sink.sending.wait(10)
    close(bed)

    old = new_run(bed)
    bed.put(bed.intent())
    close(bed)
    try:
        assert retention.prunable(bed.opened.database, later(bed)) == [old]
        assert prune(bed).runs == 1
        for run_id in (opened, unknown, in_flight):
            assert counts(bed, run_id)["actions"] == 1
    finally:
        bed.sink.release.set()
        sending.join()
    assert retention.prunable(bed.opened.database, later(bed)) == [in_flight], "it is settled now"


def test_age_counts_from_the_last_touch_and_from_the_closing(bed):
    action = bed.put(bed.intent())
    closed = close(bed).closed_at

    def touch(moment):
        text = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        execute(bed, f"update actions set updated_at = '{text}' where action_id = '{action.action_id}'")

    for touched in (closed - timedelta(days=3), closed + timedelta(days=3)):
        touch(touched)
        last = max(touched, closed)
        assert retention.prunable(bed.opened.database, last) == []
        assert retention.prunable(bed.opened.database, last + timedelta(microseconds=1)) == [bed.run_id]


def test_a_pruned_run_is_refused_and_nothing_of_it_is_sent_again(bed):
    done = bed.put(bed.intent())
    close(bed)
    prune(bed)
    with pytest.raises(errors.NotFound):
        bed.ledger.store.action(done.action_id)
    tries = [
        lambda: bed.put(bed.intent()),
        lambda: bed.put(bed.intent(), propose=True),
        lambda: bed.put(bed.intent("another_step")),
        lambda: bed.put(bed.intent(epoch=9)),
    ]
    for attempt in tries:
        with pytest.raises(errors.FenceClosed, match="removed by age"):
            attempt()
    assert bed.ledger.store.announce(bed.run_id, 10, "a late driver").closed_at is not None
    assert bed.sink.effects == [done.action_id]


def test_negative_control_without_the_fence_row_it_is_sent_again(bed):
    bed.sink.provider_class = "opaque"  # a sink that knows no keys
    done = bed.put(bed.intent())
    close(bed)
    prune(bed)
    execute(bed, f"delete from fences where run_id = '{bed.run_id}'")
    bed.put(bed.intent())
    assert bed.sink.effects == [done.action_id] * 2


def test_a_follower_of_the_feed_goes_on_behind_the_gap(bed):
    full_run(bed)
    old = bed.ledger.store.decisions(0, 100)
    new_run(bed)
    saved = bed.put(bed.draft())
    waits = bed.put(bed.publication(saved), propose=True)
    bed.decide(waits, "reject")
    new = bed.ledger.store.decisions(old.cursor, 100)
    assert len(old.items) == 3 and len(new.items) == 1
    prune(bed)
    for cursor in range(old.cursor + 1):
        assert bed.ledger.store.decisions(cursor, 100) == new
    again = bed.put(bed.publication(saved, rev=2), propose=True)
    bed.decide(again, "approve")
    assert bed.ledger.store.decisions(new.cursor, 100).cursor == new.cursor + 1, "numbers are never given again"


def test_histories_are_append_only_again_behind_a_removal(bed):
    full_run(bed)
    prune(bed)
    new_run(bed)
    bed.put(bed.intent())
    for statement in ("delete from action_events", "update action_events set reason = 'x'"):
        with pytest.raises(Exception, match="append-only"):
            execute(bed, statement)


def test_a_trail_tells_what_was_removed_and_the_next_one_proves_that_it_was_no_more(bed, tmp_path):
    signer = signing.signer(tmp_path / "ledger.key")
    pruned, *_ = full_run(bed)
    kept = new_run(bed)
    bed.put(bed.intent())

    def exported():
        lines = list(export.export(bed.opened.database, signer, Filter()))
        assert trail.audit(lines, lambda *_: True).findings == ()
        return lines

    before = exported()
    prune(bed)
    after = exported()
    assert since(before, after) == []
    assert f'"pruned_run":"{pruned}"' in after[1].decode()

    execute(bed, f"update fences set pruned_at = null where run_id = '{pruned}'")
    assert {finding.what.split(",")[0].split(" is ")[1] for finding in since(before, exported())} == {"missing"}
    assert counts(bed, kept)["actions"] == 1


def test_a_removal_is_not_taken_for_a_restore(bed, tmp_path):
    database = bed.opened.database
    witness = Witness(tmp_path / "witness", identity.ensure(database).ledger_id)
    witness.note(bed.put(bed.intent()))
    close(bed)
    prune(bed)
    marks = [mark.to_json() for mark in witness.recent()]
    assert identity.notice(database, marks).held_at is None
    execute(bed, "update fences set pruned_at = null")
    assert identity.notice(database, marks).held_at is not None, "the negative control"
    witness.close()


def test_a_running_service_goes_on_when_its_last_claim_was_removed(bed, tmp_path):
    database = bed.opened.database
    known = identity.ensure(database)
    bed.opened.store.watch = Watch(database, Witness(tmp_path / "witness", known.ledger_id), known)
    bed.put(bed.intent())
    close(bed)
    assert prune(bed).runs == 1
    new_run(bed)
    assert bed.put(bed.intent()).status is Status.SUCCEEDED
    assert bed.opened.store.watch.identity.held_at is None
    bed.opened.store.watch.stop()


# Beside running services


def test_a_run_that_is_in_use_is_left_to_the_next_time(postgres):
    bed = postgres
    bed.put(bed.intent())
    close(bed)
    with psycopg.connect(bed.opened.database.conninfo) as other:
        other.execute("select from fences where run_id = %s for share", (bed.run_id,))
        assert prune(bed) == Removal()
    assert prune(bed).runs == 1


def test_what_was_touched_between_the_look_and_the_locks_stays(bed, monkeypatch):
    action = bed.put(bed.intent())
    close(bed)
    before = later(bed)
    found = retention.prunable(bed.opened.database, before)
    text = before.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    execute(bed, f"update actions set updated_at = '{text}' where action_id = '{action.action_id}'")
    monkeypatch.setattr(retention, "prunable", lambda *_: found)
    assert retention.prune(bed.opened.database, before) == Removal()
    assert counts(bed, bed.run_id)["actions"] == 1


def test_services_go_on_while_runs_are_removed(bed, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    gone = []
    for _ in range(20):
        gone.append(new_run(bed))
        bed.put(bed.intent())
        close(bed)
    new_run(bed)
    before, done, failed = later(bed), [], []
    over = threading.Event()

    def work(number):
        while not over.is_set():
            try:
                done.append(bed.put(bed.intent(f"t{number}.{len(done)}")))
            except errors.LedgerError as error:
                failed.append(error)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    removed = retention.prune(bed.opened.database, before)
    over.set()
    for worker in workers:
        worker.join()
    assert (removed.runs, failed) == (20, [])
    assert len(bed.ledger.store.actions(run_id=bed.run_id, limit=1000)) == len(done)
    assert all(counts(bed, run_id)["actions"] == 0 for run_id in gone)
