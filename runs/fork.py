"""A new run that begins where another one stood before a step, with something changed.

A changed model or question is a branch with its own record, not a resume: the fork has its own id, so its actions have
their own identities, and nothing that anybody approved for the parent counts for it.

    1  files       what the state refers to under the parent's `runs/` is copied to the fork's: files live as long as
                   their run
    2  drafts      a saved draft that the state refers to is saved again by the ledger, as an action of the fork's
    3  one commit  the row (queued), its first events, and the checkpoint with every reference rewritten

Killed before the commit there is no fork: files and perhaps a draft stay under an id that no run has. Behind it the
fork is whole, and whoever claims it drives it. The parent is only read.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias, cast

from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.base import CheckpointTuple as Saved
from langgraph.checkpoint.base.id import uuid6
from langgraph.types import StateSnapshot

from onward_ledger.action import Action, ActionKey, Status
from onward_ledger.database import Database, Transaction
from onward_ledger.objects import Objects
from onward_ledger.values import Fence
from runs import events, registry
from runs.checkpoints import Saver, fence
from runs.clock import check_clock
from runs.errors import Conflict, UsageError
from runs.holder import host_name
from runs.joined import saver_in
from runs.parts import Driveable
from runs.registry import Run
from tools.files import Files

# The epoch under which the fork is written; its first driver has the next one.
_EPOCH = 1
_LEASE_SECONDS = 1.0

# Effects that a fork may have again because they only put its own files in order.
_OWN_FILES = frozenset({"draft.save"})

# More actions than one run makes.
_MOST_ACTIONS = 1000


class Ledger(Protocol):
    """What forking needs of the ledger's client."""

    def actions(
        self, run_id: str | None = None, status: Status | None = None, *, limit: int = 100, after: str | None = None
    ) -> tuple[Action, ...]:
        """The recorded actions of a run."""
        ...

    def fence(self, run_id: str, epoch: int, *, holder: str) -> Fence:
        """Announce an epoch."""
        ...

    def perform(
        self, key: ActionKey, kind: str, build: Callable[[], tuple[str, dict[str, Any]]], *, epoch: int
    ) -> Action:
        """Perform an action."""
        ...


@dataclass(frozen=True, kw_only=True)
class Change:
    """What the fork has of its own. `row` holds columns of the run, `state` top-level values of the state."""

    row: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])  # as the event tells it


@dataclass(frozen=True, kw_only=True)
class Point:
    """A place in a run's history: the checkpoint just before a step."""

    step: str
    node: str
    checkpoint_id: str
    values: dict[str, Any]


# How a step is called: by its node, the state before it, and the number of its super-step.
Naming: TypeAlias = Callable[[str, Mapping[str, Any], int], str]


def points(database: Database, run: Run, workflow: Driveable, name_of: Naming) -> list[Point]:
    """Where a run can be forked, in the order of its history; of a step that came twice, the first time."""
    config: Any = {"configurable": {"thread_id": run.run_id}}
    with database.reading() as tx, saver_in(tx) as saver:
        history = list(workflow.compile(saver).get_state_history(config))
    found: dict[str, Point] = {}
    for snapshot in reversed(history):
        for point in _points_of(snapshot, name_of):
            found.setdefault(point.step, point)
    return list(found.values())


def _points_of(snapshot: StateSnapshot, name_of: Naming) -> Iterator[Point]:
    values = cast(dict[str, Any], snapshot.values or {})
    number = (snapshot.metadata or {}).get("step", 0) + 1
    checkpoint_id = (snapshot.config.get("configurable") or {})["checkpoint_id"]
    for node in snapshot.next:
        if not node.startswith("__"):  # LangGraph's own: the input is not applied yet
            yield Point(step=name_of(node, values, number), node=node, checkpoint_id=checkpoint_id, values=values)


