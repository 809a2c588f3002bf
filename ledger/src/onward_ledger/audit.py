"""The hash chain of an action's history: each event holds the hash of the one before, the action holds the last.

An event that was changed, cut out or put elsewhere breaks the chain; a cut end shows in the action's count and head.
The functions on JSON need no database: they judge an export (see trail.py) on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from onward_ledger.action import Action, ActionKey, request_hash
from onward_ledger.canonical import digest
from onward_ledger.errors import BadRequest
from onward_ledger.values import Event

# What the first event of every chain points to: no event has this hash.
FIRST = "0" * 64


def event_hash(event: Event) -> str:
    """The hex sha256 over the canonical JSON of everything in the event but its own hash."""
    return member_hash(event.to_json())


def member_hash(members: Mapping[str, Any]) -> str:
    """The same of any JSON object that keeps its hash in the member `hash`."""
    return digest({name: value for name, value in members.items() if name != "hash"})


def broken_at(action: Action, events: Iterable[Event]) -> int | None:
    """The first position (from 1) where the history is not what was written; None where all is well."""
    broken = history_break(action.action_id, action.events, action.head, (event.to_json() for event in events))
    return broken[0] if broken else None


def history_break(
    action_id: str, count: int, head: str, history: Iterable[Mapping[str, Any]]
) -> tuple[int, str] | None:
    """The first position (from 1) where a history in JSON is not what was written, and how it shows."""
    last, status, position = FIRST, None, 0
    for position, event in enumerate(history, start=1):
        if event.get("hash") != member_hash(event):
            return position, "it was changed"
        if (event.get("action_id"), event.get("seq"), event.get("previous_hash")) != (action_id, position, last):
            return position, "it does not belong behind the one before it"
        if event.get("from_status") != status:
            return position, f"it leaves {event.get('from_status')}, but the one before it led to {status}"
        last, status = event["hash"], event.get("to_status")
    if (position, last) == (count, head):
        return None
    how = f"it is missing: the record counts {count}" if position < count else f"the record ends elsewhere, at {count}"
    return position + 1, how


def record_break(record: Mapping[str, Any], history: list[Any], decisions: list[Any]) -> str | None:
    """What in a record contradicts itself or its history, as a sentence's end; None where all is well."""
    try:
        key = ActionKey(record["run_id"], record["step"], record["slot"], record["rev"])
        wanted = request_hash(record["kind"], record["resource"], record["params"])
    except (BadRequest, KeyError, TypeError, ValueError):
        return "has a record that is not one of an action"
    if record.get("action_id") != key.action_id:
        return "has an id that its run, step, slot and revision do not make"
    if record.get("request_hash") != wanted:
        return "has another request than its request hash was made of"
    if history and record.get("status") != history[-1].get("to_status"):
        return f"is recorded as {record.get('status')}, but its history ends with {history[-1].get('to_status')}"
    return _bound_break(record, [_detail(event) for event in history]) or _decisions_break(history, decisions)


def _bound_break(record: Mapping[str, Any], details: list[Mapping[str, Any]]) -> str | None:
    """The first event holds the request's hash, and the one that brought the receipt holds the receipt's."""
    if details and details[0].get("request_hash", record["request_hash"]) != record["request_hash"]:
        return "has another request than its history began with"
    receipts = [detail["receipt_hash"] for detail in details if "receipt_hash" in detail]
    if receipts and receipts[-1] != digest(record.get("receipt")):
        return "has another receipt than its history holds"
    return None


def _decisions_break(history: list[Any], decisions: list[Any]) -> str | None:
    """Each decision that the history tells of is there, by the same person."""
    known = {str(decision.get("decision_id")): decision for decision in decisions if isinstance(decision, dict)}
    for event in history:
        detail = _detail(event)
        if "decision_id" not in detail:
            continue
        found = known.get(str(detail["decision_id"]), {})
        by = "revoked_by" if event.get("word") == "revoke" else "seconded_by" if detail.get("second") else "principal"
        if found.get(by) != event.get("principal") or found.get("decision") != detail.get("decision", "approve"):
            return f"lacks the decision {detail['decision_id']} as its history tells it"
    return None


def _detail(event: Mapping[str, Any]) -> Mapping[str, Any]:
    detail = event.get("detail")
    return cast(Mapping[str, Any], detail) if isinstance(detail, dict) else {}
