"""The audit trail: export it from the ledger, and audit an export anywhere."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    AsJson,
    TokenFile,
    show_json,
    told,
)
from onward_ledger.commands.stores import DEFAULT_SCHEMA, DEFAULT_STORE, Schema, StoreUrl, opened

if TYPE_CHECKING:
    from onward_ledger.signing import Signer, Verifier
    from onward_ledger.trail import Finding, Report

# Beside the token file, unless --sign-key names another.
SIGN_KEY_NAME = "onward-ledger.sign-key"


def export(
    run: Annotated[str | None, typer.Option(help="Only the actions of this run.")] = None,
    after: Annotated[datetime | None, typer.Option(help="Only actions created at this time (UTC) or later.")] = None,
    public_key: Annotated[
        bool, typer.Option("--public-key", help="Print the public key instead: give it to whoever audits.")
    ] = False,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar="ONWARD_LEDGER_SIGN_KEY",
            help=f"The private key that signs; a missing file gets a new one. Else {SIGN_KEY_NAME} beside the token.",
        ),
    ] = None,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
    store: StoreUrl = DEFAULT_STORE,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Write the signed audit trail to stdout as JSON lines: records, histories and decisions of one moment."""
    from onward_ledger.signing import signer

    with told():
        key = signer(sign_key or token_file.parent / SIGN_KEY_NAME)
        if public_key:
            typer.echo(key.public_pem, nl=False)
            return
        _write_trail(key, run, after, store, schema)


def _write_trail(key: Signer, run: str | None, after: datetime | None, store: str, schema: str) -> None:
    from onward_ledger.export import Filter
    from onward_ledger.export import export as trail

    wanted = Filter(run_id=run, created_after=after.replace(tzinfo=UTC) if after else None)
    with opened(store, schema) as database:
        for line in trail(database, key, wanted):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def audit(
    trail: Annotated[Path, typer.Argument(help="An export.", exists=True, dir_okay=False)],
    public_key: Annotated[Path, typer.Option(help="The ledger's public key, as `export --public-key` prints it.")],
    since: Annotated[
        Path | None,
        typer.Option(
            help="An older export: whether all that it holds is unchanged in this one.", exists=True, dir_okay=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Audit an export, without ledger or database: was any line changed, removed, cut or moved since it was written?

    Exit code 0: whole. 1: it is not; every place that was found is told.
    """
    from onward_ledger.signing import verifier

    with told():
        key = verifier(public_key)
        report = _audited(trail, key)
        older = _audited(since, key) if since is not None else None
        changed = _compared(since, trail) if since and report.whole and older and older.whole else []
    if as_json:
        show_json(
            report.to_json()
            | {"since": older.to_json() if older else None, "changed": [finding.to_json() for finding in changed]}
        )
    else:
        _tell(trail, report)
        if since is not None and older is not None:
            _tell_since(since, older, changed)
    if not report.whole or changed or (older is not None and not older.whole):
        raise typer.Exit(1)


def _audited(path: Path, key: Verifier) -> Report:
    from onward_ledger.trail import audit

    with path.open("rb") as file:
        return audit(file, key.verify)


def _compared(old: Path, new: Path) -> list[Finding]:
    from onward_ledger.trail_since import since

    with old.open("rb") as old_file, new.open("rb") as new_file:
        return since(old_file, new_file)


def _tell(path: Path, report: Report) -> None:
    if report.whole:
        told = report.to_json()
        typer.echo(
            f"{path} is whole: {report.actions} actions of ledger {told['ledger_id']}, "
            f"exported at {told['exported_at']}, root {report.root}."
        )
        return
    for finding in report.findings:
        typer.echo(f"{path}, line {finding.line}: {finding.what}", err=True)
    typer.echo(f"{path} is NOT what was written and signed.", err=True)


def _tell_since(path: Path, older: Report, changed: list[Finding]) -> None:
    if not older.whole:
        _tell(path, older)
    elif changed:
        for finding in changed:
            typer.echo(f"line {finding.line}: {finding.what}", err=True)
        typer.echo(f"Not everything in {path} is unchanged.", err=True)
    else:
        typer.echo(f"Everything in {path} is in it, unchanged.")
