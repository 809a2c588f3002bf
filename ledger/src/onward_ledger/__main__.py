"""The `onward-ledger` command: start the service, look into it, settle what only a person can settle."""

from __future__ import annotations

import getpass
import ipaddress
import json
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from onward_ledger.action import Action, Status
from onward_ledger.client import LedgerClient
from onward_ledger.database import DatabaseError, Unreachable
from onward_ledger.errors import BadRequest, Conflict, LedgerError, LedgerUnreachable, NotFound, Unauthorized

DEFAULT_PORT = 7420

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""An action ledger: performs external effects, keeps their receipts, replays them, and never guesses.

    Start one with `onward-ledger serve`; without options it keeps everything in this folder: records in
    onward-ledger.db, objects in onward-objects/, the service token in onward-ledger.token. Then `onward-ledger list`
    shows what was done, `show ID` one action with its history, and `resolve ID` settles an UNKNOWN one.

    Every option can be given as an environment variable ONWARD_LEDGER_<OPTION>.
    Exit codes: 0 ok, 2 usage, 3 not found, 4 conflict, 9 unreachable, 1 anything else.""",
)

Url = Annotated[str, typer.Option(envvar="ONWARD_LEDGER_URL", help="Where the service listens.")]
TokenFile = Annotated[Path, typer.Option(envvar="ONWARD_LEDGER_TOKEN_FILE", help="The file with the service token.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
_TOKEN_FILE = Path("onward-ledger.token")


@app.command()
def serve(
    store: Annotated[
        str,
        typer.Option(
            envvar="ONWARD_LEDGER_STORE", help="Where records are kept: postgresql://… or sqlite:///path (one service)."
        ),
    ] = "sqlite:///onward-ledger.db",
    objects: Annotated[
        str,
        typer.Option(envvar="ONWARD_LEDGER_OBJECTS", help="Where objects are kept: a folder, s3://bucket/prefix, …"),
    ] = "onward-objects",
    port: Annotated[
        int, typer.Option(envvar="ONWARD_LEDGER_PORT", min=0, max=65535, help="0 takes a free one.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str,
        typer.Option(
            envvar="ONWARD_LEDGER_HOST", help="The address to listen on. Anything but loopback lets other machines in."
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path,
        typer.Option(envvar="ONWARD_LEDGER_TOKEN_FILE", help="The service token; a missing file gets a new token."),
    ] = _TOKEN_FILE,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            envvar="ONWARD_LEDGER_READY_FILE",
            help="Gets {url, pid, instance, version, started_at} as JSON once the service listens.",
        ),
    ] = None,
    schema: Annotated[
        str, typer.Option(envvar="ONWARD_LEDGER_SCHEMA", help="The Postgres schema to use.")
    ] = "onward_ledger",
) -> None:
    """Start the service; it runs until SIGTERM or Ctrl-C, and finishes requests in flight."""
    from onward_ledger.serve import (
        ServeOptions,
        read_token,
        serve,
    )  # the server is slow to import, and only needed here

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if not _is_loopback(host):
        logging.warning(
            "Listening on %s: whoever reaches it and has the token can act. Traffic is not encrypted.", host
        )
    with _told():
        token = read_token(token_file)
        options = ServeOptions(
            store=store,
            objects=objects,
            token=token,
            host=host,
            port=port,
            ready_file=ready_file,
            schema=schema,
        )
        serve(options)


@app.command("list")
def list_(
    run: Annotated[str | None, typer.Option(help="Only the actions of this run.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only actions that stand there.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    after: Annotated[str | None, typer.Option(help="Begin behind this action id.")] = None,
    as_json: AsJson = False,
    url: Url = _URL,
    token_file: TokenFile = _TOKEN_FILE,
) -> None:
    """List actions in the order of their creation."""
    with _told(), _client(url, token_file) as client:
        actions = client.actions(run, status, limit=limit, after=after)
    if as_json:
        _print({"actions": [action.to_json() for action in actions]})
        return
    for action in actions:
        _line(action)


@app.command()
def show(
    action_id: Annotated[str, typer.Argument(help="The action's id.")],
    as_json: AsJson = False,
    url: Url = _URL,
    token_file: TokenFile = _TOKEN_FILE,
) -> None:
    """Show one action with its history."""
    with _told(), _client(url, token_file) as client:
        action, events = client.action(action_id), client.events(action_id)
    if as_json:
        _print({"action": action.to_json(), "events": [event.to_json() for event in events]})
        return
    _line(action)
    for name, value in action.to_json().items():
        if value is not None:
            typer.echo(f"  {name}: {value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)}")
    for event in events:
        before = f"{event.from_status} → " if event.from_status else ""
        by = event.principal or (f"epoch {event.epoch}" if event.epoch else "")
        typer.echo(
            f"  {event.recorded_at.isoformat()}  {event.word}: {before}{event.to_status}  {by}  {event.reason or ''}"
        )


@app.command()
def resolve(
    action_id: Annotated[str, typer.Argument(help="The id of an UNKNOWN action.")],
    reason: Annotated[str, typer.Option(help="How you know.")],
    version: Annotated[int, typer.Option(help="The version that you have seen in `show`.")],
    receipt: Annotated[
        str | None, typer.Option(help="It happened: what proves it, as a JSON object. Without this it did not happen.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It did not happen, and shall not.")] = False,
    principal: Annotated[str | None, typer.Option(envvar="ONWARD_PRINCIPAL", help="Who says so.")] = None,
    url: Url = _URL,
    token_file: TokenFile = _TOKEN_FILE,
) -> None:
    """Settle an UNKNOWN action by your word: it happened (--receipt) or it did not (--failed)."""
    if failed == (receipt is not None):
        raise typer.BadParameter("Say either --receipt '{…}' or --failed.")
    with _told(), _client(url, token_file) as client:
        action = client.resolve(
            action_id,
            status=Status.FAILED if failed else Status.SUCCEEDED,
            receipt=_json_object(receipt) if receipt is not None else None,
            reason=reason,
            expected_version=version,
            principal=principal or getpass.getuser(),
        )
    _line(action)


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of the service."""
    from onward_ledger.service import create_app  # as in serve

    _print(create_app(None).openapi())


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"The receipt is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("The receipt must be a JSON object.")
    return found


def _client(url: str, token_file: Path) -> LedgerClient:
    token = os.environ.get("ONWARD_LEDGER_TOKEN")
    if token is None:
        if not token_file.exists():
            raise Unauthorized(f"There is no token file {token_file}; name it with --token-file.")
        token = token_file.read_text(encoding="ascii").strip()
    return LedgerClient(url, token)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _print(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))


def _line(action: Action) -> None:
    what = f"{action.step}/{action.slot}" + (f"@{action.rev}" if action.rev > 1 else "")
    typer.echo(f"{action.action_id}  {action.status:<9}  {action.kind}  {what}  {action.resource}")


@contextmanager
def _told() -> Generator[None]:
    """Errors as one plain sentence on stderr, and the exit code that belongs to them."""
    try:
        yield
    except (LedgerError, DatabaseError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_exit_code(error)) from None


def _exit_code(error: Exception) -> int:
    codes = {NotFound: 3, Conflict: 4, LedgerUnreachable: 9, Unreachable: 9, BadRequest: 2}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 1)


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    sys.exit(main())
