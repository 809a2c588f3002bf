"""The `onward` command: what each subcommand takes. What it does stands in `runs.commands`, imported when it is called.

Data goes to stdout, messages and progress to stderr. Exit codes are those of `runs.errors.Exit`. Nothing heavy is
imported here (a test looks), so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from runs import cli_ledger, cli_operate
from runs.cli_options import NoResume, Output, RunId, Store
from runs.temporal.cli import app as temporal_app

app = typer.Typer(
    name="onward",
    help="An agent on LangGraph that can be killed at any moment and goes on where it was.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# What `run` takes.
Input = Annotated[
    Path | None, typer.Argument(metavar="INPUT", help="An .xlsx workbook or a .csv file.", show_default=False)
]
Ask = Annotated[
    list[str] | None, typer.Option("--ask", metavar="TEXT", help="A question to answer; may be given several times.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="M",
        help="A language model: provider:name or module:object. Without one, fixed rules plan and write.",
    ),
]
Approve = Annotated[
    bool, typer.Option("--approve", help="Approve the publication in advance (one use, this run only).")
]
Deadline = Annotated[
    str | None, typer.Option("--deadline", metavar="TIME", help="End by then: 90s, 30m, 2h, or an ISO 8601 time.")
]
Budget = Annotated[
    float | None, typer.Option("--budget", metavar="USD", help="What model calls may cost in all.", min=0)
]
BudgetTokens = Annotated[
    int | None, typer.Option("--budget-tokens", metavar="N", help="What model calls may use in all.", min=0)
]
Queue = Annotated[
    bool, typer.Option("--queue", help="Only record the run; a worker drives it. Follow it with `onward show`.")
]
Graph = Annotated[
    str | None,
    typer.Option("--graph", metavar="FILE.py:NAME", help="Run a graph of your own; also langgraph.json:NAME."),
]
GraphVersion = Annotated[
    str | None,
    typer.Option("--graph-version", metavar="V", help="Its version; without it, a digest of its source files."),
]
GraphInput = Annotated[
    str | None, typer.Option("--input", metavar="JSON", help="Input of your graph; @file reads a file, - stdin.")
]
GraphConfig = Annotated[
    str | None, typer.Option("--config", metavar="JSON", help="Your graph's configurable, recursion_limit.")
]
GraphContext = Annotated[str | None, typer.Option("--context", metavar="JSON", help="Your graph's context.")]
Ainvoke = Annotated[
    bool, typer.Option("--ainvoke", help="Your graph needs ainvoke; found out by itself in most cases.")
]


@app.command()
def run(
    input: Input = None,
    ask: Ask = None,
    model: Model = None,
    approve: Approve = False,
    store: Store = None,
    deadline: Deadline = None,
    budget: Budget = None,
    budget_tokens: BudgetTokens = None,
    queue: Queue = False,
    graph: Graph = None,
    graph_version: GraphVersion = None,
    graph_input: GraphInput = None,
    config: GraphConfig = None,
    context: GraphContext = None,
    ainvoke: Ainvoke = False,
    output: Output = "table",
) -> int:
    """Analyse a workbook and publish a checked report. Starts what it needs; Ctrl-C stops at a safe place.

    With --graph, run a LangGraph graph of your own instead.

    \b
    onward run book.xlsx                                       up to the question whether to publish
    onward run book.csv --ask "total revenue by region" --approve
    onward run book.xlsx --queue                               leave it to a worker
    onward run --graph agent.py:graph --input '{"order_id": "7"}'
    """
    if graph is not None:
        from runs.commands import start_graph

        start_graph.refuse_ours(input=input, ask=ask, model=model, approve=approve)
        return start_graph.run(
            start_graph.Request(
                graph=graph,
                version=graph_version,
                input=graph_input,
                config=config,
                context=context,
                ainvoke=ainvoke,
                deadline=deadline,
                budget=budget,
                budget_tokens=budget_tokens,
                queue=queue,
            ),
            store=store,
            output=output,
        )
    from runs.commands import start

    path = start.only_ours(
        input, {"--graph-version": graph_version, "--input": graph_input, "--config": config, "--context": context}
    )
    return start.run(
        start.Request(
            path=path,
            asks=tuple(ask or ()),
            model=model,
            approve=approve,
            deadline=deadline,
            budget=budget,
            budget_tokens=budget_tokens,
            queue=queue,
        ),
        store=store,
        output=output,
    )


@app.command()
def resume(run_id: RunId, store: Store = None, output: Output = "table") -> int:
    """Go on with a run whose driver is gone. A finished run executes nothing: its result is shown."""
    from runs.commands import resume

    return resume.resume(run_id, store=store, output=output)


@app.command()
def migrate(
    run_id: RunId,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="The workflow version to bring the run to.")],
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this, only tell what would change.")] = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Bring a waiting run to another workflow version. A dry run first; refuses what cannot go on, with the reason.

    \b
    onward migrate RUN_ID --to 2             what would change; nothing is touched
    onward migrate RUN_ID --to 2 --apply     change it, checkpoint and row in one commit
    """
    from runs.commands import migrate

    return migrate.migrate(run_id, to=to, apply=apply, store=store, output=output)


