"""Stopping a run that is to be cancelled, by a driver that holds it: the last two lines of `runs.cancelling`.

`cancelled` is written only behind this: by a driver that has seen the fence closed under its own announced epoch, and
nothing in flight. What nobody can tell stays UNKNOWN, and is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from graph.context import LeaseLost
from onward_ledger.action import Action, Status
from onward_ledger.errors import InProgress, LedgerError, NotCompensable
from onward_ledger.values import Fence
from runs.cancelling import Asked, decides, too_late
from runs.endings import DONE, Cancelled, Ending, NotStopped, TooLate, describe
from runs.failures import meaning
from runs.next_move import Finish
from runs.registry import Run
from runs.wake import Ledger

Json = dict[str, Any]


class Recorder(Protocol):
    """What is written about it in the run's history, under the epoch that stops it."""

    def record(self, kind: str, data: Json, *, step: str | None = None) -> None:
        """One event."""
        ...

    def receipt(self, action: Action, *, replayed: bool) -> None:
        """How an action stands."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What stopping a run works with. `announce` announces the driver's epoch, and answers with the fence as it is."""

    ledger: Ledger
    run: Run
    epoch: int
    announce: Callable[[], Fence]
    recorder: Recorder
    asked: Asked | None
    decides: Callable[[Action], bool] = decides


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Nothing of the run is under way, and nothing begins any more."""

    report: Json

    @property
    def why(self) -> str:
        """The run's message: who asked, and what had happened."""
        report, words = self.report, [self._asked()]
        done = [each for each in report["sent"] if each["status"] == Status.SUCCEEDED]
        back = [each for each in report["compensations"] if each["status"] == Status.SUCCEEDED]
        words += [f"{_effects(len(done))} happened before"] if done else ["nothing had been sent"]
        words += [f"{_effects(len(back))} taken back"] if back else []
        words += [f"{_effects(len(report['unknown']))} UNKNOWN"] if report["unknown"] else []
        return "; ".join(words) + "."

    def _asked(self) -> str:
        asked = Asked(principal=self.report["principal"] or "the ledger's operator", reason=self.report["reason"])
        return f"Cancelled, {asked.words}".rstrip(".")


def _effects(count: int) -> str:
    return f"{count} effect{'' if count == 1 else 's'}"


def bring_to_a_stop(stop: Stop, in_graph: Callable[[], Ending] | None) -> Ending:
    """How a run that is to be cancelled ends. `in_graph` goes on in its graph, where this process can.

    Raises LeaseLost when the ledger knows a newer driver.
    """
    try:
        stopped = _stopped(stop)
    except Exception as error:
        refuse_fenced(error, stop.run.run_id, stop.epoch)
        stop.recorder.record("error", describe(error))
        return NotStopped(error)
    if isinstance(stopped, Stopped):
        return Cancelled(stopped.why)
    return _decided(stop, stopped, in_graph)


def _decided(stop: Stop, first: Action, in_graph: Callable[[], Ending] | None) -> Ending:
    """Too late: the graph comes to its end by receipts alone. Where it cannot, the action itself says the end."""
    if in_graph is not None:
        try:
            ending = in_graph()
        except Exception as error:
            refuse_fenced(error, stop.run.run_id, stop.epoch)
            stop.recorder.record("error", describe(error))
        else:
            if isinstance(ending, Finish) and ending.outcome in DONE:
                return ending
    return TooLate(first)


def refuse_fenced(error: Exception, run_id: str, epoch: int) -> None:
    """LeaseLost where the error says that a newer driver has taken over."""
    if meaning(error) == "fenced":
        raise LeaseLost(f"The run {run_id} has a newer driver than epoch {epoch}.") from error


def _stopped(stop: Stop) -> Stopped | Action:
    """Close the fence, see to what is in flight, take back what can be; the report, or the action that came first.

    A LedgerError that may pass means: not yet, and everything can be done again.
    """
    fence = _settled(stop, _closed(stop))
    first = too_late(fence.actions, stop.decides)
    if first is not None:
        return first
    sent = [a for a in fence.claimed if not a.key.is_undo]
    told = {a.action_id: _taken_back(stop, a) for a in reversed(sent) if a.status is Status.SUCCEEDED}
    report = _report(stop, stop.announce(), sent, told)
    stop.recorder.record("cancel_report", report)
    return Stopped(report=report)


def _closed(stop: Stop) -> Fence:
    """The fence as it is seen closed under this driver's own epoch: from here on nothing is claimed."""
    fence = stop.announce()
    if fence.closed_at is None:
        words = stop.asked.words if stop.asked is not None else "asked for"
        stop.ledger.close_fence(stop.run.run_id, reason=words)
        fence = stop.announce()
    assert fence.closed_at is not None, "the ledger has just answered that it is closed"
    return fence


def _settled(stop: Stop, fence: Fence) -> Fence:
    """Nothing in flight any more. What nobody can tell stays UNKNOWN, and is listed."""
    for left in fence.unsettled:
        now = stop.ledger.reconcile(left.action_id)
        if now.status is not left.status:
            data = {"action_id": now.action_id, "kind": now.kind, "before": str(left.status), "status": str(now.status)}
            stop.recorder.record("settled", data, step=now.step)
    if not fence.unsettled:
        return fence
    fence = stop.announce()
    if any(action.status is Status.IN_FLIGHT for action in fence.actions):
        raise InProgress("An effect of the run is still under way.")
    return fence


def _taken_back(stop: Stop, done: Action) -> str | None:
    """Take an effect back, where its kind says how; why it could not be, where that is final."""
    try:
        undone = stop.ledger.compensate(done.action_id, epoch=stop.epoch)
    except NotCompensable:
        return None
    except LedgerError as error:
        if error.retryable:
            raise
        return error.message
    stop.recorder.receipt(undone, replayed=undone.replayed)
    return None


def _report(stop: Stop, fence: Fence, sent: Sequence[Action], told: dict[str, str | None]) -> Json:
    undone = {a.action_id: a for a in fence.actions if a.key.is_undo}
    of = {each.key.undo.action_id: each.action_id for each in sent}
    asked = stop.asked or Asked(principal=fence.closed_by or "", reason=fence.closed_reason)
    return {
        "principal": asked.principal or None,
        "reason": asked.reason,
        "closed_at": fence.closed_at.isoformat() if fence.closed_at else None,
        "sent": [_told(a) | {"not_taken_back": told.get(a.action_id)} for a in sent],
        "compensations": [_told(a) | {"of": of.get(a.action_id)} for a in undone.values()],
        "unknown": [a.action_id for a in fence.actions if a.status is Status.UNKNOWN],
        "withdrawn": [a.action_id for a in fence.actions if a.status is Status.WITHDRAWN],
    }


def _told(action: Action) -> Json:
    return {
        "action_id": action.action_id,
        "step": action.step,
        "kind": action.kind,
        "resource": action.resource,
        "status": str(action.status),
        "provider_id": action.provider_id,
        "receipt": action.receipt,
    }
