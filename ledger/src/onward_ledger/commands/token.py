"""`onward-ledger token`: make, list and revoke the tokens of a file that `serve --tokens` reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onward_ledger.callers import Caller, Scope, is_principal, listed
from onward_ledger.commands.common import AsJson, show_json, told

if TYPE_CHECKING:
    from onward_ledger.token_file import Entry

DEFAULT_TOKENS = Path("onward-ledger.tokens.toml")

app = typer.Typer(
    no_args_is_help=True,
    help="""Tokens with scopes, for more than one caller. The service reads the file again when it changes.

    perform: announce fences, propose, perform, reconcile and withdraw actions. read: look at everything.
    decide: approve, edit, revise, reject, grant. operate: resolve, close fences, hold, retry, prune, export.""",
)

Name = Annotated[str, typer.Argument(help="Its name: letters, digits, - and _.")]
File = Annotated[
    Path, typer.Option("--tokens", envvar="ONWARD_LEDGER_TOKENS", help="The file of tokens; it holds hashes only.")
]


@app.command()
def new(
    name: Name,
    scope: Annotated[list[Scope], typer.Option(help="What it is good for; give it again for more.")],
    principal: Annotated[
        str | None, typer.Option(help="The person it proves. Whoever has the token then speaks as this person only.")
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option(help="A role that approvals ask for; give it again for more.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Perform and decide only this kind, such as 'report.*'; again for more.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=36500, help="It ends after so many days.")] = None,
    tokens: File = DEFAULT_TOKENS,
) -> None:
    """Make a token, print it once, and append its hash to the file. Nobody can print it again."""
    if principal is not None and not is_principal(principal):
        raise typer.BadParameter("A principal has 1 to 200 printable characters.")
    caller = Caller(
        name=name,
        scopes=frozenset(scope),
        principal=principal,
        roles=frozenset(role or ()),
        kinds=tuple(kind or ()),
    )
    from onward_ledger.token_file import add  # slow to import, and only needed here

    now = datetime.now(UTC).replace(microsecond=0)
    with told():
        token = add(tokens, caller, created_at=now, expires_at=now + timedelta(days=days) if days else None)
    typer.echo(token)


@app.command("list")
def list_(as_json: AsJson = False, tokens: File = DEFAULT_TOKENS) -> None:
    """List the tokens of the file: what they are good for, never what they are."""
    from onward_ledger.token_file import read_entries  # as in new

    with told():
        entries = read_entries(tokens)
    if as_json:
        show_json({"tokens": [_to_json(entry) for entry in entries]})
        return
    for entry in entries:
        caller = entry.caller
        parts = [
            f"{caller.name:<20}  {' '.join(listed(caller.scopes)):<27}",
            caller.principal or "-",
            f"roles {', '.join(sorted(caller.roles))}" if caller.roles else "",
            f"kinds {', '.join(caller.kinds)}" if caller.kinds else "",
            _end(entry),
        ]
        typer.echo("  ".join(part for part in parts if part))


@app.command("revoke")
def revoke_(name: Name, tokens: File = DEFAULT_TOKENS) -> None:
    """Take a token out of the file. A running service refuses it from its next request on."""
    from onward_ledger.token_file import revoke  # as in new

    with told():
        revoke(tokens, name)


def _end(entry: Entry) -> str:
    if entry.expires_at is None:
        return ""
    word = "ends" if entry.is_good(datetime.now(UTC)) else "ENDED"
    return f"{word} {entry.expires_at.isoformat()}"


def _to_json(entry: Entry) -> dict[str, object]:
    caller = entry.caller
    return {
        "name": caller.name,
        "scopes": listed(caller.scopes),
        "principal": caller.principal,
        "roles": sorted(caller.roles),
        "kinds": list(caller.kinds),
        "created_at": entry.created_at.isoformat() if entry.created_at else None,
        "expires_at": entry.expires_at.isoformat() if entry.expires_at else None,
    }
