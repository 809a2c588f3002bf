"""Decide: what waits for a person, what a person says to it, and taking that back before it was used."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from onward_ledger.action import Action, Decision, Status
from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    DEFAULT_URL,
    AsJson,
    TokenFile,
    Url,
    Who,
    connected,
    json_object,
    line,
    show_json,
    speaking,
    told,
)
from onward_ledger.errors import BadRequest

Id = Annotated[str, typer.Argument(help="The action's id.")]


class Word(StrEnum):
    """What a person can say."""

    APPROVE = "approve"
    EDIT = "edit"
    REVISE = "revise"
    REJECT = "reject"


def waiting(as_json: AsJson = False, url: Url = DEFAULT_URL, token_file: TokenFile = DEFAULT_TOKEN_FILE) -> None:
    """List the actions that are proposed and not decided, with what they ask for."""
    with told(), connected(url, token_file) as client:
        found = [
            a
            for a in client.actions(status=Status.PREPARED, limit=1000)
            if not a.claims and (a.decision is None or a.decision.is_half)
        ]
    if as_json:
        show_json({"actions": [action.to_json() for action in found]})
        return
    for action in found:
        line(action)
        typer.echo(f"  request {action.request_hash[:12]}  {json.dumps(action.params, ensure_ascii=False)[:200]}")


def decide(
    action_id: Id,
    word: Annotated[Word, typer.Argument(help="What you say to it.")],
    request: Annotated[
        str | None,
        typer.Option(help="The request that you have seen: the first characters of its hash, as `waiting` shows them."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why. `revise` needs one.")] = None,
    changes: Annotated[str | None, typer.Option(help="For `edit`: a JSON object of what is to be different.")] = None,
    hours: Annotated[float | None, typer.Option(min=0, help="An approval ends after so many hours.")] = None,
    principal: Who = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Approve, edit, revise or reject an action. The first decision stands.

    A decision is bound to exactly what was asked: without --request it shows that and asks you.
    """
    with told(), speaking(url, token_file, principal) as client:
        action = client.action(action_id)
        _agree(action, request)
        decision = client.decide(
            action_id,
            word,
            request_hash=action.request_hash,
            reason=reason,
            changes=json_object(changes) if changes is not None else None,
            expires_at=datetime.now(UTC) + timedelta(hours=hours) if hours is not None else None,
        )
    _say(decision)


def revoke(
    action_id: Id,
    reason: Annotated[str, typer.Option(help="Why.")],
    principal: Who = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Take an approval back before it was used."""
    with told(), speaking(url, token_file, principal) as client:
        decision = client.revoke(action_id, reason=reason)
    typer.echo(f"The approval by {decision.principal} was revoked by {decision.revoked_by}.")


def _agree(action: Action, request: str | None) -> None:
    if request is not None:
        if len(request) < 8 or not action.request_hash.startswith(request.lower()):
            raise BadRequest(f"The recorded request is {action.request_hash[:12]}, not {request}; look at it again.")
        return
    if not sys.stdin.isatty():
        raise BadRequest("Say with --request which request you have seen; `onward-ledger waiting` shows it.")
    line(action)
    typer.echo(json.dumps(action.params, ensure_ascii=False, indent=2))
    typer.confirm("Is this what you decide about?", abort=True)


def _say(decision: Decision) -> None:
    by = decision.principal + (f" and {decision.seconded_by}" if decision.seconded_by else "")
    typer.echo(f"{decision.decision}, by {by}" + ("; it waits for a second approver." if decision.is_half else "."))
