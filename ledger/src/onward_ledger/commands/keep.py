"""Keep the ledger: hold it and release it, and remove by age what is over."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    DEFAULT_URL,
    AsJson,
    TokenFile,
    Url,
    Who,
    connected,
    show_json,
    speaking,
    told,
)
from onward_ledger.commands.stores import DEFAULT_SCHEMA, DEFAULT_STORE, Schema, StoreUrl, opened
from onward_ledger.keeping import LOOK_FIRST_DAYS, Identity

if TYPE_CHECKING:
    from onward_ledger.database import Database
    from onward_ledger.store.retention import Removal

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def held(as_json: AsJson = False, url: Url = DEFAULT_URL, token_file: TokenFile = DEFAULT_TOKEN_FILE) -> None:
    """Say which ledger it is, and whether it is held."""
    with told(), connected(url, token_file) as client:
        _say(client.standing(), as_json)


def hold(
    reason: Annotated[str, typer.Option(help="Why nothing may be sent.")],
    principal: Who = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Let no service of this ledger send anything until it is released."""
    with told(), speaking(url, token_file, principal) as client:
        _say(client.hold(reason=reason), as_json)


def release(
    reason: Annotated[str, typer.Option(help="How you know that it may send again.")],
    look_first_days: Annotated[
        float, typer.Option(min=0, max=3650, help="So long a first send is looked up before, where its kind can.")
    ] = LOOK_FIRST_DAYS,
    principal: Who = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Let a held ledger send again: after a restore, once you know what it has forgotten."""
    with told(), speaking(url, token_file, principal) as client:
        _say(client.release(reason=reason, look_first_days=look_first_days), as_json)


def close(
    run_id: Annotated[str, typer.Argument(help="The run's id.")],
    reason: Annotated[str, typer.Option(help="Why: cancelled, or over.")],
    principal: Who = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Close a run for ever: what waits is withdrawn, every later request refused. Only closed runs are pruned."""
    with told(), speaking(url, token_file, principal) as client:
        fence = client.close_fence(run_id, reason=reason)
    typer.echo(f"Closed at {_time(fence.closed_at)} by {fence.closed_by}: {fence.closed_reason}")
    for action in fence.unsettled:
        typer.echo(f"It is {action.status} and stays so until it is settled: {action.action_id}")


def prune(
    older_than: Annotated[str, typer.Option(help="How long ago its run was closed and last touched: 90d, 12w, 36h.")],
    yes: Annotated[bool, typer.Option("--yes", help="Remove. Without it this only counts.")] = False,
    as_json: AsJson = False,
    store: StoreUrl = DEFAULT_STORE,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Remove by age the records of runs that are closed and whose actions are all final.

    The run's fence stays: a late request for it is refused, never sent. Export the audit trail before.
    """
    age = _age(older_than)
    with told(), opened(store, schema) as database:
        before = database.now() - age
        removal = _removal(database, before, yes)
    if as_json:
        show_json({"removed": yes, "before": before.isoformat(), **removal.to_json()})
    else:
        typer.echo(_sentence(removal, yes))


def _removal(database: Database, before: datetime, yes: bool) -> Removal:
    from onward_ledger.store import retention

    if yes:
        return retention.prune(database, before)
    return retention.count(database, retention.prunable(database, before))


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([hdw])", text)
    if found is None:
        raise typer.BadParameter("--older-than is a number and h, d or w, such as 90d.")
    return int(found[1]) * _UNITS[found[2]]


def _sentence(removal: Removal, removed: bool) -> str:
    runs, actions, events, decisions = (_count(number, what[:-1]) for what, number in removal.to_json().items())
    what = f"{runs} with {actions}, {events} and {decisions}"
    return f"Removed {what}." if removed else f"Would remove {what}. Nothing was changed; --yes removes them."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _time(instant: datetime | None) -> str:
    return instant.isoformat(timespec="seconds") if instant is not None else "-"


def _say(identity: Identity, as_json: bool) -> None:
    if as_json:
        show_json(identity.to_json())
        return
    typer.echo(f"Ledger {identity.ledger_id}, made at {_time(identity.made_at)}.")
    if identity.held_at is not None:
        typer.echo(f"HELD since {_time(identity.held_at)}: {identity.held_reason}")
    else:
        typer.echo("It may send.")
    if identity.released_at is not None:
        typer.echo(
            f"Last released at {_time(identity.released_at)} by {identity.released_by}: {identity.released_reason}"
        )
    if identity.look_first_until_at is not None:
        typer.echo(f"A first send is looked up before until {_time(identity.look_first_until_at)}.")
