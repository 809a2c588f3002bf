"""What we rely on in LangGraph, and the traps in it that a drive has to avoid, each with its control."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import closing, contextmanager
from pathlib import Path

import ormsgpack
import psycopg
import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from runs import events, lease, registry
from runs.checkpoints import FencedPostgresSaver, FencedSqliteSaver, fenced_sqlite, open_saver, serializer
from runs.drive import drive
from runs.endings import Cancelled
from runs.errors import Exit
from runs.next_move import Continue, Finish, next_move, read_position
from tests.support.runs_processes import Child, spec_of, store_of
from tests.support.runs_world import MemoryLedger, TestContext, build, effects_in, new_run, parts

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True

ALL = ["plan", "analyze", "write_draft", "test", "deliver"]


def always():
    return None


class Quiet:
    """A recorder that records nothing."""

    def __getattr__(self, name):
        return lambda *_, **__: 1


def context_for(run_id, world, hooks=None):
    return TestContext(
        run_id=run_id, epoch=1, recorder=Quiet(), ledger=MemoryLedger(), effects=Path(world), hooks=hooks or {}
    )


@pytest.fixture
def claimed(store, database, objects, tmp_path):
    """The id of a run that this process holds at epoch 1."""
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    holder = store.open_holder("test")
    lease.claim(store, database, run_id, holder, lease_seconds=60)
    yield run_id
    holder.close()


# --- the order of a task's writes and the checkpoint behind them ----------------------------------------------------


def dying(folder, spec, run_id, world, delay, concurrency):
    """Drive the bare graph; be gone inside the `put` behind `write_draft`. `delay` slows put_writes or put."""
    with open_saver(store_of(spec), run_id, 1, 1, always) as saver:
        put, put_writes = saver.put, saver.put_writes

        def slow_put(config, checkpoint, metadata, versions):
            if metadata["step"] == 3:  # plan 1, analyze 2, write_draft 3
                if delay == "put":
                    time.sleep(0.08)
                os._exit(86)
            return put(config, checkpoint, metadata, versions)

        def slow_put_writes(*arguments):
            if delay == "put_writes":
                time.sleep(0.08)
            return put_writes(*arguments)

        saver.put, saver.put_writes = slow_put, slow_put_writes
        config = {"configurable": {"thread_id": run_id}, **({"max_concurrency": 1} if concurrency else {})}
        graph = build().compile(checkpointer=saver)
        graph.invoke({"log": []}, config, context=context_for(run_id, world), durability="sync")


@pytest.mark.parametrize(
    ("delay", "concurrency", "executions"),
    [("put_writes", 1, 1), ("put", 1, 1), ("put_writes", None, 2)],
    ids=["writes late", "checkpoint late", "control: writes late, not one at a time"],
)
def test_a_step_that_returned_is_not_executed_again(store, claimed, tmp_path, delay, concurrency, executions):
    world = tmp_path / "effects"
    child = Child(dying, tmp_path / "child", spec_of(store), claimed, str(world), delay, concurrency)
    assert child.end() == 86
    with open_saver(store, claimed, 1, 1, always) as saver:
        graph = build().compile(checkpointer=saver)
        config = {"configurable": {"thread_id": claimed}, "max_concurrency": 1}
        snapshot = graph.get_state(config)
        if executions == 1:
            assert snapshot.next == ()  # which does not mean that it has ended
        assert next_move(read_position(snapshot), {}, {}) == Continue()
        graph.invoke(None, config, context=context_for(claimed, world), durability="sync")
    assert effects_in(world).count("write_draft") == executions


# --- what a checkpoint holds ----------------------------------------------------------------------------------------


def stored_values(store, run_id):
    """The serialized channel values of a thread, as (type, bytes)."""
    if store.kind == "postgres":
        with psycopg.connect(store.dsn) as connection:
            query = "select type, blob from onward.checkpoint_blobs where thread_id = %s and type <> 'empty'"
            return connection.execute(query, (run_id,)).fetchall()
    with closing(fenced_sqlite(store, None)) as connection:
        query = "select type, checkpoint from checkpoints where thread_id = ?"
        return connection.execute(query, (run_id,)).fetchall()


def test_the_bytes_of_the_state_are_json_values_only(store, database, objects, ledger, tmp_path):
    """msgpack's extension types are how the serializer stores classes; a reader without any must understand all."""
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    assert drive(run_id, parts(store, ledger, objects, tmp_path)).exit_code == Exit.OK
    found = stored_values(store, run_id)
    assert len(found) > 5
    for kind, data in found:
        assert kind == "msgpack"
        ormsgpack.unpackb(data)  # raises on an extension type
    with pytest.raises(ValueError, match="ext"):  # the control
        ormsgpack.unpackb(serializer().dumps_typed({"a": Path("x")})[1])


def test_the_serializer_imports_nothing_that_a_row_names(tmp_path):
    """Also when LANGGRAPH_STRICT_MSGPACK was not set before the import. With its control."""
    kind, data = JsonPlusSerializer().dumps_typed(Cancelled("by somebody"))
    permissive = JsonPlusSerializer(allowed_msgpack_modules=True)
    assert isinstance(permissive.loads_typed((kind, data)), Cancelled)
    assert not isinstance(serializer().loads_typed((kind, data)), Cancelled)


# --- going on -------------------------------------------------------------------------------------------------------


