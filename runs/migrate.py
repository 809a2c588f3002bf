"""Bringing a run that nobody drives to another workflow version.

What a checkpoint means is said by the row's workflow version: the head of version 1 resumed with the graph of version 2
can look finished where a node was renamed, and nothing would tell. Hence the invariant:

    The head checkpoint of a run can be read by the graph of the version in its row, at every moment.

So the migrated checkpoint, the row's version and the event are one commit, under a new epoch that the same commit
takes. A kill before it leaves the old version as it was, and the same command may be given again; after it the run is
of the new version. There is no third state, and nothing to repair. A driver that hung on at the old epoch can write no
checkpoint any more; what it still asks of the ledger is recorded under the same action ids as ever.

Before anything is written the migration is rehearsed in memory: the new graph must hold exactly the values that the
function gave, and must have a node to go on with.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver

from graph.migrations import Migrated, Values
from graph.versions import VERSIONS, Version
from onward_ledger.database import Database, Transaction, statement
from runs import events, lease, registry
from runs.checkpoints import Saver, fence, serializer
from runs.clock import check_clock, follow_head
from runs.errors import Conflict, DrivenElsewhere, MigrationRefused, OtherVersion, RunFinished, StateChanged
from runs.joined import head_of, saver_in
from runs.registry import Run, Status
from runs.store import Store

# A lease that nobody holds has a length all the same; the next driver brings its own.
_LEASE_SECONDS = 1.0
_POLL_SECONDS = 0.02

# Channels of LangGraph's own in a checkpoint: inputs, triggers, joins. A trigger that is there names what comes next.
_INTERNAL = ("__", "branch:", "join:")
_TRIGGER = "branch:to:"


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A migration that was rehearsed: what would change, and where the run would go on.

    Of a run that has not begun, only the row changes: `head` and `migrated` are None.
    """

    run: Run
    target: Version
    head: str | None
    before: Values
    migrated: Migrated | None
    next: tuple[str, ...]

    @property
    def changes(self) -> dict[str, list[str]]:
        """What of the state is other than before, by name: `added`, `removed`, `changed`."""
        after = self.before if self.migrated is None else self.migrated.values
        both = self.before.keys() & after.keys()
        return {
            "added": sorted(after.keys() - both),
            "removed": sorted(self.before.keys() - both),
            "changed": sorted(name for name in both if self.before[name] != after[name]),
        }

    @property
    def next_steps(self) -> list[str]:
        """The steps that the run goes on with, as they are named under the new version."""
        values = self.before if self.migrated is None else self.migrated.values
        return [self.target.step_of(node, values) for node in self.next]


def rehearse(
    store: Store, database: Database, run: Run, to: str, versions: Mapping[str, Version] = VERSIONS
) -> Migration:
    """What migrating the run to version `to` would do; writes nothing.

    Raises RunFinished, DrivenElsewhere, OtherVersion (`to` is not served here), or MigrationRefused with the reason.
    """
    _refuse_driven(store, database, run)
    target = _target(run, to, versions)
    with database.reading() as tx, saver_in(tx) as saver:
        saved = head_of(saver, run.run_id)
    if saved is None:
        return Migration(run=run, target=target, head=None, before={}, migrated=None, next=())
    channels = saved.checkpoint["channel_values"]
    before = state_of(channels)
    migrated = _call(target, run, before, pending_in(channels))
    memory = InMemorySaver(serde=serializer())
    thread = {"configurable": {"thread_id": run.run_id, "checkpoint_ns": ""}}
    memory.put(cast(Any, thread), saved.checkpoint, saved.metadata, saved.checkpoint["channel_versions"])
    after = _update(memory, target, run.run_id, migrated)
    return Migration(
        run=run, target=target, head=saved.checkpoint["id"], before=before, migrated=migrated, next=after.next
    )


