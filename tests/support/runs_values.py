"""Runs, events and actions as values, for tests that look at how they are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from onward_ledger.action import Action, ActionKey, Decision, Status, request_hash
from runs.events import Event
from runs.registry import Run
from runs.registry import Status as RunStatus

RUN_ID = "11111111-2222-4333-8444-555555555555"
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_run(**changed: Any) -> Run:
    """A queued run that nobody has driven yet."""
    values: dict[str, Any] = {
        "run_id": RUN_ID,
        "kind": "workbook",
        "status": RunStatus.QUEUED,
        "reason": None,
        "message": None,
        "version": 1,
        "owner": "alice",
        "tenant": "default",
        "workflow_version": "1",
        "input_name": "sales.csv",
        "input_key": f"runs/{RUN_ID}/abc",
        "input_digest": "a" * 64,
        "input_size": 12,
        "asks": [],
        "model": None,
        "params": {},
        "deadline_at": None,
        "budget_micros": None,
        "spent_micros": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "failures": 0,
        "wake_at": None,
        "parent": None,
        "store": "postgres",
        "objects": "file:///data/objects",
        "ledger": "local",
        "last_seq": 1,
        "created_at": NOW - timedelta(minutes=5),
        "updated_at": NOW,
        "finished_at": None,
        "takeovers": 0,
        "budget_tokens": None,
        "allowed_kinds": None,
        "missed_at": None,
        "epoch": None,
        "holder_id": None,
        "expires_at": None,
        "lease_seconds": None,
        "host": None,
        "pid": None,
        "process_started": None,
        "driver_kind": None,
        "holder_alive": False,
        "server_is_young": False,
        "now_at": NOW,
    }
    return Run(**{**values, **changed})


def a_driven_run(*, alive: bool = True, seconds_left: float = 10, **changed: Any) -> Run:
    """A run that a process has claimed."""
    lease = {"epoch": 1, "holder_id": 7, "expires_at": NOW + timedelta(seconds=seconds_left), "lease_seconds": 15.0}
    who = {"host": "box", "pid": 4242, "holder_alive": alive}
    return a_run(**{"status": RunStatus.RUNNING, **lease, **who, **changed})


def events_of(*told: tuple[Any, ...]) -> list[Event]:
    """Events from (kind, step, data) or (kind, step, data, epoch), one second apart."""
    return [
        Event(
            run_id=RUN_ID,
            seq=number,
            epoch=rest[0] if rest else 1,
            kind=kind,
            step=step,
            data=data,
            created_at=NOW + timedelta(seconds=number),
        )
        for number, (kind, step, data, *rest) in enumerate(told, 1)
    ]


def an_action(step: str, slot: str, kind: str, resource: str, params: dict[str, Any], **changed: Any) -> Action:
    """A PREPARED action of the run."""
    key = ActionKey(RUN_ID, step, slot)
    values: dict[str, Any] = {
        "action_id": key.action_id,
        "run_id": RUN_ID,
        "step": step,
        "slot": slot,
        "rev": 1,
        "kind": kind,
        "resource": resource,
        "params": params,
        "request_hash": request_hash(kind, resource, params),
        "status": Status.PREPARED,
        "epoch": 1,
        "version": 1,
        "events": 1,
        "head": "0" * 64,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Action(**{**values, **changed})


def a_decision(action: Action, word: str, **changed: Any) -> Decision:
    """Somebody's decision on an action."""
    values: dict[str, Any] = {
        "decision_id": 1,
        "action_id": action.action_id,
        "decision": word,
        "principal": "bob",
        "request_hash": action.request_hash,
        "resource": action.resource,
        "scope": action.kind,
        "decided_at": NOW,
    }
    return Decision(**{**values, **changed})
