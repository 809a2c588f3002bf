"""How a drive ends: what it came to, written into the run's row with the release of the lease, in one commit.

Finish published                 ▶ succeeded                                exit 0
Finish rejected, unverified      ▶ failed with that reason                  exit 1
Failed definite, Broken          ▶ failed                                   exit 1
Failed by parameters or rights   ▶ failed: parameters, not_permitted        exit 1
Failed by a limit                ▶ failed: deadline, budget or attempts     exit 7
Poison                           ▶ failed, poison                           exit 1
Wait for a decision              ▶ waiting_human                            exit 5
Wait for an unknown outcome      ▶ waiting_human, unknown_outcome           exit 8
Drained                          ▶ queued                                   exit 6
Failed transiently               ▶ queued with back-off                     again by itself, then 6 or 9
Cancelled (the fence is closed)  ▶ cancelled                                exit 1
TooLate (decided before that)    ▶ succeeded | failed, as that action says  exit 0 | 1
NotStopped (the ledger is away)  ▶ cancel_requested still                   again by itself, then 6 or 9
any other, and to be cancelled   ▶ nothing yet: the run is stopped first
the lease is lost                ▶ nothing: the row belongs to another      exit 4
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from graph.context import LeaseLost
from onward_ledger.action import Action
from onward_ledger.action import Status as ActionStatus
from onward_ledger.database import Database, Transaction, Unreachable
from onward_ledger.errors import LedgerUnreachable, ObjectsUnreachable
from runs import events, registry
from runs.errors import Exit, LimitReached, ServiceUnreachable
from runs.failures import ATTEMPTS, BACK_OFF_SECONDS, Meaning, meaning
from runs.heartbeat import Heartbeat
from runs.next_move import Broken, Finish, Wait
from runs.outcome import Outcome
from runs.registry import Run, Status

# What a graph comes to when its work is done.
DONE = ("published", "done")


@dataclass(frozen=True)
class Drained:
    """Stopped at a super-step because somebody asked."""


@dataclass(frozen=True)
class Cancelled:
    """The ledger's fence is closed, and nothing is in flight."""

    why: str


@dataclass(frozen=True)
class TooLate:
    """The action that decides the outcome was claimed before the ledger's fence was closed; it is settled."""

    action: Action


@dataclass(frozen=True)
class NotStopped:
    """The run is to be cancelled, and could not be stopped now."""

    error: Exception


@dataclass(frozen=True)
class Failed:
    """An error ended the invocation."""

    error: Exception


@dataclass(frozen=True)
class Poison:
    """The run ends its drivers: so many take-overs in a row, and no progress."""

    takeovers: int


Ending = Finish | Wait | Broken | Drained | Cancelled | TooLate | NotStopped | Failed | Poison


@dataclass(frozen=True, kw_only=True)
class _Move:
    """A transition to write (no word: none), and what it means for the command."""

    word: str | None
    outcome: Outcome
    failures: int = 0
    wake_seconds: float | None = None
    action_ids: tuple[str, ...] | None = None


def describe(error: BaseException) -> dict[str, Any]:
    """An error as an event's data."""
    return {"error": type(error).__name__, "message": sentence(error), "meaning": meaning(error)}


def sentence(error: BaseException) -> str:
    """An error for people: our own messages as they are, others with their kind."""
    own = getattr(error, "message", None)
    if isinstance(own, str) and own and hasattr(error, "definite"):
        return own
    first = (str(error).splitlines() or [""])[0]
    return first if hasattr(error, "definite") and first else f"{type(error).__name__}: {first}".rstrip(": ")