def apply(store: Store, database: Database, migration: Migration) -> Run:
    """Migrate; the run as it stands then. It waits as before, or is queued.

    Raises StateChanged when the run is no longer what was rehearsed, and ClockSkew.
    """
    _follow_clocks(database, migration)
    run, epoch = migration.run, (migration.run.epoch or 0) + 1
    with store.taking_over(database, run) as tx:
        version = _take(tx, run, epoch)
        written = _write(tx, migration, epoch)
        moved = tx.run(
            "set_workflow_version",
            run_id=run.run_id,
            version=version,
            source=run.workflow_version,
            target=migration.target.name,
            epoch=epoch,
        )
        if moved != 1:
            raise _changed(run)
        data = {"from": run.workflow_version, "to": migration.target.name, "checkpoint_id": written}
        events.send(tx, run.run_id, "migrated", data, epoch=epoch)
        tx.run("release_lease", run_id=run.run_id, epoch=epoch)
    return registry.get(database, run.run_id)


def state_of(channels: Mapping[str, Any]) -> Values:
    """The state in a checkpoint's channels; of one that holds only the input of a run, that input."""
    state = {name: value for name, value in channels.items() if not name.startswith(_INTERNAL)}
    return copy.deepcopy(state or dict(channels.get("__start__") or {}))


