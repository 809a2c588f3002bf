"""What the commands share: where the service is, how errors are told, and how a record is printed."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from onward_ledger.action import Action
from onward_ledger.client import LedgerClient
from onward_ledger.database import DatabaseError, Unreachable
from onward_ledger.errors import (
    BadRequest,
    Conflict,
    LedgerError,
    LedgerUnreachable,
    NotFound,
    ParamsConflict,
    Unauthorized,
)
from onward_ledger.tls import Certificate

DEFAULT_PORT = 7420
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
DEFAULT_TOKEN_FILE = Path("onward-ledger.token")

Url = Annotated[str, typer.Option(envvar="ONWARD_LEDGER_URL", help="Where the service listens.")]
TokenFile = Annotated[Path, typer.Option(envvar="ONWARD_LEDGER_TOKEN_FILE", help="The file with the service token.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
Who = Annotated[str | None, typer.Option("--principal", envvar="ONWARD_PRINCIPAL", help="Who says so.")]


def json_object(text: str) -> dict[str, Any]:
    """A JSON object out of an option's text."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"The receipt is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("The receipt must be a JSON object.")
    return found


def connected(url: str, token_file: Path, principal: str | None = None) -> LedgerClient:
    """A client with the token of ONWARD_LEDGER_TOKEN, else of the file.

    For https, ONWARD_LEDGER_CA_FILE is whom it trusts, and ONWARD_LEDGER_CLIENT_CERT and _KEY what it shows itself.
    """
    token = os.environ.get("ONWARD_LEDGER_TOKEN")
    if token is None:
        if not token_file.exists():
            raise Unauthorized(f"There is no token file {token_file}; name it with --token-file.")
        token = token_file.read_text(encoding="ascii").strip()
    file, key = os.environ.get("ONWARD_LEDGER_CLIENT_CERT"), os.environ.get("ONWARD_LEDGER_CLIENT_KEY")
    return LedgerClient(
        url,
        token,
        principal=principal,
        ca_file=os.environ.get("ONWARD_LEDGER_CA_FILE"),
        certificate=Certificate(file=Path(file), key=Path(key or file)) if file else None,
    )


def speaking(url: str, token_file: Path, principal: str | None) -> LedgerClient:
    """The same for a person: the one that is named, else the one that the token proves, else the account's."""
    if principal is None:
        with connected(url, token_file) as client:
            principal = client.me().principal
    return connected(url, token_file, principal or getpass.getuser())


def show_json(document: dict[str, Any]) -> None:
    """One JSON document."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))


def line(action: Action) -> None:
    """One line of a list."""
    what = f"{action.step}/{action.slot}" + (f"@{action.rev}" if action.rev > 1 else "")
    typer.echo(f"{action.action_id}  {action.status:<9}  {action.kind}  {what}  {action.resource}")


@contextmanager
def told() -> Generator[None]:
    """Errors as one plain sentence on stderr, and the exit code that belongs to them."""
    try:
        yield
    except (LedgerError, DatabaseError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_exit_code(error)) from None


def _exit_code(error: Exception) -> int:
    codes = {NotFound: 3, Conflict: 4, ParamsConflict: 4, LedgerUnreachable: 9, Unreachable: 9, BadRequest: 2}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 1)
