"""The `onward-ledger` command: start the service, look into it, settle what only a person can settle."""

from __future__ import annotations

import sys

import typer

from onward_ledger.commands import approve, audit, keep, look, outbox, perform, serve, settle, token

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""An action ledger: performs external effects, keeps their receipts, replays them, and never guesses.

    Start one with `onward-ledger serve`; without options it keeps everything in this folder: records in
    onward-ledger.db, objects in onward-objects/, the service token in onward-ledger.token. `perform` asks for an
    effect, `list` shows what was done, `show ID` one action with its history, and `resolve ID` settles an UNKNOWN one.

    Every option can be given as an environment variable ONWARD_LEDGER_<OPTION>.
    Exit codes: 0 ok, 2 usage, 3 not found, 4 conflict, 8 UNKNOWN, 9 unreachable, 1 anything else.""",
)

app.command()(serve.serve)
app.command()(perform.perform)
app.command("list")(look.list_)
app.command()(look.show)
app.command()(settle.reconcile)
app.command()(settle.resolve)
app.command()(settle.compensate)
app.command()(outbox.outbox)
app.command()(outbox.retry)
app.command()(approve.waiting)
app.command()(approve.decide)
app.command()(approve.revoke)
app.command()(audit.export)
app.command()(audit.audit)
app.command()(keep.held)
app.command()(keep.hold)
app.command()(keep.release)
app.command()(keep.close)
app.command()(keep.prune)
app.command()(look.openapi)
app.add_typer(token.app, name="token")


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    sys.exit(main())
