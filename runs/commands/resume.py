"""`onward resume`: go on with a run, or say why there is nothing to go on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runs import events
from runs.commands.answer import exit_code_of, view_of, write_run
from runs.commands.driving import drive_and_answer, say_what_comes_next
from runs.commands.output import Format, say
from runs.commands.services import Opened, check_may_act, found
from runs.errors import DrivenElsewhere
from runs.registry import Run, Status

if TYPE_CHECKING:
    from runs.settings import StoreKind


def resume(run_id: str, *, store: StoreKind | None, output: Format) -> int:
    """See `onward resume`. A finished run executes nothing; its exit code is that of its result."""
    with found(run_id, store) as (opened, run):
        if run.finished:
            say(finished(run))
            return _answer(opened, run, output)
        check_may_act(opened)
        return go_on(opened, run, output)


def finished(run: Run) -> str:
    """What resuming a finished run says."""
    return f"The run {run.run_id} is finished: {run.status}. Nothing was executed."


def go_on(opened: Opened, run: Run, output: Format) -> int:
    """Drive a run that nobody drives, unless it still waits for a person."""
    run = ready(opened, run)
    if run.status is Status.WAITING_HUMAN:
        return _answer(opened, run, output)
    say(f"Run {run.run_id}: going on from epoch {run.epoch or 0}.")
    return drive_and_answer(opened, run, output)


def ready(opened: Opened, run: Run) -> Run:
    """The run, queued if what it waited for has come. Raises DrivenElsewhere when a living driver has it."""
    if run.driver == "alive":
        raise driven_elsewhere(opened, run)
    return _woken(opened, run) if run.status is Status.WAITING_HUMAN else run


def driven_elsewhere(opened: Opened, run: Run) -> DrivenElsewhere:
    """The error that says who drives the run, and since when."""
    claims = [event for event in events.read_all(opened.database, run.run_id) if event.kind == "claimed"]
    since = f" since {claims[-1].created_at:%Y-%m-%d %H:%M:%S} UTC" if claims else ""
    return DrivenElsewhere(
        f"The run {run.run_id} is driven by process {run.pid} on {run.host}{since} (epoch {run.epoch}). "
        f"Follow it with: onward show {run.run_id}",
        pid=run.pid,
        host=run.host,
        epoch=run.epoch or 0,
    )


def _woken(opened: Opened, run: Run) -> Run:
    """Queued, if the ledger holds a decision that nobody told the run of."""
    from runs import local_ledger
    from runs.wake import wake_if_decided

    with local_ledger.connect(opened.settings) as ledger:
        return wake_if_decided(opened.database, ledger, run)


def _answer(opened: Opened, run: Run, output: Format) -> int:
    view = view_of(opened, run.run_id)
    say_what_comes_next(view, output)
    write_run(view, output)
    return exit_code_of(run)
