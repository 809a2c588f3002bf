"""The wire protocol of the outbox and of look-ups per run; see `protocol` for what an operation is."""

from __future__ import annotations

from onward_ledger.action import Action, ActionKey, Json
from onward_ledger.protocol import Build, Operation, Recorded, Request, exchange, put_action, query_of


def perform_later(
    key: ActionKey,
    kind: str,
    build: Build,
    *,
    epoch: int,
    in_order: bool,
    recorded: Recorded,
    patience_seconds: float,
) -> Operation[Action]:
    """Store one action for the service to perform, with pinned intent as in `protocol.put_action`."""
    query = {"mode": "async", "in_order": 1 if in_order else None}
    return (
        yield from put_action(
            key,
            kind,
            build,
            epoch=epoch,
            recorded=recorded,
            propose=False,
            pinned=True,
            patience_seconds=patience_seconds,
            query=query,
        )
    )


def outbox(*, dead: bool | None, run_id: str | None, limit: int, after: str | None) -> Operation[tuple[Action, ...]]:
    """What is in the outbox, in the order of its storing, behind the action `after`."""
    told = None if dead is None else str(dead).lower()
    query = query_of(dead=told, run_id=run_id, limit=limit, after=after)
    return _actions((yield from exchange(Request(method="GET", path=f"/v1/outbox{query}"))))


def retry(action_id: str, *, reason: str | None) -> Operation[Action]:
    """A person lets a dead letter be tried again."""
    request = Request(method="POST", path=f"/v1/outbox/{action_id}/retry", body={"reason": reason})
    return Action.from_json((yield from exchange(request)))


def reconcile_run(run_id: str) -> Operation[tuple[Action, ...]]:
    """Settle what a run has in flight or unknown, as far as providers can tell."""
    return _actions((yield from exchange(Request(method="POST", path=f"/v1/runs/{run_id}/reconcile"))))


def _actions(data: Json) -> tuple[Action, ...]:
    return tuple(Action.from_json(item) for item in data["actions"])
