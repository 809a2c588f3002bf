"""Claims: who may drive a run, by the database's clock and by who is seen to live. The tests set the clock."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from runs import lease, registry
from runs.errors import DrivenElsewhere, RunNotFound
from runs.holder import RETAKE_SECONDS, SqliteHolder, host_name, is_that_process, process_started
from runs.store import PostgresStore, SqliteStore
from tests.support.runs_processes import Child, spec_of, store_of
from tests.support.runs_world import close, is_alive, new_run, until

pytest_plugins = ("tests.support.runs_fixtures",)

LEASE = 60.0


def at(store, seconds):
    """The same store, `seconds` later by the clock that decides."""
    with closing(store.database()) as database:
        clock = database.now() + timedelta(seconds=seconds)
    if store.kind == "postgres":
        return PostgresStore(store.dsn, clock=clock)
    return SqliteStore(store.path, store.locks, clock=clock)


@pytest.fixture
def run(store, database, objects, tmp_path):
    return new_run(database, objects, tmp_path, store=store.kind)


@pytest.fixture
def open_holder(store):
    """`open_holder()`: a holder of this process; all are closed with the test."""
    made = []

    def opening(where=store):
        made.append(where.open_holder("test"))
        return made[-1]

    yield opening
    for holder in made:
        holder.close()


@pytest.fixture
def server_is_old(store, monkeypatch):
    """The server of these tests has just started, which would make every absent lock say nothing."""
    if store.kind == "postgres":
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            connection.execute(
                "create or replace function onward.onward_server_is_young(lease_seconds double precision) "
                "returns boolean language sql stable as 'select false'"
            )


def claim(store, database, run, holder, **more):
    return lease.claim(store, database, run.run_id, holder, lease_seconds=LEASE, **more)


def elsewhere(monkeypatch):
    """Make this machine look like another one than the driver's."""
    monkeypatch.setattr(lease, "host_name", lambda: "another machine")


def test_a_first_claim_is_epoch_one(store, database, run, open_holder):
    holder = open_holder()
    got = claim(store, database, run, holder)
    assert (got.epoch, got.why, got.before) == (1, "queued", 0)
    assert (got.run.status, got.run.epoch, got.run.holder_id) == ("running", 1, holder.holder_id)
    assert (got.run.host, got.run.pid) == (host_name(), os.getpid())
    assert got.run.expires_at - got.run.now_at > timedelta(seconds=LEASE - 5)
    assert got.run.driver == "alive"


def test_a_living_holder_keeps_its_run(store, database, run, open_holder):
    claim(store, database, run, open_holder())
    with pytest.raises(DrivenElsewhere, match=f"process {os.getpid()} on {host_name()}"):
        claim(store, database, run, open_holder())


@pytest.mark.parametrize(("seconds", "taken"), [(LEASE - 2, False), (LEASE + 1, True)])
def test_a_living_holder_loses_it_when_the_lease_is_over(store, database, run, open_holder, seconds, taken):
    claim(store, database, run, open_holder())
    later = at(store, seconds)
    with closing(later.database()) as there:
        assert registry.get(there, run.run_id).driver == ("hanging" if taken else "alive")
        if taken:
            got = claim(later, there, run, open_holder())
            assert (got.epoch, got.why) == (2, "expired")
        else:
            with pytest.raises(DrivenElsewhere):
                claim(later, there, run, open_holder())


def test_a_lease_that_is_renewed_between_look_and_lock_is_not_taken(store, database, run, open_holder, monkeypatch):
    first = open_holder()
    claim(store, database, run, first)
    later = at(store, LEASE + 1)
    original = lease.standing

    def renewed_meanwhile(seen, **more):
        found = original(seen, **more)
        with closing(at(store, LEASE).database()) as there, there.transaction() as tx:
            tx.run("renew_lease", run_id=run.run_id, epoch=1, holder_id=first.holder_id)
        return found

    monkeypatch.setattr(lease, "standing", renewed_meanwhile)
    with closing(later.database()) as there, pytest.raises(DrivenElsewhere):
        claim(later, there, run, open_holder())
    assert registry.get(database, run.run_id).epoch == 1


def test_a_holder_that_is_gone_is_replaced_before_its_lease_is_over(store, database, run, open_holder, server_is_old):
    first = open_holder()
    claim(store, database, run, first)
    close(first, store)
    seen = registry.get(database, run.run_id)
    assert seen.driver == "gone"
    got = claim(store, database, run, open_holder())
    assert (got.epoch, got.why) == (2, "gone")


