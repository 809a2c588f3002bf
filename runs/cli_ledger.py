"""`onward ledger`: recorded effects and their receipts."""

from __future__ import annotations

from typing import Annotated

import typer

from runs.cli_options import Output, Store

app = typer.Typer(help="Look at recorded effects and their receipts.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def ledger_list(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only this run's actions.")] = None,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="Only this status.")] = None,
    store: Store = None,
    output: Output = "table",
) -> int:
    """List recorded actions in the order of their creation."""
    from runs.commands import effects

    return effects.list_actions(run_id=run_id, status=status, store=store, output=output)


@app.command("show")
def ledger_show(
    action_id: Annotated[str, typer.Argument(metavar="ACTION_ID", help="The action's id.")],
    store: Store = None,
    output: Output = "table",
) -> int:
    """Show one action: request, status, receipt, decision, and its history."""
    from runs.commands import effects

    return effects.show_action(action_id, store=store, output=output)


@app.command("resolve")
def ledger_resolve(
    action_id: Annotated[str, typer.Argument(metavar="ACTION_ID", help="The id of an UNKNOWN action.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="How you know; it is recorded.")],
    receipt: Annotated[
        str | None, typer.Option("--receipt", metavar="JSON", help="It happened: what proves it, as a JSON object.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It did not happen, and shall not.")] = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Settle an UNKNOWN action by your word. Then resume its run."""
    from runs.commands import effects

    return effects.resolve(action_id, receipt=receipt, failed=failed, reason=reason, store=store, output=output)


@app.command("release")
def ledger_release(
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What was compared; it is recorded.")],
    look_first_days: Annotated[
        float, typer.Option("--look-first-days", min=0, help="So long a first send is looked up before.")
    ] = 30.0,
    store: Store = None,
) -> int:
    """Let a held ledger send again: its database was restored, and you know what is lost."""
    from runs.commands import effects

    return effects.release(reason=reason, look_first_days=look_first_days, store=store)
