"""The fence: a checkpoint write of a managed run counts only under the epoch of its lease. With its controls."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool as Pool

from graph.context import LeaseLost
from onward_ledger.database import MissingRight
from runs import lease, registry
from runs.checkpoints import (
    FencedSqliteSaver,
    _assert_fence_arrived,
    _postgres_pool,
    fence,
    fenced_sqlite,
    open_saver,
    set_up,
)
from runs.errors import ServiceUnreachable
from runs.failures import meaning
from runs.store import PostgresStore, SqliteStore, driver_name
from tests.support.runs_processes import Child, pause_at, spec_of, store_of
from tests.support.runs_world import MemoryLedger, TestContext, build, new_run, until

pytest_plugins = ("tests.support.runs_fixtures",)


def always():
    return None


def put(saver, thread_id, number=1, parent=None):
    """One checkpoint, one blob, one pending write."""
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": parent}}
    checkpoint = empty_checkpoint() | {"channel_values": {"log": [number]}, "channel_versions": {"log": f"{number}"}}
    metadata = {"source": "loop", "step": number, "parents": {}}
    written = saver.put(config, checkpoint, metadata, {"log": f"{number}"})
    saver.put_writes(written, [("log", [number])], "00000000-0000-0000-0000-000000000001")
    return written["configurable"]["checkpoint_id"]


def head(store, thread_id):
    with open_saver(store, "none", 0, 0, always) as saver:
        found = saver.get_tuple({"configurable": {"thread_id": thread_id}})
    return found.checkpoint["id"] if found else None


@pytest.fixture
def claimed(store, database, objects, tmp_path):
    """`claimed()`: a run at epoch 1, or claimed again under the next one; returns (run_id, epoch)."""
    holders = []

    def claiming(run_id=None):
        run_id = run_id or new_run(database, objects, tmp_path, store=store.kind).run_id
        for holder in holders:
            holder.close()
        holders[:] = [store.open_holder("test")]
        if store.kind == "postgres":
            with psycopg.connect(store.dsn) as connection:
                connection.execute("update onward.leases set expires_at = onward.onward_now()")
        else:
            with database.transaction() as tx:
                epoch = tx.one("epoch_of", run_id=run_id)
                if epoch:
                    tx.run("release_lease", run_id=run_id, epoch=epoch["epoch"])
        return run_id, lease.claim(store, database, run_id, holders[0], lease_seconds=60).epoch

    yield claiming
    for holder in holders:
        holder.close()


def remove_fence(store):
    """What the world looks like without it."""
    if store.kind == "postgres":
        with psycopg.connect(store.dsn) as connection:
            for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs"):
                connection.execute(f"drop trigger hold_fence on onward.{table}")
    else:
        connection = sqlite3.connect(store.path)
        for table in ("checkpoints", "writes"):
            connection.execute(f"drop trigger hold_fence_insert_{table}")
            connection.execute(f"drop trigger hold_fence_update_{table}")
        connection.close()


def refused(error):
    return meaning(error.value) == "fenced"


def test_the_epoch_of_the_lease_writes(store, claimed):
    run_id, epoch = claimed()
    with open_saver(store, run_id, epoch, 1, always) as saver:
        written = put(saver, run_id)
    assert head(store, run_id) == written


@pytest.mark.parametrize("epoch", [0, 2, 11])
def test_any_other_epoch_is_refused(store, claimed, epoch):
    run_id, _ = claimed()
    with open_saver(store, run_id, epoch, 1, always) as saver, pytest.raises(Exception) as error:
        put(saver, run_id)
    assert refused(error)
    assert head(store, run_id) is None


def test_an_older_epoch_is_refused_after_a_take_over_also_for_updates_and_pending_writes(store, claimed):
    run_id, _ = claimed()
    with open_saver(store, run_id, 1, 1, always) as old:
        written = put(old, run_id)
        claimed(run_id)
        config = {"configurable": {"thread_id": run_id, "checkpoint_ns": "", "checkpoint_id": written}}
        with pytest.raises(Exception) as error:
            old.put_writes(config, [("x", 1)], "00000000-0000-0000-0000-000000000002")
        assert refused(error)
        with pytest.raises(Exception) as error:  # the same key again: an update
            old.put_writes(config, [("__error__", 1)], "00000000-0000-0000-0000-000000000001")
        assert refused(error)
        with pytest.raises(Exception) as error:
            put(old, run_id, 2, written)
        assert refused(error)
    with open_saver(store, run_id, 2, 2, always) as new:
        assert new.get_tuple(config).pending_writes == [("00000000-0000-0000-0000-000000000001", "log", [1])]
        second = put(new, run_id, 2, written)
    assert head(store, run_id) == second


def test_an_update_is_a_write_too(store, claimed):
    run_id, epoch = claimed()
    with open_saver(store, run_id, epoch, 1, always) as saver:
        put(saver, run_id)
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    if store.kind == "postgres":
        for table in tables:
            with psycopg.connect(store.dsn, options=f"-c search_path=onward -c onward.fence={run_id}:9") as late:
                with pytest.raises(psycopg.Error) as error:
                    late.execute(f"update {table} set checkpoint_ns = 'x' where thread_id = %s", (run_id,))
                assert error.value.sqlstate == "OW001"
    else:
        for table in ("checkpoints", "writes"):
            with closing(fenced_sqlite(store, f"{run_id}:9")) as late, pytest.raises(sqlite3.IntegrityError) as error:
                late.execute(f"update {table} set checkpoint_ns = 'x' where thread_id = ?", (run_id,))
            assert refused(error)


def test_the_control_without_the_fence_the_late_write_becomes_the_head(store, claimed):
    run_id, _ = claimed()
    with open_saver(store, run_id, 1, 1, always) as old:
        written = put(old, run_id)
        claimed(run_id)
        remove_fence(store)
        with open_saver(store, run_id, 2, 2, always) as new:
            put(new, run_id, 2, written)
        late = put(old, run_id, 3, written)
    assert head(store, run_id) == late  # a fork, and nobody was told


def test_one_run_s_connection_cannot_write_into_another_run_at_the_same_epoch(
    store, claimed, database, objects, tmp_path
):
    first, epoch = claimed()
    other = new_run(database, objects, tmp_path, store=store.kind).run_id
    holder = store.open_holder("test")
    assert lease.claim(store, database, other, holder, lease_seconds=60).epoch == epoch == 1
    with open_saver(store, first, 1, 1, always) as saver, pytest.raises(Exception) as error:
        put(saver, other)
    assert refused(error)
    holder.close()


def test_a_thread_that_no_run_owns_is_written_only_without_a_fence(store):
    with open_saver(store, "a", 1, 1, always) as saver, pytest.raises(Exception) as error:
        put(saver, "somebody's thread")
    assert refused(error)
    if store.kind == "postgres":
        with psycopg.connect(
            store.dsn, autocommit=True, row_factory=dict_row, options="-c search_path=onward"
        ) as connection:
            put(PostgresSaver(connection), "somebody's thread")
    else:
        with closing(fenced_sqlite(store, None)) as connection:
            put(SqliteSaver(connection), "somebody's thread")


def test_a_stranger_s_connection_cannot_write_a_managed_run(store, claimed):
    run_id, _ = claimed()
    if store.kind == "postgres":
        with (
            psycopg.connect(store.dsn, autocommit=True, row_factory=dict_row, options="-c search_path=onward") as plain,
            pytest.raises(psycopg.Error) as error,
        ):
            put(PostgresSaver(plain), run_id)
        assert error.value.sqlstate == "OW001"
    else:
        with (
            closing(sqlite3.connect(store.path)) as plain,
            pytest.raises(sqlite3.OperationalError, match="onward_fence"),
        ):
            put(SqliteSaver(plain), run_id)


def test_a_lost_lease_stops_every_call_before_it_reaches_the_database(store, claimed):
    run_id, epoch = claimed()

    def lost():
        raise LeaseLost("lost")

    with open_saver(store, run_id, epoch, 1, lost) as saver:
        with pytest.raises(LeaseLost):
            put(saver, run_id)
        with pytest.raises(LeaseLost):
            saver.get_tuple({"configurable": {"thread_id": run_id}})
        with pytest.raises(LeaseLost):
            saver.put_writes({"configurable": {}}, [], "t")
    assert head(store, run_id) is None


def test_every_table_with_a_thread_id_has_the_fence(store):
    if store.kind == "postgres":
        with psycopg.connect(store.dsn, options="-c search_path=onward") as connection:
            tables = connection.execute(
                "select table_name from information_schema.columns "
                "where table_schema = 'onward' and column_name = 'thread_id' order by 1"
            ).fetchall()
            fenced = connection.execute(
                "select tgrelid::regclass::text from pg_trigger where tgfoid = 'hold_fence'::regproc order by 1"
            ).fetchall()
        assert tables == fenced == [("checkpoint_blobs",), ("checkpoint_writes",), ("checkpoints",)]
    else:
        with closing(sqlite3.connect(store.path)) as connection:
            found = connection.execute("select name from sqlite_master where type = 'trigger' order by 1").fetchall()
        assert [name for (name,) in found] == [
            "hold_fence_insert_checkpoints",
            "hold_fence_insert_writes",
            "hold_fence_update_checkpoints",
            "hold_fence_update_writes",
        ]


def test_set_up_again_mends_a_missing_fence_and_touches_nothing_else(store, claimed):
    run_id, epoch = claimed()
    with open_saver(store, run_id, epoch, 1, always) as saver:
        written = put(saver, run_id)
    remove_fence(store)
    set_up(store)
    with open_saver(store, run_id, epoch + 1, 1, always) as saver, pytest.raises(Exception) as error:
        put(saver, run_id, 2, written)
    assert refused(error)
    assert head(store, run_id) == written


def test_a_set_up_that_finds_all_in_place_waits_for_no_driver(postgres_store):
    """`create trigger` would wait for every open transaction on the table."""
    with psycopg.connect(postgres_store.dsn) as writer:
        writer.execute("lock table onward.checkpoints in row exclusive mode")
        set_up(postgres_store)


def setting_up(folder, spec):
    """Set up a store as soon as the test says so."""
    pause_at(folder, "start")
    set_up(store_of(spec))
    return "done"


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_many_processes_set_up_at_once(kind, database_url, tmp_path):
    store = (
        PostgresStore(database_url) if kind == "postgres" else SqliteStore(tmp_path / "x.sqlite", tmp_path / "locks")
    )
    children = [Child(setting_up, tmp_path / f"child-{n}", spec_of(store)) for n in range(4)]
    for child in children:
        child.reached("start")
    for child in children:
        child.let_go("start")
    for child in children:
        assert child.end(60) == 0
        assert child.told() == "done"
    with open_saver(store, "a", 1, 1, always) as saver, pytest.raises(Exception) as error:
        put(saver, "t")
    assert refused(error)


def test_nothing_of_ours_is_in_public(postgres_store):
    with psycopg.connect(postgres_store.dsn) as connection:
        found = connection.execute(
            "select count(*) from pg_class where relnamespace = 'public'::regnamespace"
        ).fetchone()
    assert found == (0,)


def test_heartbeats_pass_while_a_checkpoint_is_being_written(postgres_store, objects, tmp_path):
    """And the control: a take-over waits for the write."""
    with closing(postgres_store.database()) as database:
        run_id = new_run(database, objects, tmp_path).run_id
        holder = postgres_store.open_holder("test")
        lease.claim(postgres_store, database, run_id, holder, lease_seconds=60)
        options = f"-c search_path=onward -c onward.fence={run_id}:1"
        with psycopg.connect(postgres_store.dsn, options=options) as writing:
            writing.execute(
                "insert into checkpoints (thread_id, checkpoint_id, checkpoint, metadata) values (%s, '1', '{}', '{}')",
                (run_id,),
            )
            assert holder.renew(run_id, 1)
            with (
                psycopg.connect(postgres_store.dsn, options="-c lock_timeout=50") as taking_over,
                pytest.raises(psycopg.errors.LockNotAvailable),
            ):
                taking_over.execute("update onward.leases set epoch = 2 where run_id = %s", (run_id,))
        holder.close()


def test_the_start_up_option_survives_a_reconnection_of_the_pool(postgres_store, objects, tmp_path):
    with closing(postgres_store.database()) as database:
        run_id = new_run(database, objects, tmp_path).run_id
        holder = postgres_store.open_holder("test")
        lease.claim(postgres_store, database, run_id, holder, lease_seconds=60)
        with open_saver(postgres_store, run_id, 1, holder.holder_id, always) as saver:
            first = put(saver, run_id)
            name = driver_name(run_id, holder.holder_id)
            with psycopg.connect(postgres_store.dsn, autocommit=True) as admin:
                ended = admin.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                    "where application_name = %s and pid in (select pid from pg_stat_activity where query !~ 'holder')",
                    (name,),
                ).fetchall()
                assert len(ended) >= 1
            second = put(saver, run_id, 2, first)
        assert head(postgres_store, run_id) == second
        holder.close()


def test_a_transaction_pooler_is_refused_with_the_reason(postgres_store, objects, tmp_path):
    """It gives the holder another session while the claim's transaction has the one that took the key."""
    with closing(postgres_store.database()) as database:
        run = new_run(database, objects, tmp_path)
        holder = postgres_store.open_holder("test")
        kept, holder._connection = holder._connection, psycopg.connect(postgres_store.dsn, row_factory=dict_row)
        with pytest.raises(ServiceUnreachable, match="does not keep sessions"):
            lease.claim(postgres_store, database, run.run_id, holder, lease_seconds=60)
        untouched = registry.get(database, run.run_id)
        assert (untouched.status, untouched.epoch, untouched.version) == ("queued", None, run.version)
        holder.close()
        holder._connection = kept
        assert lease.claim(postgres_store, database, run.run_id, holder, lease_seconds=60).epoch == 1
        holder.close()


