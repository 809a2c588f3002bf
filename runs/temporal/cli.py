"""`onward temporal …`: what each subcommand takes. What it does stands in `runs.temporal.commands`.

Like `runs.cli` this imports nothing heavy, and not `temporalio`: it is an optional package.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from runs.temporal.values import DEFAULT_QUEUE, Order

app = typer.Typer(
    help="Drive runs under Temporal. It needs the package `temporalio`: uv sync --group temporal",
    no_args_is_help=True,
    rich_markup_mode=None,
)

RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id, or a unique beginning of it.")]
Store = Annotated[
    Literal["postgres", "sqlite"] | None,
    typer.Option("--store", help="Where runs live; without it: ONWARD_STORE, else postgres (or where the run is)."),
]
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="How data is written to stdout.", show_default=True),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="Temporal's; else TEMPORAL_ADDRESS, else localhost:7233."),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Else TEMPORAL_NAMESPACE, else `default`.")
]
Queue = Annotated[str, typer.Option("--queue", metavar="NAME", help="Task queue of the workflows.")]


@app.command()
def worker(
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", help="Drives at once, for each workflow version.", min=1)
    ] = 2,
    grace: Annotated[
        float, typer.Option("--grace", metavar="S", help="Seconds that drivers get to drain at SIGTERM.", min=0)
    ] = 30.0,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="SPEC", help="Serve somebody's own graph: file.py:name.")
    ] = None,
    address: Address = None,
    namespace: Namespace = None,
    queue: Queue = DEFAULT_QUEUE,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Serve workflows and drive their runs, until SIGTERM. Any number of them, on any number of machines."""
    from runs.temporal import commands

    place = commands.Place(address=address, namespace=namespace, queue=queue)
    return commands.worker(place, concurrency=concurrency, grace=grace, graph=graph, store=store, output=output)


@app.command()
def start(
    run_id: RunId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended, and show it.")] = False,
    heartbeat: Annotated[
        float,
        typer.Option(
            "--heartbeat", metavar="S", help="After so long without a word a worker is taken for dead.", min=1
        ),
    ] = Order.heartbeat_seconds,
    poll: Annotated[
        float, typer.Option("--poll", metavar="S", help="How often a waiting run is looked at without a signal.", min=1)
    ] = Order.poll_seconds,
    address: Address = None,
    namespace: Namespace = None,
    queue: Queue = DEFAULT_QUEUE,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Start the workflow of a run. Its id is the run's id, so starting it twice is starting it once."""
    from runs.temporal import commands

    place = commands.Place(address=address, namespace=namespace, queue=queue)
    return commands.start(run_id, place, wait=wait, heartbeat=heartbeat, poll=poll, store=store, output=output)


@app.command()
def signal(
    run_id: RunId,
    word: Annotated[
        Literal["decided", "cancel"],
        typer.Argument(help="decided: there is a decision or a resolution; cancel: stop the run for good."),
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why it is cancelled; it is recorded.")
    ] = "cancelled through Temporal",
    address: Address = None,
    namespace: Namespace = None,
    store: Store = None,
) -> int:
    """Tell a run's workflow. A lost signal is harmless: waiting runs are looked at from time to time."""
    from runs.temporal import commands

    place = commands.Place(address=address, namespace=namespace)
    return commands.signal(run_id, word, place, reason=reason, store=store)
