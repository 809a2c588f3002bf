"""How a drive ends: what it came to, written into the run's row with the release of the lease, in one commit.

Finish published                 ▶ succeeded                                exit 0
Finish rejected, unverified      ▶ failed with that reason                  exit 1
Failed definite, Broken          ▶ failed                                   exit 1
Failed by deadline or budget     ▶ failed with that reason                  exit 7
Poison                           ▶ failed, poison                           exit 1
Wait for a decision              ▶ waiting_human                            exit 5
Wait for an unknown outcome      ▶ waiting_human, unknown_outcome           exit 8
Drained                          ▶ queued                                   exit 6
Failed transiently               ▶ queued with back-off                     again by itself, then 6 or 9
Cancelled (the fence is closed)  ▶ cancelled                                exit 1
the lease is lost                ▶ nothing: the row belongs to another      exit 4
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from graph.context import LeaseLost
from onward_ledger.database import Database, Transaction, Unreachable
from onward_ledger.errors import LedgerUnreachable, ObjectsUnreachable
from runs import events, registry
from runs.errors import Exit, LimitReached, ServiceUnreachable
from runs.failures import BACK_OFF_SECONDS, meaning
from runs.heartbeat import Heartbeat
from runs.next_move import Broken, Finish, Wait
from runs.outcome import Outcome
from runs.registry import Run, Status


@dataclass(frozen=True)
class Drained:
    """Stopped at a super-step because somebody asked."""


@dataclass(frozen=True)
class Cancelled:
    """The ledger's fence is closed."""

    why: str


@dataclass(frozen=True)
class Failed:
    """An error ended the invocation."""

    error: Exception


@dataclass(frozen=True)
class Poison:
    """The run ends its drivers: so many take-overs in a row, and no progress."""

    takeovers: int


Ending = Finish | Wait | Broken | Drained | Cancelled | Failed | Poison


@dataclass(frozen=True, kw_only=True)
class _Move:
    """A transition to write, and what it means for the command."""

    word: str
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


def end_drive(database: Database, run_id: str, epoch: int, heartbeat: Heartbeat, ending: Ending) -> Outcome:
    """Write the end and release the lease. Raises LeaseLost when the run has another driver by now."""
    heartbeat.check()
    heartbeat.stop()  # before the release: a heartbeat after it would take the lease for lost
    while True:
        run = registry.get(database, run_id)
        if run.epoch != epoch or not run.driven:
            raise LeaseLost(f"The run {run_id} is no longer driven under epoch {epoch}.")
        move = _move_for(ending, run)
        with database.transaction() as tx:
            if _write(tx, run, epoch, move):
                return move.outcome


def _write(tx: Transaction, run: Run, epoch: int, move: _Move) -> bool:
    """False when the row has changed since it was read: somebody asked to cancel, or took over."""
    tx.send("lock_run", run_id=run.run_id)
    outcome = move.outcome
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
    if ending.outcome == "rejected":
        return _failed("rejected", "The report was rejected; nothing was published.", Exit.FAILED)
    return _failed("unverified", "The report did not pass its test; the last draft is kept.", Exit.FAILED)


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
    return _failed("error", sentence(error), Exit.FAILED)


def _again_later(error: Exception, run: Run) -> _Move:
    """Queued with back-off. After the last pause the run is handed back: resumable, but not by itself."""
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