def end_drive(database: Database, run_id: str, epoch: int, heartbeat: Heartbeat, ending: Ending) -> Outcome | None:
    """Write the end and release the lease; None when the run is to be cancelled, so that this is not its end.

    Raises LeaseLost when the run has another driver by now.
    """
    heartbeat.check_lease()
    heartbeat.stop()  # before the release: a heartbeat after it would take the lease for lost
    while True:
        run = registry.get(database, run_id)
        if run.epoch != epoch or not run.driven:
            raise LeaseLost(f"The run {run_id} is no longer driven under epoch {epoch}.")
        if run.status is Status.CANCEL_REQUESTED and not _ends_a_cancelled_run(ending):
            return None
        move = _move_for(ending, run)
        with database.transaction() as tx:
            if _write(tx, run, epoch, move):
                return move.outcome


def _ends_a_cancelled_run(ending: Ending) -> bool:
    """Whether it may stand although somebody asked to cancel: published is claimed before, whoever asked when."""
    if isinstance(ending, Finish):
        return ending.outcome in DONE
    return isinstance(ending, Cancelled | TooLate | NotStopped)


def _write(tx: Transaction, run: Run, epoch: int, move: _Move) -> bool:
    """False when the row has changed since it was read: somebody asked to cancel, or took over."""
    tx.send("lock_run", run_id=run.run_id)
    outcome = move.outcome
    if move.word is None:
        tx.send("count_failure", run_id=run.run_id, epoch=epoch)
        return tx.run("put_off_lease", run_id=run.run_id, epoch=epoch, seconds=move.wake_seconds) == 1
    moved = registry.move(
        tx,
        run,
        move.word,
        epoch=epoch,
        reason=outcome.reason,
        message=outcome.message,
        failures=move.failures,
        wake_seconds=move.wake_seconds,
    )
    if not moved:
        return False
    if move.action_ids is not None:
        data = {"reason": outcome.reason, "action_ids": list(move.action_ids)}
        events.send(tx, run.run_id, "waiting", data, epoch=epoch)
    if move.word == "request_cancel":
        return False  # the second half of cancelling follows, under the same lease
    released = tx.run("release_lease", run_id=run.run_id, epoch=epoch)
    assert released == 1, "the same transaction has just compared the epoch"
    return True


def _move_for(ending: Ending, run: Run) -> _Move:
    if isinstance(ending, Finish):
        return _finished(ending)
    if isinstance(ending, Wait):
        return _waiting(ending)
    if isinstance(ending, Broken):
        message = f"This is a defect of the software: {ending.why}. Evidence: {ending.evidence}"
        return _failed("broken", message, Exit.FAILED)
    if isinstance(ending, Drained):
        message = "Stopped at a safe place; `onward resume` goes on."
        return _Move(word="requeue", outcome=_outcome(Status.QUEUED, "drained", message, Exit.HANDED_BACK))
    if isinstance(ending, Cancelled):
        if run.status is Status.RUNNING:
            outcome = _outcome(Status.CANCEL_REQUESTED, "cancelled", ending.why, Exit.FAILED)
            return _Move(word="request_cancel", outcome=outcome)
        outcome = _outcome(Status.CANCELLED, "cancelled", ending.why, Exit.FAILED)
        return _Move(word="confirm_cancel", outcome=outcome)
    if isinstance(ending, TooLate):
        return _too_late(ending.action)
    if isinstance(ending, NotStopped):
        return _not_stopped(ending.error, run)
    if isinstance(ending, Poison):
        message = (
            f"{ending.takeovers} drivers in a row ended in this run without any progress, so it is set aside. "
            f"What they did: onward show {run.run_id} --events"
        )
        return _failed("poison", message, Exit.FAILED)
    return _by_error(ending.error, run)


def _finished(ending: Finish) -> _Move:
    if ending.outcome == "published":
        return _Move(word="succeed", outcome=_outcome(Status.SUCCEEDED, None, "The report is published.", Exit.OK))
    if ending.outcome == "done":
        return _Move(word="succeed", outcome=_outcome(Status.SUCCEEDED, None, "The graph is at its end.", Exit.OK))
    if ending.outcome == "rejected":
        return _failed("rejected", "The report was rejected; nothing was published.", Exit.FAILED)
    return _failed("unverified", "The report did not pass its test; the last draft is kept.", Exit.FAILED)


