"""Look into a ledger: what was done, and how each action came to where it stands."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from onward_ledger.action import Status
from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    DEFAULT_URL,
    AsJson,
    TokenFile,
    Url,
    connected,
    line,
    show_json,
    told,
)


def list_(
    run: Annotated[str | None, typer.Option(help="Only the actions of this run.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only actions that stand there.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    after: Annotated[str | None, typer.Option(help="Begin behind this action id.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """List actions in the order of their creation."""
    with told(), connected(url, token_file) as client:
        actions = client.actions(run, status, limit=limit, after=after)
    if as_json:
        show_json({"actions": [action.to_json() for action in actions]})
        return
    for action in actions:
        line(action)


def show(
    action_id: Annotated[str, typer.Argument(help="The action's id.")],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Show one action with its history."""
    with told(), connected(url, token_file) as client:
        action, events = client.action(action_id), client.events(action_id)
    if as_json:
        show_json({"action": action.to_json(), "events": [event.to_json() for event in events]})
        return
    line(action)
    for name, value in action.to_json().items():
        if value is not None:
            typer.echo(f"  {name}: {value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)}")
    for event in events:
        before = f"{event.from_status} → " if event.from_status else ""
        by = event.principal or (f"epoch {event.epoch}" if event.epoch else "")
        typer.echo(
            f"  {event.recorded_at.isoformat()}  {event.word}: {before}{event.to_status}  {by}  {event.reason or ''}"
        )


def openapi() -> None:
    """Print the OpenAPI document of the service."""
    from onward_ledger.service import create_app  # as in serve

    show_json(create_app(None).openapi())
