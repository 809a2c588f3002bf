"""Driving a run: from a row that says where it stands to a row that says how this driver left it.

    1  look before touching     ended? other store? version served here? clock?
    2  claim                    epoch + 1, lease, event; announce the epoch to the ledger
    3  settle                   what an older epoch left in flight or unknown is verified, never assumed
    4  continue by one rule     runs.next_move
    5  run                      durability "sync", one task at a time; a lost lease stops everything
    6  end                      succeeded, waiting_human, queued with back-off, or failed; the lease is released

One operating-system process per driven run: `runs.driver` calls this.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot

from graph.context import Context, LeaseLost
from graph.errors import OutcomeUnknown
from onward_ledger.action import Action
from onward_ledger.action import Status as ActionStatus
from onward_ledger.database import Database
from onward_ledger.errors import InProgress, NotFound, StaleEpoch
from onward_ledger.values import Fence
from runs import events, lease, registry
from runs.checkpoints import Saver, open_saver
from runs.clock import check_clock, follow_head
from runs.drain import Drain
from runs.endings import Cancelled, Drained, Ending, Failed, Poison, describe, end_drive
from runs.errors import OtherVersion
from runs.failures import meaning
from runs.heartbeat import Heartbeat
from runs.holder import Holder, host_name
from runs.next_move import Broken, Continue, Finish, Move, Resume, Start, Wait, next_move, read_position
from runs.outcome import Outcome
from runs.recorder import DriveRecorder
from runs.registry import Run, Status
from runs.store import Store
from runs.wake import UNKNOWN_OUTCOME, Ledger, decision_of, is_answered

Graph = CompiledStateGraph[Any, Context, Any, Any]

# Under this name a graph's configuration says which epoch drives it; `onward_ledger.langgraph` reads it.
EPOCH = "onward_epoch"

# Take-overs in a row without a finished step or a checkpoint: then the run is what ends its drivers.
POISON_TAKEOVERS = 10
# How many of the last events go with the verdict.
POISON_EVIDENCE = 40


class Answers(Protocol):
    """What people and the ledger have said about a run so far."""

    def decisions(self, action_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The decisions that count, by the action that was asked about."""
        ...

    def receipts(self, action_id: str | None) -> dict[str, dict[str, Any]]:
        """The receipt of an action of this run that SUCCEEDED, as the ledger records it, by its id."""
        ...

    def answers(self) -> dict[str, Any]:
        """Answers to interrupts that are about no action, by interrupt id."""
        ...


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """One workflow version: its graph, the super-steps of one invocation at most, its input, and where it goes on."""

    build: Callable[[], StateGraph[Any, Any, Any, Any]]
    recursion_limit: int = 100

    def compile(self, saver: Saver) -> Graph:
        """The graph with this checkpointer."""
        return cast(Graph, self.build().compile(checkpointer=saver))

    def initial(self, run: Run) -> Any:
        """The state that a run starts with."""
        return {"input": run.input, "asks": run.asks}

    def invoke(self, graph: Graph, given: Any, config: RunnableConfig, context: Any, control: RunControl) -> None:
        """One invocation, until the graph ends, waits, or is drained."""
        graph.invoke(given, config, context=context, durability="sync", control=control)

    def move(self, snapshot: StateSnapshot, said: Answers) -> Move:
        """Where the run goes on."""
        position = read_position(snapshot)
        asked = {question.action_id for question in position.questions if question.action_id}
        return next_move(position, said.decisions(asked), said.receipts(position.delivered_by))


