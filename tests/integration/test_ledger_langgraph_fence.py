"""The fence alone, for a stock PostgresSaver: late writes of a former driver are refused. With its controls."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg_pool import ConnectionPool

from onward_ledger.errors import BadRequest, Conflict
from onward_ledger.langgraph import fence
from tests.support.fenced_threads import END_STATE, NODES, builder, driving, go_on
from tests.support.runs_processes import Child
from tests.support.runs_world import until

THREAD = 'order 7\t\\of: "Zoë\'s" shop'


def install(conninfo):
    with PostgresSaver.from_conn_string(conninfo) as saver:
        saver.setup()
    fence.install(conninfo)


@pytest.fixture(scope="module")
def conninfo(postgres_server, database_template):
    name = database_template("ledger_fence_alone", install)
    return postgres_server.replace("/postgres?", f"/{name}?", 1)


@pytest.fixture
def empty(database_url):
    """A database in which the checkpointer has been set up, and nothing else."""
    with PostgresSaver.from_conn_string(database_url) as saver:
        saver.setup()
    return database_url


def refused(conninfo, thread_id):
    with pytest.raises(psycopg.Error) as error:
        go_on(conninfo, thread_id)
    return error.value.sqlstate == fence.REFUSED


def forks(conninfo, thread_id):
    """Checkpoints beyond the first with the same parent."""
    with psycopg.connect(conninfo) as connection:
        rows = connection.execute(
            "select parent_checkpoint_id, checkpoint_id from checkpoints where thread_id = %s order by 2", (thread_id,)
        ).fetchall()
    assert rows[0][0] is None
    return sum(number - 1 for number in Counter(parent for parent, _ in rows).values())


def test_the_newer_driver_writes_and_the_older_one_is_refused(conninfo):
    assert [fence.take(conninfo, THREAD) for _ in range(2)] == [1, 2]
    older, newer = (fence.fenced(conninfo, THREAD, epoch) for epoch in (1, 2))
    assert refused(older, THREAD)
    assert refused(fence.fenced(conninfo, "other", fence.take(conninfo, "other")), THREAD), "at the same epoch"
    assert refused(conninfo, THREAD), "who says nothing writes no thread that was taken"
    assert go_on(newer, THREAD) == END_STATE
    assert refused(newer, "another thread, which nobody took")
    assert go_on(conninfo, "nobody's") == END_STATE


def test_tidying_up_needs_no_fence_and_an_older_driver_cannot(conninfo):
    thread = "to be removed"
    newer = [fence.fenced(conninfo, thread, fence.take(conninfo, thread)) for _ in range(2)]
    go_on(newer[1], thread)
    with PostgresSaver.from_conn_string(newer[0]) as late, pytest.raises(psycopg.Error, match="stale epoch"):
        late.delete_thread(thread)
    with PostgresSaver.from_conn_string(conninfo) as saver:
        assert saver.get_tuple({"configurable": {"thread_id": thread}}) is not None
        saver.delete_thread(thread)
        assert saver.get_tuple({"configurable": {"thread_id": thread}}) is None


@pytest.mark.anyio
async def test_the_async_checkpointer_is_fenced_as_well(conninfo):
    thread = "async"
    config = {"configurable": {"thread_id": thread}}
    drivers = [fence.fenced(conninfo, thread, fence.take(conninfo, thread)) for _ in range(2)]
    async with AsyncPostgresSaver.from_conn_string(drivers[1]) as saver:
        assert await builder().compile(checkpointer=saver).ainvoke({"n": 0}, config) == END_STATE
    async with AsyncPostgresSaver.from_conn_string(drivers[0]) as saver:
        with pytest.raises(psycopg.Error, match="stale epoch"):
            await builder().compile(checkpointer=saver).ainvoke({"n": 0}, config)


def test_a_pool_keeps_the_fence_over_a_reconnection(conninfo):
    thread = "pool"
    with ConnectionPool(
        fence.fenced(conninfo, thread, fence.take(conninfo, thread)), min_size=1, kwargs={"autocommit": True}
    ) as pool:
        fences = []
        for _ in range(2):
            with pool.connection() as connection:
                fences.append(connection.execute("select current_setting('onward.fence')").fetchone()[0])
                connection.close()
    assert fences == [f"{thread}:1"] * 2


def test_what_has_a_thread_id_and_is_not_the_checkpointer_s_stays_as_it_was(empty):
    with psycopg.connect(empty) as connection:
        connection.execute("create table messages (thread_id text)")
    fence.install(empty)
    with psycopg.connect(empty) as connection:
        connection.execute("create table checkpoint_extra (thread_id text)")
        fenced = connection.execute(
            "select tgrelid::regclass::text from pg_trigger where tgfoid = 'onward_fence_hold'::regproc order by 1"
        ).fetchall()
    assert fenced == [("checkpoint_blobs",), ("checkpoint_writes",), ("checkpoints",)]
    with pytest.raises(BadRequest, match="no fence on checkpoint_extra"):
        fence.take(empty, "t")
    fence.install(empty)  # a table that a newer checkpointer made
    assert fence.take(empty, "t") == 1


def test_without_its_tables_it_says_so(database_url):
    for call in (lambda: fence.install(database_url), lambda: fence.take(database_url, "t")):
        with pytest.raises(BadRequest, match="setup"):
            call()


def test_a_take_before_the_fence_is_there_says_so(empty):
    with pytest.raises(BadRequest, match=r"no fence on checkpoint_blobs, .*install"):
        fence.take(empty, "t")


def test_tables_in_a_schema_of_their_own_are_found_by_the_search_path(database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute('create schema "My app"')
    there = psycopg.conninfo.make_conninfo(database_url, options='-c search_path="My\\ app"')
    install(there)
    drivers = [fence.fenced(there, "t", fence.take(there, "t")) for _ in range(2)]
    assert refused(drivers[0], "t")
    assert go_on(drivers[1], "t") == END_STATE
    with psycopg.connect(database_url) as connection:
        (found,) = connection.execute(
            "select relnamespace::regnamespace::text from pg_class where relname='onward_fence'"
        )
    assert found == ('"My app"',)


def test_who_writes_needs_no_right_on_the_epochs(empty, postgres_server):
    fence.install(empty)
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute("drop role if exists saver")
        admin.execute("create role saver login")
        admin.execute("grant select, insert, update on checkpoints, checkpoint_blobs, checkpoint_writes to saver")
        admin.execute("grant select on checkpoint_migrations to saver")
    saver = empty.replace("postgres@", "saver@", 1)
    epochs = [fence.take(empty, "t"), fence.take(empty, "t")]
    assert refused(fence.fenced(saver, "t", epochs[0]), "t")
    assert go_on(fence.fenced(saver, "t", epochs[1]), "t") == END_STATE
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        fence.take(saver, "t")
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute("drop owned by saver")
        admin.execute("drop role saver")


def test_a_session_that_is_no_driver_s_is_not_ended(conninfo):
    thread = "kept"
    fence.take(conninfo, thread)
    with psycopg.connect(conninfo) as stranger:
        stranger.execute("select from onward_fence where thread_id = %s for key share", (thread,))
        with pytest.raises(Conflict, match="pg_stat_activity"):
            fence.take(conninfo, thread, patience_seconds=0.2)
        assert stranger.execute("select 1").fetchone() == (1,)
    assert fence.take(conninfo, thread) == 2


def test_many_install_at_once(empty):
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fence.install, [empty] * 4)) == [None] * 4
    assert fence.take(empty, "t") == 1


# --- the zombie -----------------------------------------------------------------------------------------------------


def pipelines_of_a_run(conninfo):
    original, count = psycopg.Pipeline.__enter__, [0]

    def enter(self):
        count[0] += self.level == 0
        return original(self)

    psycopg.Pipeline.__enter__ = enter
    try:
        go_on(conninfo, "counted")
    finally:
        psycopg.Pipeline.__enter__ = original
    return count[0]


def zombie(tmp_path, conninfo, name, pipeline, *, inside, fenced=True):
    """A driver stopped at a pipeline, replaced, and woken: what it told, and the forks that it left."""
    thread = f"{name} {pipeline}"
    mine = fence.fenced(conninfo, thread, fence.take(conninfo, thread)) if fenced else conninfo
    child = Child(driving, tmp_path / thread.replace(" ", "-"), mine, thread, pipeline, inside)
    try:
        child.stopped()
        other = fence.fenced(conninfo, thread, fence.take(conninfo, thread)) if fenced else conninfo
        assert go_on(other, thread) == END_STATE
    finally:
        child.signal(signal.SIGCONT)
        until(lambda: child.told() is not None)
    return child.told(), forks(conninfo, thread)


@pytest.mark.campaign
def test_a_woken_zombie_forks_nothing_at_any_pipeline_and_without_the_fence_it_does(conninfo, tmp_path):
    pipelines = pipelines_of_a_run(conninfo)
    assert pipelines >= 2 * len(NODES), pipelines
    ends = []
    for inside in (False, True):
        for number in range(1, pipelines + 1):
            told, forked = zombie(tmp_path, conninfo, f"fenced {inside}", number, inside=inside)
            assert forked == 0
            ends.append(told.get("sqlstate", "cut off") or "cut off")
    # Those that got as far as a write were refused, or their session was terminated in the middle of one.
    assert Counter(ends)[fence.REFUSED] >= pipelines - 1
    assert not any("values" in end for end in ends)
    without = [
        zombie(tmp_path, conninfo, "control", number, inside=False, fenced=False)[1]
        for number in range(1, pipelines + 1)
    ]
    assert sum(number > 0 for number in without) >= len(NODES)
