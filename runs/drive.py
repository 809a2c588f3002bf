"""Driving a run: from a row that says where it stands to a row that says how this driver left it.

    1  look before touching     ended? other store? version served here? clock?
    2  claim                    epoch + 1, lease, event; announce the epoch to the ledger
    3  settle                   what an older epoch left in flight or unknown is verified, never assumed
    4  continue by one rule     runs.next_move
    5  run                      durability "sync", one task at a time; a lost lease stops everything
    6  end                      succeeded, waiting_human, queued with back-off, or failed; the lease is released

A run that is to be cancelled leaves this order wherever it is, and is stopped: see `runs.cancelling`.

One operating-system process per driven run: `runs.driver` calls this.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.types import Command, StateSnapshot

from graph.context import CancelRequested, Context, LeaseLost
from graph.errors import OutcomeUnknown
from onward_ledger.action import Action
from onward_ledger.action import Status as ActionStatus
from onward_ledger.database import Database
from onward_ledger.errors import InProgress, NotFound, StaleEpoch
from onward_ledger.values import Fence
from runs import cancelling, events, lease, looking, registry, stopping
from runs.checkpoints import open_saver
from runs.clock import check_clock, follow_head
from runs.endings import Drained, Ending, Failed, Poison, describe, end_drive
from runs.errors import OtherVersion, UsageError
from runs.failures import meaning
from runs.heartbeat import Heartbeat
from runs.holder import Holder, host_name
from runs.looking import Looked
from runs.next_move import Broken, Continue, Finish, Move, Resume, Start, Wait
from runs.outcome import Outcome
from runs.parts import EPOCH, Driveable, Graph, Parts, Seat
from runs.recorder import DriveRecorder
from runs.registry import FOREIGN, Run, Status
from runs.wake import UNKNOWN_OUTCOME, decision_of, is_answered

# Take-overs in a row without a finished step or a checkpoint: then the run is what ends its drivers.
POISON_TAKEOVERS = 10
# How many of the last events go with the verdict.
POISON_EVIDENCE = 40


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
        looked = looking.look(database, run)
        claim = lease.claim(
            parts.store,
            database,
            run_id,
            holder,
            lease_seconds=parts.lease_seconds,
            seen=run,
            looked=looked.to_json(),
        )
        return _Drive(parts, workflow, holder, database, claim, looked).go()


def _look(run: Run, parts: Parts) -> Driveable | None:
    """What it is to be driven with; None for a run that is only to be stopped, which needs no graph."""
    registry.refuse_elsewhere(run, store=parts.store.kind, objects=parts.objects_url, ledger=parts.ledger_id)
    stops = run.status is Status.CANCEL_REQUESTED
    try:
        workflow = _workflow_of(run, parts)
    except (UsageError, OtherVersion):
        if stops:
            return None
        raise
    except KeyError:
        if stops:
            return None
        raise OtherVersion(
            f"The run {run.run_id} was made with workflow version {run.workflow_version}, which this software does not "
            "serve. Resume it with a version of the software that does."
        ) from None
    if not stops:
        parts.check_run(run)
    return workflow


def _workflow_of(run: Run, parts: Parts) -> Driveable:
    if run.kind == FOREIGN and parts.foreign is not None:
        return parts.foreign(run)
    return parts.workflow(run.workflow_version)


class _Drive:
    """One claimed run under one epoch, from the claim to the release."""

    def __init__(
        self,
        parts: Parts,
        workflow: Driveable | None,
        holder: Holder,
        database: Database,
        claim: lease.Claim,
        looked: Looked,
    ) -> None:
        self._parts = parts
        self._served = workflow
        self._holder = holder
        self._database = database
        self._run = claim.run
        self._looked = looked
        self._token = uuid.uuid4().hex[:8]
        self._stalled = claim.run.takeovers > 0 or claim.run.failures > 0
        self._begin_epoch(claim.epoch)

    def _begin_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._heartbeat = Heartbeat(
            self._holder,
            self._run.run_id,
            epoch,
            self._parts.lease_seconds,
            is_cancelled=lambda: self._holder.is_cancelled(self._run.run_id),
        )
        self._recorder = DriveRecorder(self._database, self._run, epoch, self._heartbeat)
        self._heartbeat.start()

    def go(self) -> Outcome:
        """Steps 2 to 6 behind the claim."""
        try:
            ending = self._to_the_end()
            while (outcome := self._end(ending)) is None:
                self._begin_epoch(self._epoch)  # the same one: its heartbeat was ended for an end that does not count
                ending = self._to_a_stop()
        except LeaseLost as lost:
            return Outcome.lost(str(lost))
        finally:
            self._heartbeat.stop()
        return self._look_again(ending, outcome)

    def _end(self, ending: Ending) -> Outcome | None:
        return end_drive(self._database, self._run.run_id, self._epoch, self._heartbeat, ending)

    def _to_the_end(self) -> Ending:
        try:
            return self._on_the_way()
        except CancelRequested:
            return self._to_a_stop()

    def _on_the_way(self) -> Ending:
        try:
            fence = self._announce()
            counts = {"actions": len(fence.actions), "unsettled": len(fence.unsettled)}
            self._recorder.record("announced", counts)
            if self._run.status is Status.CANCEL_REQUESTED or fence.closed_at is not None:
                return self._to_a_stop()
            self._looked.refuse(self._run)
            if self._run.takeovers > POISON_TAKEOVERS:
                return self._poison()
            if (open_question := self._settle(fence)) is not None:
                return open_question
            return self._in_graph()
        except Exception as error:
            stopping.refuse_fenced(error, self._run.run_id, self._epoch)
            self._heartbeat.check()  # what cancelling did to the step is no error of the run
            if meaning(error) == "cancelled":
                return self._to_a_stop()
            self._recorder.record("error", describe(error))
            return _ending_of(error)

    def _to_a_stop(self) -> Ending:
        """Cancelled, or by what was claimed before, whose graph comes to its end by receipts alone."""
        self._heartbeat.heed()
        stop = stopping.Stop(
            ledger=self._parts.ledger,
            run=self._run,
            epoch=self._epoch,
            announce=self._announce_again,
            recorder=self._recorder,
            asked=cancelling.who_asked(self._database, self._run.run_id),
            decides=self._served.decides if self._served is not None else cancelling.decides,
        )
        return stopping.bring_to_a_stop(stop, self._in_graph if self._served is not None else None)

    @property
    def _workflow(self) -> Driveable:
        assert self._served is not None, "a run that is not served here is only stopped"
        return self._served

    def _announce(self) -> Fence:
        """Tell the ledger which epoch drives. One that is ahead means that our database was restored: go beyond it."""
        while True:
            try:
                return self._announce_again()
            except StaleEpoch as error:
                to = max(error.fence_epoch or 0, self._epoch) + 1
                self._heartbeat.stop()
                if not lease.raise_epoch(self._database, self._run, self._epoch, to, self._holder):
                    raise
                self._begin_epoch(to)

    def _announce_again(self) -> Fence:
        """The fence as it is now, under our epoch. StaleEpoch when the ledger knows a newer one."""
        holder = f"{host_name()} pid {os.getpid()} {self._token}"
        return self._parts.ledger.fence(self._run.run_id, self._epoch, holder=holder)

    def _settle(self, fence: Fence) -> Wait | None:
        """Verify what is in flight or unknown. What only a person can settle ends the drive before it begins."""
        unknown: list[str] = []
        for left in fence.unsettled:
            self._heartbeat.check()
            now = self._reconciled(left)
            data = {"action_id": now.action_id, "kind": now.kind, "before": str(left.status), "status": str(now.status)}
            self._recorder.record("settled", data, step=now.step)
            if now.status is ActionStatus.UNKNOWN and not self._workflow.goes_on(now):
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
            follow_head((snapshot.config.get("configurable") or {})["checkpoint_id"])

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
        if ending.questions:
            answered = set(ending.questions) <= self.answers().keys()
        else:
            answered = is_answered(self._parts.ledger, ending.reason, ending.action_ids, self._database.now())
        if not answered:
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