@pytest.mark.parametrize(("options", "refusal"), [("-c onward.fence=r:1", False), ("", True)])
def test_a_pooler_that_drops_the_fence_is_refused_with_the_reason(postgres_store, options, refusal):
    options += " -c search_path=onward"
    with Pool(
        postgres_store.dsn, min_size=1, kwargs={"options": options, "autocommit": True, "row_factory": dict_row}
    ) as pool:
        if refusal:
            with pytest.raises(ServiceUnreachable, match="does not keep sessions"):
                _assert_fence_arrived(pool, postgres_store, "r:1")
        else:
            _assert_fence_arrived(pool, postgres_store, "r:1")


@pytest.mark.parametrize("who_makes_the_schema", ["the role", "the owner"])
def test_a_missing_right_is_named_with_the_grant_that_mends_it(postgres_server, database_url, who_makes_the_schema):
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute("drop role if exists weak")
        admin.execute("create role weak login")
    weak = PostgresStore(database_url.replace("postgres@", "weak@", 1))
    with pytest.raises(MissingRight, match="GRANT") as refused:
        set_up(weak)
    for_the_role, for_the_owner = re.search(r"to run: (GRANT .*?;) or, .*?: (CREATE .*)$", str(refused.value)).groups()
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(for_the_role if who_makes_the_schema == "the role" else for_the_owner)
    set_up(weak)


