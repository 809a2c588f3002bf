"""The commands of whoever operates an installation: workers, what starts and stops, what is removed, who may act."""

from __future__ import annotations

from typing import Annotated

import typer

from runs.cli_options import Output, Store

app = typer.Typer()


@app.command()
def worker(
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", help="So many runs at once.", min=1, max=1000)
    ] = 4,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", help="At SIGTERM, a step may take so long to finish.", min=0),
    ] = 30.0,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="FILE.py:NAME", help="Serve graphs of your own; also langgraph.json."),
    ] = None,
    owner: Annotated[int | None, typer.Option("--owner", hidden=True)] = None,
    owner_pipe: Annotated[int | None, typer.Option("--owner-pipe", hidden=True)] = None,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Drive queued runs, and take over runs whose driver is gone. Start as many as you like, on any machine.

    Workers share Postgres (DATABASE_URL), the ledger (ONWARD_LEDGER_URL, ONWARD_LEDGER_TOKEN) and the object store
    (ONWARD_OBJECTS); on one machine nothing has to be set. At SIGTERM or Ctrl-C each driver finishes its step and hands
    its run back, a second time they end at once. SIGKILL loses nothing.

    \b
    onward worker --concurrency 8            serve the workflow versions of this release
    onward worker --graph agent.py:graph     serve a graph of your own; ends with exit code 4 when its file changes
    onward run sales.xlsx --queue            leave a run to whoever is up
    onward list                              which runs there are, and which nobody serves
    """
    from runs.commands import work

    return work.worker(
        concurrency=concurrency,
        grace=grace,
        graph=graph,
        store=store,
        output=output,
        owner=owner,
        owner_pipe=owner_pipe,
    )


@app.command()
def up(
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="So many workers.", min=1, max=100)] = 2,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", help="So many runs at once in each.", min=1, max=1000)
    ] = 4,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", help="At the end, a step may take so long to finish.", min=0)
    ] = 30.0,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="FILE.py:NAME", help="Serve graphs of your own; also langgraph.json."),
    ] = None,
) -> int:
    """Run Postgres, the ledger and workers in this terminal. Ctrl-C stops them all; runs are handed back.

    Whatever ends is started again. Postgres and the ledger are started only where DATABASE_URL and ONWARD_LEDGER_URL do
    not name others.

    \b
    onward up --workers 2 --concurrency 4
    onward up --graph agent.py:graph         workers for a graph of your own
    onward run sales.xlsx --queue            in another terminal
    """
    from runs.commands import up

    return up.up(workers=workers, concurrency=concurrency, grace=grace, graph=graph)


@app.command()
def down(
    force: Annotated[bool, typer.Option("--force", help="Also while a run is driven; it can be resumed.")] = False,
) -> int:
    """Stop the ledger, then Postgres, as far as they were started here."""
    from runs.commands import down

    return down.down(force=force)


@app.command()
def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Runs that finished so long ago: 30d, 12h, 8w.")
    ] = "30d",
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints",
            metavar="AGE",
            help="Also thin histories: of runs that nobody has driven for so long, only the last checkpoint stays.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Remove, and thin, at most so many runs.", min=1)] = 1000,
    apply: Annotated[bool, typer.Option("--apply", help="Remove. Without it this only says what would go.")] = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Remove by age what is over. Finished runs, their checkpoints, events and files; reports stay.

    Driven runs are left alone. What the ledger keeps is removed by `onward-ledger prune`.

    \b
    onward prune --older-than 90d                       what would go
    onward prune --older-than 90d --apply               remove it
    onward prune --older-than 90d --checkpoints 7d      also thin the histories of runs that stand still
    """
    from runs.commands import prune

    return prune.prune(
        prune.Request(older_than=older_than, checkpoints=checkpoints, limit=limit, apply=apply),
        store=store,
        output=output,
    )


@app.command()
def bar(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Whoever may not act any more.")],
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is shown.")] = None,
    lift: Annotated[bool, typer.Option("--lift", help="Let them act again.")] = False,
    store: Store = None,
) -> int:
    """Bar somebody. Their runs stop at the next take-over, and they decide, resume and cancel nothing."""
    from runs.commands import rights

    return rights.bar(principal, reason=reason, lift=lift, store=store)


@app.command()
def doctor(store: Store = None, output: Output = "table") -> int:
    """Check what a run needs. Says what to do about what is missing; changes nothing."""
    from runs.commands import checkup

    return checkup.doctor(store=store, output=output)