def pending_in(channels: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes that come next, read without their graph: whoever migrates a run need not have it."""
    started = ("__start__",) if "__start__" in channels else ()
    return started + tuple(sorted(name.removeprefix(_TRIGGER) for name in channels if name.startswith(_TRIGGER)))


def _refuse_driven(store: Store, database: Database, run: Run) -> None:
    """A run that waits or is queued has no driver; one whose driver is gone for certain has none any more."""
    if run.finished:
        raise RunFinished(f"The run {run.run_id} has ended: {run.status}. There is nothing left to migrate.")
    if run.status is Status.CANCEL_REQUESTED:
        raise Conflict(f"The run {run.run_id} is being cancelled; it is not migrated.")
    if run.status is not Status.RUNNING:
        return
    why = _settled(store, database, run)
    if why in ("alive", "unclear"):
        raise DrivenElsewhere(
            f"The run {run.run_id} is driven by process {run.pid} on {run.host}. Only a run that nobody drives is "
            "migrated: let it come to a wait, or stop its driver first.",
            pid=run.pid,
            host=run.host,
            epoch=run.epoch or 0,
        )


def _settled(store: Store, database: Database, run: Run) -> lease.Why:
    """How its driver stands. One that has just died is given the time in which the server notices."""
    began, looks = time.monotonic(), 0
    while True:
        dead = lease.process_is_dead(run)
        why = lease.standing(run, process_is_dead=dead)
        looks = looks + 1 if why == "gone" else 0
        noticing = dead and why == "alive" and time.monotonic() - began < lease.PATIENCE_SECONDS
        if not noticing and looks != 1:
            return why
        time.sleep(store.second_look_seconds if looks else _POLL_SECONDS)
        run = registry.get(database, run.run_id)


def _target(run: Run, to: str, versions: Mapping[str, Version]) -> Version:
    served = ", ".join(sorted(versions))
    if to not in versions:
        raise OtherVersion(f"Workflow version {to} is not served by this software, which has: {served}.")
    target = versions[to]
    if to == run.workflow_version:
        raise MigrationRefused(f"The run {run.run_id} is of workflow version {to} already.")
    if run.workflow_version not in target.migrations:
        ways = ", ".join(sorted(target.migrations)) or "no other version"
        raise MigrationRefused(
            f"There is no migration function from workflow version {run.workflow_version} to {to}: it can be reached "
            f"from {ways}. Write one and register it in graph/versions.py."
        )
    if run.allowed_kinds is not None and (more := target.allowed_kinds - set(run.allowed_kinds)):
        raise MigrationRefused(
            f"Workflow version {to} uses kinds of effects that this run may not use: {', '.join(sorted(more))}. A run "
            "never gets more rights than it had at its start."
        )
    return target


def _call(target: Version, run: Run, before: Values, pending: tuple[str, ...]) -> Migrated:
    """What the migration function says. It is somebody's code: whatever it raises is a refusal."""
    try:
        migrated = target.migrations[run.workflow_version](copy.deepcopy(before), pending)
        json.dumps(migrated.values, allow_nan=False)
    except Exception as error:
        raise MigrationRefused(
            f"The migration function from {run.workflow_version} to {target.name} cannot take this run's state: "
            f"{type(error).__name__}: {error}"
        ) from error
    return migrated


@dataclass(frozen=True, kw_only=True)
class _After:
    checkpoint_id: str
    next: tuple[str, ...]


def _update(saver: Saver, target: Version, run_id: str, migrated: Migrated) -> _After:
    """Write the migrated state behind the head; where the new graph goes on. Raises MigrationRefused."""
    graph = target.build().compile(checkpointer=saver)
    if migrated.as_node not in graph.nodes:
        raise MigrationRefused(f"The migration names {migrated.as_node!r}, which is no node of version {target.name}.")
    written = graph.update_state({"configurable": {"thread_id": run_id}}, migrated.values, as_node=migrated.as_node)
    snapshot = graph.get_state({"configurable": {"thread_id": run_id}})
    if not snapshot.next:
        raise MigrationRefused(f"Behind {migrated.as_node!r} version {target.name} has nothing to do with this state.")
    held = snapshot.values if "__start__" not in snapshot.next else migrated.values
    if held != migrated.values:
        wrong = [n for n in sorted({*held, *migrated.values}) if held.get(n) != migrated.values.get(n)]
        raise MigrationRefused(f"Version {target.name} does not hold what the migration gives: {', '.join(wrong)}.")
    return _After(checkpoint_id=(written.get("configurable") or {})["checkpoint_id"], next=snapshot.next)


def _follow_clocks(database: Database, migration: Migration) -> None:
    """The new checkpoint must be the head: its id comes from this machine's clock."""
    asked = datetime.now(UTC)
    now = database.now()
    check_clock(asked, now, datetime.now(UTC))
    if migration.head is not None:
        follow_head(migration.head)


def _take(tx: Transaction, run: Run, epoch: int) -> int:
    """Take the epoch if the run is still as it was rehearsed; the version of its row then."""
    answers = tx.at_once(statement("lock_run", run_id=run.run_id), statement("lock_lease", run_id=run.run_id))
    locked, held = answers[0].row, answers[1].row
    if locked is None or locked["version"] != run.version or (held["epoch"] if held else 0) != epoch - 1:
        raise _changed(run)
    seconds = run.lease_seconds or _LEASE_SECONDS
    tx.run("take_lease", run_id=run.run_id, epoch=epoch, holder_id=None, seconds=seconds)
    if run.status is not Status.RUNNING:
        return run.version
    moved = registry.move(tx, run, "requeue", epoch=epoch, reason="migrated", failures=run.failures)
    assert moved, "both rows are locked and were compared"
    return run.version + 1


def _write(tx: Transaction, migration: Migration, epoch: int) -> str | None:
    """The migrated checkpoint, on this transaction's connection."""
    if migration.migrated is None:
        return None
    run_id = migration.run.run_id
    with saver_in(tx, fence(run_id, epoch)) as saver:
        head = head_of(saver, run_id)
        if head is None or head.checkpoint["id"] != migration.head:
            raise _changed(migration.run)
        after = _update(saver, migration.target, run_id, migration.migrated)
    assert after.next == migration.next, "the same values behind the same checkpoint lead to the same node"
    return after.checkpoint_id


def _changed(run: Run) -> StateChanged:
    return StateChanged(f"The run {run.run_id} has changed meanwhile, and nothing was migrated. Look at it again.")