def find_point(found: list[Point], step: str) -> Point:
    """The place before a step; a node's name means its first. Raises UsageError that names the steps there are."""
    exact = [point for point in found if point.step == step]
    for point in exact or [point for point in found if point.node == step]:
        return point
    if not found:
        raise UsageError("The run has not begun, so there is nothing to fork. Start a new one with `onward run`.")
    steps = ", ".join(point.step for point in found)
    raise UsageError(f"The run has not come to a step {step!r}. It can be forked from: {steps}.")


def fork(
    database: Database,
    objects: Objects,
    ledger: Ledger,
    parent: Run,
    workflow: Driveable,
    point: Point,
    change: Change,
    *,
    owner: str,
    wake_seconds: float | None = None,
) -> Run:
    """Make the fork; a queued run. `wake_seconds`: so long it is left to whoever forks.

    Raises Conflict for a state that cannot be branched off, UsageError for a value that the state does not have.
    """
    _check_state(point, change)
    _check_clocks(database)
    run_id = str(uuid.uuid4())
    files = _Copies(objects, parent.run_id, run_id)
    input_key = files.copied(parent.input_key)
    moved = {**_carried(ledger, parent, point, run_id, files), **change.state}
    row = _row(parent, run_id, input_key, owner, wake_seconds, change)
    data = {"parent": parent.run_id, "step": point.step, "checkpoint_id": point.checkpoint_id}
    with database.transaction() as tx:
        tx.run("insert_run", **row)
        tx.run("take_lease", run_id=run_id, epoch=_EPOCH, holder_id=None, seconds=_LEASE_SECONDS)
        tx.run("release_lease", run_id=run_id, epoch=_EPOCH)
        events.send(tx, run_id, "created", {})
        events.send(tx, run_id, "forked", {**data, "changes": dict(change.said)})
        tx.run("lock_run", run_id=run_id)
        _write(tx, parent, workflow, point, run_id, moved)
    return registry.get(database, run_id)


def _check_state(point: Point, change: Change) -> None:
    unknown = sorted(change.state.keys() - point.values.keys())
    if unknown:
        there = ", ".join(sorted(point.values))
        raise UsageError(f"The state before {point.step} has no {', '.join(unknown)}. It has: {there}.")


def _check_clocks(database: Database) -> None:
    asked = datetime.now(UTC)
    now = database.now()
    check_clock(asked, now, datetime.now(UTC))


def _row(
    parent: Run, run_id: str, input_key: str, owner: str, wake_seconds: float | None, change: Change
) -> dict[str, Any]:
    """The columns of the new row: the parent's, but for what is the fork's own. Rights are never more than its."""
    same = ("kind", "tenant", "workflow_version", "input_name", "input_digest", "input_size", "asks", "model", "params")
    same += ("deadline_at", "budget_micros", "budget_tokens", "allowed_kinds", "store", "objects", "ledger")
    row = {name: getattr(parent, name) for name in same}
    row |= {"run_id": run_id, "input_key": input_key, "owner": owner, "parent": parent.run_id}
    if parent.deadline_at is not None and parent.deadline_at <= parent.now_at:
        row["deadline_at"] = None  # it was about another time; --set gives the fork one of its own
    return {**row, "wake_seconds": wake_seconds, **change.row}


class _Copies:
    """Files of the parent under the fork's own prefix; each is copied once."""

    def __init__(self, objects: Objects, parent: str, run_id: str) -> None:
        self._objects = objects
        self._files = Files(objects, run_id)
        self._prefix = f"runs/{parent}/"
        self._done: dict[str, str] = {}

    def copied(self, key: str) -> str:
        """The key of the copy, or the key itself where it is not one of the parent's files."""
        if not key.startswith(self._prefix):
            return key
        if key not in self._done:
            data = self._objects.read_checked(key, key.removeprefix(self._prefix))
            self._done[key] = self._files.put(data)["key"]
        return self._done[key]