def test_gone_needs_two_looks_on_postgres(postgres_store, objects, tmp_path, monkeypatch):
    """The control: a holder that is seen again on the second look keeps its run."""
    with closing(postgres_store.database()) as database:
        run = new_run(database, objects, tmp_path)
        holder, second = postgres_store.open_holder("test"), postgres_store.open_holder("test")
        claim(postgres_store, database, run, holder)
        looks = []
        original = registry.get

        def blind_once(where, run_id):
            found = original(where, run_id)
            looks.append(found.holder_alive)
            if len(looks) == 1:
                object.__setattr__(found, "holder_alive", False)
                object.__setattr__(found, "server_is_young", False)
            return found

        monkeypatch.setattr(lease.registry, "get", blind_once)
        with pytest.raises(DrivenElsewhere):
            claim(postgres_store, database, run, second)
        assert looks[:2] == [True, True]
        holder.close()
        second.close()


def test_a_server_that_has_just_started_proves_nothing(postgres_store, objects, tmp_path, monkeypatch):
    """A restart frees every lock at once, while the drivers live and come back."""
    with psycopg.connect(postgres_store.dsn) as connection:
        started = connection.execute("select pg_postmaster_start_time()").fetchone()[0]
    early = PostgresStore(postgres_store.dsn, clock=started + timedelta(seconds=1))
    late = PostgresStore(postgres_store.dsn, clock=started + timedelta(seconds=LEASE + 0.5))
    elsewhere(monkeypatch)  # here the dead process would be known to be dead
    with closing(early.database()) as soon, closing(late.database()) as later:
        run = new_run(soon, objects, tmp_path)
        holder, second = early.open_holder("test"), early.open_holder("test")
        claim(early, soon, run, holder)
        close(holder, early)
        with pytest.raises(DrivenElsewhere, match="has just started"):
            claim(early, soon, run, second)
        assert soon.now() < registry.get(soon, run.run_id).expires_at
        assert not registry.get(later, run.run_id).server_is_young
        got = claim(late, later, run, second)
        assert (got.epoch, got.why) == (2, "gone")
        second.close()


def test_after_a_reboot_a_process_known_to_be_dead_is_gone_at_once(postgres_store, objects, tmp_path):
    with psycopg.connect(postgres_store.dsn) as connection:
        started = connection.execute("select pg_postmaster_start_time()").fetchone()[0]
    early = PostgresStore(postgres_store.dsn, clock=started + timedelta(seconds=1))
    with closing(early.database()) as soon:
        run = new_run(soon, objects, tmp_path)
        holder = early.open_holder("test")
        claim(early, soon, run, holder)
        close(holder, early)
        with psycopg.connect(postgres_store.dsn) as connection:
            connection.execute("update onward.holders set process_started = process_started - 1000")
        second = early.open_holder("test")
        assert claim(early, soon, run, second).why == "gone"
        second.close()


def test_a_driver_that_outlived_a_restart_of_the_server_goes_on_itself(postgres_store, objects, tmp_path):
    """Its own earlier drive is over: it has not to wait until the server is old enough to say so."""
    with psycopg.connect(postgres_store.dsn) as connection:
        started = connection.execute("select pg_postmaster_start_time()").fetchone()[0]
    early = PostgresStore(postgres_store.dsn, clock=started + timedelta(seconds=1))
    with closing(early.database()) as soon:
        run = new_run(soon, objects, tmp_path)
        holder = early.open_holder("test")
        claim(early, soon, run, holder)
        close(holder, early)
        assert registry.get(soon, run.run_id).server_is_young
        second = early.open_holder("test")
        assert claim(early, soon, run, second).why == "gone"
        second.close()


def test_a_run_that_was_released_is_claimed_at_once(store, database, run, open_holder):
    first = open_holder()
    claimed = claim(store, database, run, first).run
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run.run_id)
        assert registry.move(tx, claimed, "requeue", epoch=1, reason="drained")
        tx.run("release_lease", run_id=run.run_id, epoch=1)
    got = claim(store, database, run, open_holder())
    assert (got.epoch, got.why, got.before) == (2, "queued", 1)