@dataclass(frozen=True, kw_only=True)
class Seat:
    """What the context of one drive is made from."""

    run: Run
    epoch: int
    recorder: DriveRecorder
    scratch: Path


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a drive works with.

    `open_database` opens what the drive reads and writes rows through; the drive closes it. `workflow` raises KeyError
    for a version that is not served here; `check_run` raises a RunError for a run that this installation cannot drive
    for another reason (its model is not there), before anything of it is touched.
    """

    store: Store
    open_database: Callable[[], Database]
    ledger: Ledger
    ledger_id: str
    objects_url: str
    workflow: Callable[[str], Workflow]
    make_context: Callable[[Seat], AbstractContextManager[Context]]
    check_run: Callable[[Run], None]
    scratch: Path
    lease_seconds: float
    drain: Drain
    driver_kind: str = "driver"


def drive(run_id: str, parts: Parts) -> Outcome:
    """Drive a run as far as it goes; how this driver left it.

    Raises the errors of looking and claiming (RunNotFound, RunFinished, WaitingForPerson, DrivenElsewhere, OtherStore,
    OtherVersion, ClockSkew), and `onward_ledger.database.Unreachable` when the database is lost: the run is then
    resumable as it is.
    """
    with ExitStack() as stack:
        database = stack.enter_context(closing(parts.open_database()))
        asked = datetime.now(UTC)
        run = registry.get(database, run_id)
        answered = datetime.now(UTC)
        workflow = _look(run, parts)
        check_clock(asked, run.now_at, answered)
        holder = stack.enter_context(closing(parts.store.open_holder(parts.driver_kind, run, database)))
        claim = lease.claim(parts.store, database, run_id, holder, lease_seconds=parts.lease_seconds, seen=run)
        return _Drive(parts, workflow, holder, database, claim).go()


def _look(run: Run, parts: Parts) -> Workflow:
    registry.refuse_elsewhere(run, store=parts.store.kind, objects=parts.objects_url, ledger=parts.ledger_id)
    try:
        workflow = parts.workflow(run.workflow_version)
    except KeyError:
        raise OtherVersion(
            f"The run {run.run_id} was made with workflow version {run.workflow_version}, which this software does not "
            "serve. Resume it with a version of the software that does."
        ) from None
    parts.check_run(run)
    return workflow


class _Drive:
    """One claimed run under one epoch, from the claim to the release."""

    def __init__(
        self, parts: Parts, workflow: Workflow, holder: Holder, database: Database, claim: lease.Claim
    ) -> None:
        self._parts = parts
        self._workflow = workflow
        self._holder = holder
        self._database = database
        self._run = claim.run
        self._token = uuid.uuid4().hex[:8]
        self._stalled = claim.run.takeovers > 0 or claim.run.failures > 0
        self._begin_epoch(claim.epoch)

    def _begin_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._heartbeat = Heartbeat(self._holder, self._run.run_id, epoch, self._parts.lease_seconds)
        self._recorder = DriveRecorder(self._database, self._run, epoch, self._heartbeat)
        self._heartbeat.start()

    def go(self) -> Outcome:
        """Steps 2 to 6 behind the claim."""
        try:
            ending = self._to_the_end()
            outcome = end_drive(self._database, self._run.run_id, self._epoch, self._heartbeat, ending)
        except LeaseLost as lost:
            return Outcome.lost(str(lost))
        finally:
            self._heartbeat.stop()
        return self._look_again(ending, outcome)

    def _to_the_end(self) -> Ending:
        try:
            fence = self._announce()
            if self._run.takeovers > POISON_TAKEOVERS:
                return self._poison()
            if (open_question := self._settle(fence)) is not None:
                return open_question
            if fence.closed_at is not None:
                return Cancelled(fence.closed_reason or "cancelled")
            return self._in_graph()
        except Exception as error:
            if meaning(error) == "fenced":
                raise LeaseLost(f"The run {self._run.run_id} has a newer driver than epoch {self._epoch}.") from error
            self._recorder.record("error", describe(error))
            return _ending_of(error)

    def _announce(self) -> Fence:
        """Tell the ledger which epoch drives. One that is ahead means that our database was restored: go beyond it."""
        holder = f"{host_name()} pid {os.getpid()} {self._token}"
        while True:
            try:
                return self._parts.ledger.fence(self._run.run_id, self._epoch, holder=holder)
            except StaleEpoch as error:
                to = max(error.fence_epoch or 0, self._epoch) + 1
                self._heartbeat.stop()
                if not lease.raise_epoch(self._database, self._run, self._epoch, to, self._holder):
                    raise
                self._begin_epoch(to)

    def _settle(self, fence: Fence) -> Wait | None:
        """Verify what is in flight or unknown. What only a person can settle ends the drive before it begins."""
        unknown: list[str] = []
        for left in fence.unsettled:
            self._heartbeat.check()
            now = self._reconciled(left)
            data = {"action_id": now.action_id, "kind": now.kind, "before": str(left.status), "status": str(now.status)}
            self._recorder.record("settled", data, step=now.step)
            if now.status is ActionStatus.UNKNOWN:
                unknown.append(now.action_id)
        return Wait(tuple(unknown), UNKNOWN_OUTCOME) if unknown else None

    def _poison(self) -> Poison:
        """Set aside: who claimed it in vain, and which step each of them was in."""
        evidence = [event.to_json() for event in events.last_of(self._database, self._run.run_id, POISON_EVIDENCE)]
        self._recorder.record("poison", {"takeovers": self._run.takeovers, "evidence": evidence})
        return Poison(self._run.takeovers)

    def _reconciled(self, left: Action) -> Action:
        """In flight and younger than its deadline: somebody performs it now; whoever needs it waits for it."""
        try:
            return self._parts.ledger.reconcile(left.action_id)
        except InProgress:
            return left

    def _in_graph(self) -> Ending:
        run, check = self._run, self._heartbeat.check
        seat = Seat(run=run, epoch=self._epoch, recorder=self._recorder, scratch=self._parts.scratch)
        with (
            open_saver(self._parts.store, run.run_id, self._epoch, self._holder.holder_id, check, self._saved) as saver,
            _scratch(seat) as scratch,
            self._parts.make_context(replace(seat, scratch=scratch)) as context,
        ):
            graph = self._workflow.compile(saver)
            self._recorder.check()
            snapshot = graph.get_state(self._config)
            self._follow_head(snapshot)
            return self._run_graph(graph, context, snapshot)

    def _saved(self) -> None:
        """A checkpoint is progress: the failures and take-overs before it no longer count."""
        if self._stalled:
            self._stalled = False
            self._recorder.progressed()

    def _follow_head(self, snapshot: StateSnapshot) -> None:
        if snapshot.created_at is not None:
            follow_head((snapshot.config.get("configurable") or {})["checkpoint_id"], self._database.now())

    @property
    def _config(self) -> RunnableConfig:
        return {
            "configurable": {"thread_id": self._run.run_id, EPOCH: self._epoch},
            # One worker thread: the writes of a task commit before the checkpoint that follows them.
            "max_concurrency": 1,
            "recursion_limit": self._workflow.recursion_limit,
        }

    def _run_graph(self, graph: Graph, context: Context, snapshot: StateSnapshot) -> Ending:
        """Steps 4 and 5, again after each invocation until nothing is left to invoke."""
        before: tuple[Move, object] | None = None
        while True:
            self._heartbeat.check()
            move, head = self._where(snapshot)
            if not isinstance(move, Start | Continue | Resume):
                return move
            if (move, head) == before:
                return Broken("an invocation ended and nothing had changed", {"checkpoint_id": head, "move": str(move)})
            before = (move, head)
            self._recorder.record("continued", {"move": type(move).__name__.lower(), "checkpoint_id": head})
            try:
                self._invoke(graph, context, move)
            except GraphDrained:
                now, _ = self._where(graph.get_state(self._config))
                return now if isinstance(now, Finish | Wait | Broken) else Drained()
            except Exception as error:
                if not self._ended_all_the_same(graph, error):
                    raise
            snapshot = graph.get_state(self._config)

    def _ended_all_the_same(self, graph: Graph, error: Exception) -> bool:
        """After an error the state decides, not the error: a connection lost behind the last commit loses nothing."""
        if meaning(error) == "fenced":
            return False
        move, _ = self._where(graph.get_state(self._config))
        if isinstance(move, Finish):
            self._recorder.record("error", describe(error) | {"after_the_end": True})
            return True
        return False

    def _invoke(self, graph: Graph, context: Context, move: Start | Continue | Resume) -> None:
        given: Any = None
        if isinstance(move, Start):
            given = self._workflow.initial(self._run)
        elif isinstance(move, Resume):
            given = Command(resume=dict(move.answers))
        self._workflow.invoke(graph, given, self._config, context, self._parts.drain.control())

    def _where(self, snapshot: StateSnapshot) -> tuple[Move, object]:
        head = (snapshot.config.get("configurable") or {}).get("checkpoint_id")
        return self._workflow.move(snapshot, self), head

    def decisions(self, action_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """See Answers."""
        asked = set(action_ids)
        if not asked:
            return {}
        now = self._database.now()
        found = {action_id: decision_of(self._parts.ledger, action_id, now) for action_id in asked}
        return {action_id: decision for action_id, decision in found.items() if decision is not None}

    def answers(self) -> dict[str, Any]:
        """See Answers."""
        rows = self._database.read("answers", run_id=self._run.run_id)
        return {row["interrupt_id"]: row["value"] for row in rows}

    def receipts(self, action_id: str | None) -> dict[str, dict[str, Any]]:
        """See Answers. The state's own copy proves nothing."""
        if action_id is None:
            return {}
        try:
            action = self._parts.ledger.action(action_id)
        except NotFound:
            return {}
        if action.run_id != self._run.run_id or action.status is not ActionStatus.SUCCEEDED or action.receipt is None:
            return {}
        return {action_id: action.receipt}

    def _look_again(self, ending: Ending, outcome: Outcome) -> Outcome:
        """No lost wake-up: whoever decided between our last look and our commit saw no waiting run to wake."""
        if not isinstance(ending, Wait) or outcome.status is not Status.WAITING_HUMAN:
            return outcome
        if not is_answered(self._parts.ledger, ending.reason, ending.action_ids, self._database.now()):
            return outcome
        registry.queue_decided(self._database, self._run.run_id)
        return Outcome.decided()


def _ending_of(error: Exception) -> Ending:
    if isinstance(error, OutcomeUnknown):
        return Wait((error.action.action_id,), UNKNOWN_OUTCOME)
    return Failed(error)


@contextmanager
def _scratch(seat: Seat) -> Generator[Path]:
    """A folder for this drive's temporary files; those of the run's older epochs are removed first.

    Never those of newer ones: a driver that was silent wakes up here beside the one that has replaced it.
    """
    seat.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    for stale in seat.scratch.glob(f"{seat.run.run_id}-*-*"):
        epoch = stale.name.removeprefix(f"{seat.run.run_id}-").partition("-")[0]
        if epoch.isdecimal() and int(epoch) < seat.epoch:
            shutil.rmtree(stale, ignore_errors=True)
    mine = seat.scratch / f"{seat.run.run_id}-{seat.epoch}-{os.getpid()}"
    mine.mkdir(mode=0o700)
    before, tempfile.tempdir = tempfile.tempdir, str(mine)  # libraries' temporary files: what a kill leaves goes too
    try:
        yield mine
    finally:
        tempfile.tempdir = before
        shutil.rmtree(mine, ignore_errors=True)
