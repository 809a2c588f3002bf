"""The outbox from a shell: what the service has still to perform, and dead letters that are to be tried again."""

from __future__ import annotations

from typing import Annotated

import typer

from onward_ledger.action import Action
from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    DEFAULT_URL,
    AsJson,
    TokenFile,
    Url,
    Who,
    connected,
    line,
    show_json,
    speaking,
    told,
)


def outbox(
    dead: Annotated[bool, typer.Option("--dead", help="Only dead letters: they wait for a person.")] = False,
    run: Annotated[str | None, typer.Option(help="Only the actions of this run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    after: Annotated[str | None, typer.Option(help="Begin behind this action id.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """List what the service has still to perform, in the order in which it was stored."""
    with told(), connected(url, token_file) as client:
        actions = client.outbox(dead=True if dead else None, run_id=run, limit=limit, after=after)
    if as_json:
        show_json({"actions": [action.to_json() for action in actions]})
        return
    for action in actions:
        line(action)
        typer.echo(f"  {_next(action)}")


def _next(action: Action) -> str:
    entry = action.outbox
    if entry is None:
        return "It has left the outbox."
    attempts = f"{entry.attempts} attempt{'' if entry.attempts == 1 else 's'}"
    if entry.dead_at is not None:
        return f"Dead since {entry.dead_at.isoformat(timespec='seconds')}, {attempts}: {entry.dead_reason}"
    order = ", in order" if entry.in_order else ""
    return f"{attempts}{order}, next not before {entry.dispatch_at.isoformat(timespec='seconds')}"


def retry(
    action_id: Annotated[str, typer.Argument(help="The id of a dead letter.")],
    reason: Annotated[str | None, typer.Option(help="What has changed.")] = None,
    principal: Who = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Let a dead letter be tried again. One that is not dead is only shown."""
    with told(), speaking(url, token_file, principal) as client:
        action = client.retry(action_id, reason=reason)
    line(action)