def _carried(ledger: Ledger, parent: Run, point: Point, run_id: str, files: _Copies) -> dict[str, Any]:
    """The state with every reference to the parent's files, drafts and actions rewritten to the fork's own."""
    named = {action.action_id: action for action in ledger.actions(parent.run_id, limit=_MOST_ACTIONS)}
    referred = [named[text] for text in dict.fromkeys(strings_of(point.values)) if text in named]
    for action in referred:
        if action.kind not in _OWN_FILES or action.status is not Status.SUCCEEDED:
            raise Conflict(
                f"The state before {point.step} refers to an effect of the parent ({action.kind}, {action.status}), "
                "which a fork cannot have. Fork from an earlier step."
            )
    if referred:
        ledger.fence(run_id, _EPOCH, holder=f"fork on {host_name()} {uuid.uuid4().hex[:8]}")
    ours = {action.action_id: _saved_again(ledger, action, run_id, files) for action in referred}
    drafts = f"drafts/{parent.run_id}/"

    def rewritten(text: str) -> str:
        if text.startswith(drafts):
            return f"drafts/{run_id}/{text.removeprefix(drafts)}"
        return ours.get(text) or files.copied(text)

    return _mapped(point.values, rewritten)


def _saved_again(ledger: Ledger, action: Action, run_id: str, files: _Copies) -> str:
    """The parent's draft as an action of the fork: the same files under the fork's own keys. Its action id."""
    resource = action.resource.replace(f"drafts/{action.run_id}/", f"drafts/{run_id}/", 1)
    params = copy.deepcopy(action.params)
    for item in params["objects"]:
        item["source"] = files.copied(item["source"])
    key = ActionKey(run_id, action.step, action.slot, action.rev)
    done = ledger.perform(key, action.kind, lambda: (resource, params), epoch=_EPOCH)
    if done.status is not Status.SUCCEEDED:
        raise Conflict(f"The parent's draft could not be saved for the fork: {done.status} {done.reason or ''}".strip())
    return done.action_id


def strings_of(value: Any) -> Iterator[str]:
    """Every text in a JSON value, but for names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in cast(dict[str, Any], value).values():
            yield from strings_of(each)
    elif isinstance(value, list | tuple):
        for each in cast(list[Any], value):
            yield from strings_of(each)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON with every text changed; what is no JSON stays as it is."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _mapped(each, change) for name, each in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_mapped(each, change) for each in cast(list[Any], value)]
    return value


def _write(
    tx: Transaction, parent: Run, workflow: Driveable, point: Point, run_id: str, values: Mapping[str, Any]
) -> None:
    """The parent's checkpoint as the first one of the fork's thread: where it stood, and nothing that was pending."""
    with saver_in(tx, fence(run_id, _EPOCH)) as plain:
        saver = workflow.compile(plain).checkpointer  # it knows the classes that somebody's own graph keeps
        assert isinstance(saver, BaseCheckpointSaver)
        saved = _saved(saver, parent, point)
        checkpoint = cast(Checkpoint, {**saved.checkpoint, "id": str(uuid6()), "ts": datetime.now(UTC).isoformat()})
        checkpoint["channel_values"] = {**saved.checkpoint["channel_values"], **values}
        metadata: CheckpointMetadata = {"source": "fork", "step": saved.metadata.get("step", 0), "parents": {}}
        thread: Any = {"configurable": {"thread_id": run_id, "checkpoint_ns": ""}}
        saver.put(thread, checkpoint, metadata, checkpoint["channel_versions"])


def _saved(saver: Saver, parent: Run, point: Point) -> Saved:
    where: Any = {
        "configurable": {"thread_id": parent.run_id, "checkpoint_ns": "", "checkpoint_id": point.checkpoint_id}
    }
    found = saver.get_tuple(where)
    if found is None:
        raise Conflict(f"The checkpoint before {point.step} has gone meanwhile. Fork from a later step.")
    held = found.checkpoint["channel_values"]
    if not point.values.keys() <= held.keys():
        raise Conflict("This graph keeps its state as a chain of changes, which a fork cannot begin with.")
    return found


def parse_value(text: str) -> Any:
    """A value of `--set`: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
