"""Actions: perform, look, take back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from onward_ledger import callers, compensating
from onward_ledger.action import Action, Status
from onward_ledger.callers import Caller, Scope
from onward_ledger.errors import BadRequest
from onward_ledger.gate import caller
from onward_ledger.ledger import Ledger
from onward_ledger.routes.common import ActionId, Limit, Principal, RunId, answer, ledger, may, may_touch, who
from onward_ledger.store.outbox import Later
from onward_ledger.values import Event
from onward_ledger.wire import ActionBody, CompensateBody, PartQuery, SlotQuery, WithdrawBody

router = APIRouter()


class Mode(StrEnum):
    """Who performs: this request, or the service after it."""

    SYNC = "sync"
    ASYNC = "async"


@dataclass(frozen=True, kw_only=True)
class ActionList:
    """A page of actions; the next one begins behind the last id."""

    actions: list[Action]


@dataclass(frozen=True, kw_only=True)
class EventList:
    """A whole history."""

    events: list[Event]


@router.put("/actions/{action_id}", responses={200: {"model": Action}, 202: {"model": Action}})
def put_action(
    request: Request,
    action_id: ActionId,
    body: ActionBody,
    propose: bool = False,
    mode: Mode = Mode.SYNC,
    in_order: bool = False,
    principal: Principal = None,
) -> JSONResponse:
    """Create or replay: the action is performed once, however often this is asked. `propose=1` stops at PREPARED.

    `mode=async` stores it, answers at once, and the service performs it; with `in_order=1` behind everything of this
    kind and resource that was stored in order before and is not settled. How it is performed is no part of the request:
    whoever asks for it again, in either mode, is answered with the record.

    200 is what stands (SUCCEEDED, FAILED, UNKNOWN, WITHDRAWN), 202 a record that waits for an approval or for the
    service.
    """
    may(request, Scope.PERFORM, body.kind)
    if propose and mode is Mode.ASYNC:
        raise BadRequest("propose stops at PREPARED, mode=async performs: ask for one of them.")
    if in_order and mode is Mode.SYNC:
        raise BadRequest("in_order belongs to mode=async.")
    later = Later(in_order=in_order) if mode is Mode.ASYNC else None
    return put(
        ledger(request), caller(request), str(action_id), body, propose=propose, later=later, principal=principal
    )


def put(
    ledger: Ledger,
    caller: Caller,
    action_id: str,
    body: ActionBody,
    *,
    propose: bool = False,
    later: Later | None = None,
    principal: str | None,
) -> JSONResponse:
    """What `put_action` does, once its request is read. `principal`: the header as it came."""
    caller.require(Scope.PERFORM, body.kind)
    intent = body.intent(action_id)
    person, _ = callers.who(caller, principal)
    return answer(ledger.put(intent, propose=propose, later=later, principal=person))


@router.get("/actions/{action_id}", responses={200: {"model": Action}})
def get_action(request: Request, action_id: ActionId) -> JSONResponse:
    """One action, with the decision that stands for it, its place in the outbox and its look-ups in the background."""
    return look(ledger(request), caller(request), str(action_id))


def look(ledger: Ledger, caller: Caller, action_id: str) -> JSONResponse:
    """What `get_action` does, once its request is read."""
    caller.require(Scope.READ)
    return JSONResponse(ledger.store.outbox.look(action_id).to_json())


@router.get("/actions", responses={200: {"model": ActionList}})
def list_actions(
    request: Request,
    run_id: UUID | None = None,
    step: PartQuery | None = None,
    slot: SlotQuery | None = None,
    status: Status | None = None,
    after: UUID | None = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Actions in the order of their creation, behind the action `after`."""
    may(request, Scope.READ)
    found = ledger(request).store.actions(
        run_id=str(run_id) if run_id else None,
        step=step,
        slot=slot,
        status=status,
        after=str(after) if after else None,
        limit=limit,
    )
    return JSONResponse({"actions": [action.to_json() for action in found]})


@router.get("/actions/{action_id}/events", responses={200: {"model": EventList}})
def get_events(request: Request, action_id: ActionId) -> JSONResponse:
    """The history of one action, oldest first; each event holds the hash of the one before."""
    may(request, Scope.READ)
    return JSONResponse({"events": [event.to_json() for event in ledger(request).store.events(str(action_id))]})


@router.post("/actions/{action_id}/reconcile", responses={200: {"model": Action}})
def reconcile(request: Request, action_id: ActionId) -> JSONResponse:
    """Settle an action in flight or unknown as far as its provider can tell; others are answered as they are."""
    may_touch(request, Scope.PERFORM, str(action_id))
    return JSONResponse(ledger(request).reconcile(str(action_id)).to_json())


@router.post("/runs/{run_id}/reconcile", responses={200: {"model": ActionList}})
def reconcile_run(request: Request, run_id: RunId) -> JSONResponse:
    """Settle what a run has in flight or UNKNOWN, as far as providers can tell: each action as it stands then.

    What somebody performs now is not waited for. Providers are asked for 20 seconds; ask again for the rest.
    """
    may(request, Scope.PERFORM)
    for kind in {action.kind for action in ledger(request).store.look_ups.unsettled(str(run_id))}:
        may(request, Scope.PERFORM, kind)
    found = ledger(request).reconcile_run(str(run_id))
    return JSONResponse({"actions": [action.to_json() for action in found]})


@router.post("/actions/{action_id}/withdraw", responses={200: {"model": Action}})
def withdraw(request: Request, action_id: ActionId, body: WithdrawBody, principal: Principal = None) -> JSONResponse:
    """Take back a PREPARED action; one that may have been sent becomes UNKNOWN."""
    may_touch(request, Scope.PERFORM, str(action_id))
    action = ledger(request).store.withdraw(str(action_id), who(request, principal), body.reason)
    return JSONResponse(action.to_json())


@router.post("/actions/{action_id}/compensate", responses={200: {"model": Action}, 202: {"model": Action}})
def compensate(
    request: Request, action_id: ActionId, body: CompensateBody, principal: Principal = None
) -> JSONResponse:
    """Take back an effect that happened, where its kind says how: the answer is the action that does it.

    The ledger derives that action from its own record, and so a closed fence does not refuse it. It is performed once,
    however often this is asked. The action that is taken back stays SUCCEEDED: what happened has happened.
    """
    may_touch(request, Scope.PERFORM, str(action_id))
    call = compensating.call(ledger(request), str(action_id), epoch=body.epoch, principal=who(request, principal))
    may(request, Scope.PERFORM, call.intent.kind)
    return answer(ledger(request).perform(call))
