"""`onward-ledger perform`: ask for one effect from a shell, as often as you like."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from onward_ledger.action import Action, ActionKey, Status
from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    DEFAULT_URL,
    AsJson,
    TokenFile,
    Url,
    connected,
    json_object,
    line,
    show_json,
    told,
)

# What a run is called in a shell becomes the UUID that the ledger wants: the same name, the same run.
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:onward-ledger:runs")


def perform(
    kind: Annotated[str, typer.Argument(help="The kind of effect, such as ledger.note.")],
    resource: Annotated[str, typer.Argument(help="What it is about.")],
    run: Annotated[str, typer.Option(help="The run: a UUID, or a name of your own.")],
    params: Annotated[str, typer.Option(help="What is asked for: a JSON object.")] = "{}",
    step: Annotated[str, typer.Option(help="Which step of the run this is.")] = "shell",
    slot: Annotated[str, typer.Option(help="Which effect of the step.")] = "effect",
    rev: Annotated[int, typer.Option(min=1, help="Which revision of it.")] = 1,
    epoch: Annotated[int, typer.Option(min=1, help="Which take-over of the run asks.")] = 1,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Perform an effect once: the same command again gives the receipt back, and nothing is sent.

    Run, step, slot and revision make the id. The same id with other params is refused, and nothing is sent (exit 4).
    Exit 0: it is done. 4: refused, or it waits for somebody. 8: nobody knows whether it happened (UNKNOWN).
    """
    asked = json_object(params)
    with told(), connected(url, token_file) as client:
        key = ActionKey(_run_id(run), step, slot, rev)
        action = client.perform(key, kind, lambda: (resource, asked), epoch=epoch, pinned=False)
    if as_json:
        show_json(action.to_json())
    else:
        line(action)
        typer.echo(f"  {_said(action)}")
    raise typer.Exit({Status.SUCCEEDED: 0, Status.UNKNOWN: 8}.get(action.status, 4))


def _run_id(run: str) -> str:
    try:
        return str(uuid.UUID(run))
    except ValueError:
        return str(uuid.uuid5(_RUNS, run))


def _said(action: Action) -> str:
    match action.status:
        case Status.SUCCEEDED:
            how = "Replayed: nothing was sent" if action.replayed else "Done"
            return f"{how}. Receipt {action.provider_id} of {action.updated_at.isoformat(timespec='seconds')}."
        case Status.UNKNOWN:
            return f"Nobody knows whether it happened. {action.reason or ''} See `onward-ledger reconcile`, `resolve`."
        case _:
            return action.reason or "It is recorded."