def test_a_thread_that_has_begun_is_never_given_its_input_again(store, database, objects, ledger, tmp_path):
    """New input on an interrupted thread drops what was pending and starts anew, silently: see the control."""
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    world = tmp_path / "effects"

    def crash(_):
        raise ConnectionResetError("cut")

    drive(run_id, parts(store, ledger, objects, tmp_path, effects=world, hooks={"in test": crash}))
    assert drive(run_id, parts(store, ledger, objects, tmp_path, effects=world)).exit_code == Exit.OK
    assert effects_in(world) == ALL
    moves = [e.data["move"] for e in events.read_all(database, run_id) if e.kind == "continued"]
    assert moves == ["start", "continue"]


def test_the_control_new_input_starts_anew(store, claimed, tmp_path):
    world = tmp_path / "effects"

    def crash(_):
        raise ConnectionResetError("cut")

    with open_saver(store, claimed, 1, 1, always) as saver:
        graph = build().compile(checkpointer=saver)
        config = {"configurable": {"thread_id": claimed}, "max_concurrency": 1}
        with pytest.raises(ConnectionResetError):
            graph.invoke({"log": []}, config, context=context_for(claimed, world, {"in test": crash}))
        graph.invoke({"log": []}, config, context=context_for(claimed, world))
    assert effects_in(world).count("plan") == 2


def test_a_connection_that_drops_in_the_middle_of_a_step_is_replaced(postgres_store, objects, ledger, tmp_path):
    with closing(postgres_store.database()) as database:
        run_id = new_run(database, objects, tmp_path).run_id

        def drop(_):
            with psycopg.connect(postgres_store.dsn, autocommit=True) as admin:
                ended = admin.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name like %s",
                    (f"onward {run_id}%",),
                ).fetchall()
                assert len(ended) >= 2  # the checkpointer's and the rows'; the heartbeat's connection has another name

        world = tmp_path / "effects"
        outcome = drive(
            run_id, parts(postgres_store, ledger, objects, tmp_path, effects=world, hooks={"in test": drop})
        )
        assert outcome.exit_code == Exit.OK
        assert effects_in(world) == ALL
        assert registry.get(database, run_id).epoch == 1


def test_a_lost_lease_comes_through_the_checkpointer_s_threads(store, database, objects, ledger, tmp_path):
    """The saver is called in LangGraph's worker threads; the signal must end the drive all the same."""
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    world = tmp_path / "effects"

    def lose(context):
        context.recorder._heartbeat.lose("the test says so")

    outcome = drive(run_id, parts(store, ledger, objects, tmp_path, effects=world, hooks={"after write_draft": lose}))
    assert (outcome.reason, outcome.exit_code) == ("lease_lost", Exit.CONFLICT)
    assert effects_in(world) == ALL[:3]
    assert registry.get(database, run_id).status == "running"


def test_checkpoints_form_one_chain_over_all_epochs(store, database, objects, ledger, tmp_path):
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    for place in ("in analyze", "in write_draft", "in deliver"):
        hooks = {place: lambda _: (_ for _ in ()).throw(ConnectionResetError("cut"))}
        drive(run_id, parts(store, ledger, objects, tmp_path, hooks=hooks))
    assert drive(run_id, parts(store, ledger, objects, tmp_path)).exit_code == Exit.OK
    with open_saver(store, "none", 0, 0, always) as saver:
        chain = list(saver.list({"configurable": {"thread_id": run_id}}))
    parents = [c.parent_config["configurable"]["checkpoint_id"] if c.parent_config else None for c in chain]
    assert parents == [*[c.checkpoint["id"] for c in chain[1:]], None]
    assert [c.metadata["step"] for c in chain] == list(range(len(chain) - 2, -2, -1))


def test_a_published_run_is_finished_for_the_rule(store, database, objects, ledger, tmp_path):
    run_id = new_run(database, objects, tmp_path, store=store.kind).run_id
    drive(run_id, parts(store, ledger, objects, tmp_path))
    with open_saver(store, run_id, 1, 1, always) as saver:
        position = read_position(build().compile(checkpointer=saver).get_state({"configurable": {"thread_id": run_id}}))
    assert next_move(position, {}, {position.delivered_by: {}}) == Finish("published")


# --- LangGraph's own suite ------------------------------------------------------------------------------------------


class InThreads:
    """The asynchronous methods that the suite calls, over our synchronous savers."""

    async def aput(self, *arguments):
        return await asyncio.to_thread(self.put, *arguments)

    async def aput_writes(self, *arguments, **named):
        return await asyncio.to_thread(self.put_writes, *arguments, **named)

    async def aget_tuple(self, config):
        return await asyncio.to_thread(self.get_tuple, config)

    async def adelete_thread(self, thread_id):
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def alist(self, config, **named):
        for found in await asyncio.to_thread(lambda: list(self.list(config, **named))):
            yield found


@contextmanager
def unfenced(store):
    """Our saver as it is configured, on threads that no run owns."""
    if store.kind == "postgres":
        kind = type("Suite", (InThreads, FencedPostgresSaver), {})
        settings = {"autocommit": True, "prepare_threshold": None, "row_factory": dict_row}
        with ConnectionPool(f"{store.dsn}&options=-csearch_path%3Donward", kwargs=settings, open=True) as pool:
            yield kind(pool, always)
    else:
        kind = type("Suite", (InThreads, FencedSqliteSaver), {})
        with closing(fenced_sqlite(store, None)) as connection:
            yield kind(connection, always)


def test_the_configured_saver_passes_the_conformance_suite(store):
    @checkpointer_test(name=store.kind)
    async def factory():
        with unfenced(store) as saver:
            yield saver

    report = asyncio.run(validate(factory, capabilities={"put", "put_writes", "get_tuple", "list", "delete_thread"}))
    failures = {name: found.failures for name, found in report.results.items() if found.failures}
    assert failures == {}
    assert sum(found.tests_passed for found in report.results.values()) > 30