def _too_late(action: Action) -> _Move:
    what = f"{action.kind} {action.resource}"
    if action.status is ActionStatus.SUCCEEDED:
        message = f"It was too late to cancel: {what} had happened."
        return _Move(word="succeed", outcome=_outcome(Status.SUCCEEDED, None, message, Exit.OK))
    message = f"It was too late to cancel: {what} had been refused. {action.reason or ''}".rstrip()
    return _failed("error", message, Exit.FAILED)


def _not_stopped(error: Exception, run: Run) -> _Move:
    """Still to be cancelled: again after a pause, by this command a few times, then by whoever finds it."""
    code = Exit.UNREACHABLE if _is_unreachable(error) else Exit.HANDED_BACK
    tries = len(BACK_OFF_SECONDS)
    pause = BACK_OFF_SECONDS[min(run.failures, tries - 1)]
    outcome = _outcome(Status.CANCEL_REQUESTED, "cancelled", f"It could not be stopped now. {sentence(error)}", code)
    if run.failures < tries:
        outcome = replace(outcome, again_after_seconds=pause)
    return _Move(word=None, outcome=outcome, wake_seconds=pause)


def _waiting(ending: Wait) -> _Move:
    if ending.reason == "unknown_outcome":
        ids = ", ".join(ending.action_ids)
        message = (
            f"Whether this happened is not known: {ids}. `onward resume` asks the provider again; where it cannot "
            "tell, look it up, then say so with `onward ledger resolve`."
        )
        outcome = _outcome(Status.WAITING_HUMAN, ending.reason, message, Exit.UNKNOWN_OUTCOME)
    else:
        outcome = _outcome(Status.WAITING_HUMAN, ending.reason, "A person has to decide.", Exit.WAITING)
    return _Move(word="wait", outcome=outcome, action_ids=ending.action_ids)


def _by_error(error: Exception, run: Run) -> _Move:
    kind = meaning(error)
    if kind == "transient":
        return _again_later(error, run)
    if kind == "cancelled":
        return _move_for(Cancelled(sentence(error)), run)
    if isinstance(error, LimitReached):
        return _failed(error.limit, error.message, Exit.LIMIT)
    return _failed(_REASONS.get(kind, "error"), sentence(error), Exit.FAILED)


_REASONS: dict[Meaning, str] = {"parameters": "parameters", "forbidden": "not_permitted"}


def _again_later(error: Exception, run: Run) -> _Move:
    """Queued with back-off. After the last pause the run is handed back: resumable, but not by itself."""
    if not _is_unreachable(error) and run.failures + 1 >= ATTEMPTS:
        message = f"{ATTEMPTS} attempts in a row failed, the last one so: {sentence(error)}"
        return _failed("attempts", message, Exit.LIMIT)
    code = Exit.UNREACHABLE if _is_unreachable(error) else Exit.HANDED_BACK
    tries = len(BACK_OFF_SECONDS)
    pause = BACK_OFF_SECONDS[min(run.failures, tries - 1)]
    outcome = _outcome(Status.QUEUED, "transient", sentence(error), code)
    if run.failures < tries:
        outcome = replace(outcome, again_after_seconds=pause)
    return _Move(word="requeue", outcome=outcome, failures=run.failures + 1, wake_seconds=pause)


def _is_unreachable(error: Exception) -> bool:
    return isinstance(error, Unreachable | LedgerUnreachable | ObjectsUnreachable | ServiceUnreachable)


def _failed(reason: str, message: str, code: Exit) -> _Move:
    return _Move(word="fail", outcome=_outcome(Status.FAILED, reason, message, code))


def _outcome(status: Status, reason: str | None, message: str, code: Exit) -> Outcome:
    return Outcome(status=status, reason=reason, message=message, exit_code=code)
