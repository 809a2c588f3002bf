"""The `onward` command: what each subcommand takes. What it does stands in `runs.commands`, imported when it is called.

Data goes to stdout, messages and progress to stderr. Exit codes are those of `runs.errors.Exit`. Nothing heavy is
imported here (a test looks), so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

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
ledger_app = typer.Typer(
    help="Look at recorded effects and their receipts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(temporal_app, name="temporal")

Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="How data is written to stdout.", show_default=True),
]
Store = Annotated[
    Literal["postgres", "sqlite"] | None,
    typer.Option("--store", help="Where runs live; without it: ONWARD_STORE, else postgres (or where the run is)."),
]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id, or a unique beginning of it.")]
NoResume = Annotated[bool, typer.Option("--no-resume", help="Record the decision only; do not drive the run on.")]


@app.command()
def run(
    input: Annotated[
        Path | None, typer.Argument(metavar="INPUT", help="An .xlsx workbook or a .csv file.", show_default=False)
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="TEXT", help="A question to answer; may be given several times."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="M",
            help="A language model: provider:name or module:object. Without one, fixed rules plan and write.",
        ),
    ] = None,
    approve: Annotated[
        bool, typer.Option("--approve", help="Approve the publication in advance (one use, this run only).")
    ] = False,
    store: Store = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help="End by then: 90s, 30m, 2h, or an ISO 8601 time.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="USD", help="What model calls may cost in all.", min=0)
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", metavar="N", help="What model calls may use in all.", min=0)
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Only record the run; a worker drives it. Follow it with `onward show`.")
    ] = False,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="FILE.py:NAME", help="Run a graph of your own; also langgraph.json:NAME."),
    ] = None,
    graph_version: Annotated[
        str | None,
        typer.Option("--graph-version", metavar="V", help="Its version; without it, a digest of its source files."),
    ] = None,
    graph_input: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Input of your graph; @file reads a file, - stdin.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="JSON", help="Your graph's configurable, recursion_limit.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="JSON", help="Your graph's context.")] = None,
    ainvoke: Annotated[
        bool, typer.Option("--ainvoke", help="Your graph needs ainvoke; found out by itself in most cases.")
    ] = False,
    output: Output = "table",
) -> int:
    """Analyse a workbook and publish a checked report. Starts what it needs; Ctrl-C stops at a safe place.

    With --graph, run a LangGraph graph of your own instead.
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
    """Bring a waiting run to another workflow version. A dry run first; refuses what cannot go on, with the reason."""
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
    """Start a new run where another one stood, with something changed. Effects and approvals are the fork's own."""
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
    """Stop a run for good. What was not sent is withdrawn, what was sent is listed and taken back where it can be."""
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


@ledger_app.command("list")
def ledger_list(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only this run's actions.")] = None,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="Only this status.")] = None,
    store: Store = None,
    output: Output = "table",
) -> int:
    """List recorded actions in the order of their creation."""
    from runs.commands import effects

    return effects.list_actions(run_id=run_id, status=status, store=store, output=output)


@ledger_app.command("show")
def ledger_show(
    action_id: Annotated[str, typer.Argument(metavar="ACTION_ID", help="The action's id.")],
    store: Store = None,
    output: Output = "table",
) -> int:
    """Show one action: request, status, receipt, decision, and its history."""
    from runs.commands import effects

    return effects.show_action(action_id, store=store, output=output)


@ledger_app.command("resolve")
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


@ledger_app.command("release")
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


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def demo(context: typer.Context) -> int:
    """Kill the agent at its worst moment. First on plain LangGraph, then on Onward."""
    from runs.commands import demo

    return demo.demo(context.args)


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
    """Drive queued runs, and take over runs whose driver is gone. Start as many as you like, on any machine."""
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
    """Run Postgres, the ledger and workers in this terminal. Ctrl-C stops them all; runs are handed back."""
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
    """Remove by age what is over. Finished runs, their checkpoints, events and files; reports stay."""
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