def test_of_many_claimers_at_once_one_wins_and_each_other_is_told_who(store, run):
    won, lost = [], []
    barrier = threading.Barrier(5)

    def claimer():
        holder = store.open_holder("test")
        with closing(store.database()) as database:
            barrier.wait()
            try:
                won.append((claim(store, database, run, holder), holder))
            except DrivenElsewhere as error:
                lost.append(error)
                holder.close()

    threads = [threading.Thread(target=claimer) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and len(lost) == 4
    assert all((error.pid, error.epoch) == (os.getpid(), 1) for error in lost)
    won[0][1].close()


def test_an_unknown_run_is_not_found(store, database, open_holder):
    with pytest.raises(RunNotFound):
        lease.claim(store, database, "00000000-0000-4000-8000-000000000000", open_holder(), lease_seconds=LEASE)


def test_heartbeats_renew_only_their_own_epoch(store, database, run, open_holder):
    first, second = open_holder(), open_holder()
    claim(store, database, run, first)
    before = registry.get(database, run.run_id).expires_at
    assert first.renew(run.run_id, 1)
    assert registry.get(database, run.run_id).expires_at > before
    assert not second.renew(run.run_id, 1)
    assert not first.renew(run.run_id, 2)
    later = at(store, LEASE + 1)
    with closing(later.database()) as there:
        claim(later, there, run, second)
    assert not first.renew(run.run_id, 1)
    assert second.renew(run.run_id, 2)


def test_the_epoch_goes_beyond_the_ledger_s(store, database, run, open_holder):
    holder = open_holder()
    claimed = claim(store, database, run, holder).run
    assert lease.raise_epoch(database, claimed, 1, 9, holder)
    assert registry.get(database, run.run_id).epoch == 9
    assert not lease.raise_epoch(database, claimed, 1, 12, holder)  # no longer at 1
    assert not lease.raise_epoch(database, claimed, 9, 12, open_holder())  # not the holder
    assert registry.get(database, run.run_id).epoch == 9


def test_claimable_shows_what_a_driver_may_take(store, database, objects, tmp_path, open_holder, server_is_old):
    def claimable(where=None):
        with closing((where or store).database()) as there, there.reading() as tx:
            return {row["run_id"]: row["why"] for row in tx.all("claimable")}

    fresh, asleep, driven, gone = (new_run(database, objects, tmp_path, store=store.kind) for _ in range(4))
    living, dying = open_holder(), open_holder()
    claim(store, database, driven, living)
    claim(store, database, gone, dying)
    slept = claim(store, database, asleep, living).run
    with database.transaction() as tx:
        tx.one("lock_run", run_id=asleep.run_id)
        registry.move(tx, slept, "requeue", epoch=1, reason="transient", failures=1, wake_seconds=30)
    assert claimable() == {fresh.run_id: "queued"}
    close(dying, store)
    assert claimable() == {fresh.run_id: "queued", gone.run_id: "gone"}
    assert claimable(at(store, 31))[asleep.run_id] == "queued"
    assert claimable(at(store, LEASE + 5)) == {
        fresh.run_id: "queued",
        asleep.run_id: "queued",
        driven.run_id: "expired",
        gone.run_id: "expired",
    }


def hold(folder, spec):
    """A holder in a process of its own, until it is killed."""
    store = store_of(spec)
    holder = store.open_holder("test")
    (folder / "holder").write_text(str(holder.holder_id))
    (folder / "at work").touch()
    threading.Event().wait()


def test_a_killed_process_stops_being_alive_at_once(store, database, tmp_path):
    child = Child(hold, tmp_path / "child", spec_of(store))
    child.reached("work")
    holder_id = int((child.folder / "holder").read_text())
    alive = is_alive(store)
    assert alive(holder_id)
    assert not alive(holder_id + 1000)
    child.kill()
    until(lambda: not alive(holder_id), 2)


def test_a_holder_that_loses_its_connection_takes_its_key_again(postgres_store, objects, tmp_path):
    alive = is_alive(postgres_store)
    with closing(postgres_store.database()) as database:
        run = new_run(database, objects, tmp_path)
        holder = postgres_store.open_holder("test")
        claim(postgres_store, database, run, holder)
        old = holder._connection.info.backend_pid
        with psycopg.connect(postgres_store.dsn, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s)", (old,))
            until(lambda: not alive(holder.holder_id))
        from onward_ledger.database import Unreachable

        with pytest.raises(Unreachable):
            holder.renew(run.run_id, 1)
        assert holder.renew(run.run_id, 1)
        assert alive(holder.holder_id)
        holder.close()


def test_a_holder_ends_its_own_half_dead_session(postgres_store, objects, tmp_path):
    """Our side of the connection is gone, the server's still holds the key."""
    with closing(postgres_store.database()) as database:
        run = new_run(database, objects, tmp_path)
        holder = postgres_store.open_holder("test")
        claim(postgres_store, database, run, holder)
        old = holder._connection
        holder._connection = holder._connect()  # returns within RETAKE_SECONDS, or raises
        assert RETAKE_SECONDS > 1
        assert holder.renew(run.run_id, 1)
        with pytest.raises(psycopg.OperationalError):
            old.execute("select 1")
        holder.close()


def test_a_sqlite_holder_leaves_no_file_and_a_dead_one_s_is_removed(sqlite_store):
    holder = sqlite_store.open_holder("test")
    assert [path.name for path in sqlite_store.locks.iterdir()] == [f"holder-{holder.holder_id}.lock"]
    holder.close()
    assert list(sqlite_store.locks.iterdir()) == []
    (sqlite_store.locks / "holder-77.lock").touch()
    assert not is_alive(sqlite_store)(77)
    assert list(sqlite_store.locks.iterdir()) == []
    assert isinstance(holder, SqliteHolder)


def test_a_reused_pid_is_told_apart():
    mine = process_started(os.getpid())
    assert is_that_process(os.getpid(), mine)
    assert not is_that_process(os.getpid(), mine - 100)
    assert process_started(2**22 + 5) is None