@app.command()
def fork(
    run_id: RunId,
    from_: Annotated[str, typer.Option("--from", metavar="STEP", help="Begin just before this step: analyze#2, test.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="What differs: model, ask (several times), budget, deadline."),
    ] = None,
    queue: Annotated[bool, typer.Option("--queue", help="Only record the fork; a worker drives it.")] = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Start a new run where another one stood, with something changed. Effects and approvals are the fork's own.

    \b
    onward fork RUN_ID --from write_draft                             the same once more
    onward fork RUN_ID --from analyze --set model=openai:gpt-5        with another model
    onward fork RUN_ID --from write_draft --queue                     left to a worker
    """
    from runs.commands import fork

    request = fork.Request(run_id=run_id, step=from_, settings=set_ or (), queue=queue)
    return fork.fork(request, store=store, output=output)


@app.command()
def cancel(
    run_id: RunId,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the run has stopped, also where a living driver stops it.")
    ] = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Stop a run for good. What was not sent is withdrawn, what was sent is listed and taken back where it can be.

    Exit code 0: cancelled, or asked for while a living driver stops it. 4: too late, or ended otherwise. 8: cancelled,
    and of an effect nobody knows whether it happened.

    \b
    onward cancel RUN_ID --reason "wrong quarter"
    onward cancel RUN_ID --wait              until it has stopped
    """
    from runs.commands import cancel

    return cancel.cancel(run_id, reason=reason, wait=wait, store=store, output=output)


@app.command()
def show(
    run_id: RunId,
    events: Annotated[bool, typer.Option("--events", help="The run's whole history, one event a line.")] = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Show one run. Goal, steps, report, receipts, who drives it, and what comes next."""
    from runs.commands import look

    return look.show(run_id, with_events=events, store=store, output=output)


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="Only runs of this status.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most this many.", min=1, max=10_000)] = 50,
    store: Store = None,
    output: Output = "table",
) -> int:
    """List runs, the newest first."""
    from runs.commands import look

    return look.list_runs(status=status, limit=limit, store=store, output=output)


@app.command()
def approve(
    run_id: RunId,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change title, note or resource of the publication."),
    ] = None,
    no_resume: NoResume = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Approve what a run waits with. Then the run is driven on; the first decision stands."""
    from runs.commands import decide

    return decide.approve(run_id, settings=set_ or [], resume=not no_resume, store=store, output=output)


Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded with the decision.")]


@app.command()
def revise(
    run_id: RunId, reason: Reason, no_resume: NoResume = False, store: Store = None, output: Output = "table"
) -> int:
    """Send the draft back, with a reason. It is written again, and you are asked again."""
    from runs.commands import decide

    return decide.decide(run_id, "revise", reason=reason, resume=not no_resume, store=store, output=output)


@app.command()
def reject(
    run_id: RunId, reason: Reason, no_resume: NoResume = False, store: Store = None, output: Output = "table"
) -> int:
    """Refuse the publication, with a reason; the run ends as rejected."""
    from runs.commands import decide

    return decide.decide(run_id, "reject", reason=reason, resume=not no_resume, store=store, output=output)


@app.command()
def answer(
    run_id: RunId,
    value: Annotated[str, typer.Argument(metavar="JSON", help="The answer; @file reads a file, - reads stdin.")],
    interrupt: Annotated[
        str | None, typer.Option("--interrupt", metavar="ID", help="Which question, where several are open.")
    ] = None,
    no_resume: NoResume = False,
    store: Store = None,
    output: Output = "table",
) -> int:
    """Answer what a graph of your own asks. Then the run is driven on; the first answer stands."""
    from runs.commands import reply

    return reply.answer(run_id, value, question_id=interrupt, resume=not no_resume, store=store, output=output)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def demo(context: typer.Context) -> int:
    """Kill the agent at its worst moment. First on plain LangGraph, then on Onward."""
    from runs.commands import demo

    return demo.demo(context.args)


app.add_typer(cli_operate.app)
app.add_typer(cli_ledger.app, name="ledger")
app.add_typer(temporal_app, name="temporal")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: every error becomes one code and one sentence."""
    from runs.commands.output import finish, prepare_streams

    prepare_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in ([], ["ledger"], ["temporal"]):
        arguments = [*arguments, "--help"]
    try:
        code = _invoke(arguments)
        finish()
    except (Exception, KeyboardInterrupt) as error:
        return _fail(error)
    return code


def _invoke(arguments: list[str]) -> int:
    """Call the command that the arguments name. Typer's own `main` would end the process with 1 on a closed pipe."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("onward", list(arguments)) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as done:  # after --help
        return done.exit_code


def _fail(error: BaseException) -> int:
    from runs.commands.failures import debug, explain
    from runs.commands.output import leave_quietly, say

    leave_quietly()
    code, sentence = explain(error)
    debug(error)
    if sentence:
        say(f"onward: {sentence}")
    return code


if __name__ == "__main__":
    sys.exit(main())
