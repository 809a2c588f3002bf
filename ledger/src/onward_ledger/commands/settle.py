"""Settle what is UNKNOWN, by asking the provider again or by a person's word; take back what happened."""

from __future__ import annotations

from typing import Annotated

import typer

from onward_ledger.action import Status
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


def reconcile(
    action_id: Annotated[str | None, typer.Argument(help="The id of an action.")] = None,
    run: Annotated[str | None, typer.Option(help="Every action of this run that is in flight or UNKNOWN.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Ask the providers what became of an action, or of all actions of a run. Nothing is sent.

    Exit 0: nothing of it is in flight or UNKNOWN any more. 8: something still is.
    """
    if (action_id is None) == (run is None):
        raise typer.BadParameter("Name an action, or a run with --run.")
    with told(), connected(url, token_file) as client:
        actions = (client.reconcile(action_id),) if action_id is not None else client.reconcile_run(str(run))
    if as_json:
        show_json({"actions": [action.to_json() for action in actions]})
    else:
        for action in actions:
            line(action)
    if any(action.status in (Status.IN_FLIGHT, Status.UNKNOWN) for action in actions):
        raise typer.Exit(8)


def resolve(
    action_id: Annotated[str, typer.Argument(help="The id of an UNKNOWN action.")],
    reason: Annotated[str, typer.Option(help="How you know.")],
    version: Annotated[int, typer.Option(help="The version that you have seen in `show`.")],
    receipt: Annotated[
        str | None, typer.Option(help="It happened: what proves it, as a JSON object. Without this it did not happen.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It did not happen, and shall not.")] = False,
    principal: Who = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Settle an UNKNOWN action by your word: it happened (--receipt) or it did not (--failed)."""
    if failed == (receipt is not None):
        raise typer.BadParameter("Say either --receipt '{…}' or --failed.")
    with told(), speaking(url, token_file, principal) as client:
        action = client.resolve(
            action_id,
            status=Status.FAILED if failed else Status.SUCCEEDED,
            receipt=json_object(receipt) if receipt is not None else None,
            reason=reason,
            expected_version=version,
        )
    line(action)


def compensate(
    action_id: Annotated[str, typer.Argument(help="The id of an action that SUCCEEDED.")],
    principal: Who = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Take back an effect that happened, where its kind says how. Once: again, it is answered as it stands.

    The ledger derives the action that does it from its own record, also for a run that was cancelled.
    Exit 0: it is taken back. 4: nothing says how, or the provider refused. 8: nobody knows (UNKNOWN).
    """
    with told(), speaking(url, token_file, principal) as client:
        action = client.compensate(action_id)
    if as_json:
        show_json(action.to_json())
    else:
        line(action)
    raise typer.Exit({Status.SUCCEEDED: 0, Status.UNKNOWN: 8}.get(action.status, 4))