def test_a_real_pool_keeps_sessions_and_its_fence(postgres_store):
    with _postgres_pool(postgres_store, "r", 1, 1) as pool:
        _assert_fence_arrived(pool, postgres_store, fence("r", 1))
        with pytest.raises(ServiceUnreachable):
            _assert_fence_arrived(pool, postgres_store, fence("r", 2))


@pytest.mark.parametrize(("kind", "kept"), [(SqliteSaver, 1), (FencedSqliteSaver, 0)], ids=["stock", "ours"])
def test_half_of_a_task_s_writes_is_never_kept_on_sqlite(sqlite_store, kind, kept):
    """The saver commits also after an error; half of the writes would pass for a finished task. With its control."""
    with closing(fenced_sqlite(sqlite_store, None)) as connection:
        saver = kind(connection) if kind is SqliteSaver else kind(connection, always)
        with pytest.raises(sqlite3.IntegrityError), saver.cursor() as cursor:
            cursor.execute("insert into writes values ('t', '', 'c', 'task', '', 0, 'one', null, x'01')")
            cursor.execute("insert into writes (thread_id) values (null)")
        assert connection.execute("select count(*) from writes").fetchone() == (kept,)


def zombie(folder, spec, run_id, world):
    """A driver without guards: only the fence is between it and the checkpoints."""
    ledger = MemoryLedger()

    class Recorder:
        def __getattr__(self, name):
            return lambda *_, **__: 1

    def pause(_):
        (folder / "at pause").touch()
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.1)  # the stop reaches the threads one after the other, and this one must not go on before

    context = TestContext(
        run_id=run_id, epoch=1, recorder=Recorder(), ledger=ledger, effects=Path(world), hooks={"in test": pause}
    )
    with open_saver(store_of(spec), run_id, 1, 1, always) as saver:
        graph = build().compile(checkpointer=saver)
        config = {"configurable": {"thread_id": run_id}, "max_concurrency": 1}
        try:
            graph.invoke({"log": []}, config, context=context, durability="sync")
        except Exception as error:
            return {"meaning": meaning(error)}
    return {"meaning": "accepted"}


@pytest.mark.parametrize("fenced", [True, False])
def test_a_woken_zombie_is_refused_and_without_the_fence_it_wins(store, database, objects, tmp_path, fenced):
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    holder = store.open_holder("test")
    lease.claim(store, database, run_id, holder, lease_seconds=60)
    if not fenced:
        remove_fence(store)
    child = Child(zombie, tmp_path / "zombie", spec_of(store), run_id, str(tmp_path / "effects"))
    child.reached("pause")
    child.stopped()
    before = head(store, run_id)
    with database.transaction() as tx:
        tx.one("lock_run", run_id=run_id)
        tx.run("take_lease", run_id=run_id, epoch=2, holder_id=holder.holder_id, seconds=60.0)
    with open_saver(store, run_id, 2, 2, always) as saver:
        new = put(saver, run_id, 9, before)
    child.signal(signal.SIGCONT)
    until(lambda: child.told() is not None)
    assert child.told() == {"meaning": "fenced" if fenced else "accepted"}
    assert (head(store, run_id) == new) is fenced
    holder.close()
