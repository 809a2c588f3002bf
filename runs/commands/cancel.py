"""`onward cancel`: ask for it, close the ledger's fence, and see the run stopped.

exit 0   cancelled; or asked for, and a living driver is stopping it (without --wait)
     4   too late: what the run was for had been claimed before, or the run had ended otherwise
     8   cancelled, and of an effect nobody knows whether it happened
     6 9 not stopped yet; whoever cancels it again, resumes it, or works for it goes on with that
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from onward_ledger.errors import LedgerError
from runs import cancelling, events, local_ledger, registry
from runs.cancelling import Asked
from runs.commands.answer import view_of, write_run
from runs.commands.driving import POLL_SECONDS, Ended, drive_here
from runs.commands.output import Format, say
from runs.commands.services import Opened, check_may_act, found
from runs.errors import Exit, ServiceUnreachable, UsageError
from runs.follow import Progress, progress_for_stderr
from runs.registry import Run, Status

if TYPE_CHECKING:
    from onward_ledger import Action
    from runs.settings import StoreKind

# Where workers are, one of them has usually stopped the run before a driver of our own has started.
WORKERS_SECONDS = 1.5


def cancel(run_id: str, *, reason: str | None, wait: bool, store: StoreKind | None, output: Format) -> int:
    """See `onward cancel`. A second time: as it stands, or going on with what the first one left."""
    if reason is not None and not reason.strip():
        raise UsageError("Give the reason in words: --reason TEXT, or leave it out.")
    with found(run_id, store) as (opened, before):
        check_may_act(opened)
        run, late = ask(opened, before, Asked(principal=opened.settings.principal, reason=reason))
        if run.finished:
            say(f"The run {run.run_id} has ended: {run.status}. There is nothing to cancel.")
            return _answer(opened, run, output)
        say(_heard(run, before.status, late))
        with contextlib.closing(progress_for_stderr()) as progress:
            ended = _stop(opened, run, progress, wait=wait)
        if ended is not None:
            say(ended.message)
        return _answer(opened, registry.get(opened.database, run.run_id), output, late=late, ended=ended)


def ask(opened: Opened, run: Run, asked: Asked) -> tuple[Run, Action | None]:
    """The row, then the fence: the run as it stands, and the action that it is too late for.

    A ledger that cannot be had now is no hindrance: the row is moved, and who stops the run closes the fence.
    """
    store, ledger_id, objects = local_ledger.serves(opened.settings)
    registry.refuse_elsewhere(run, store=store, objects=objects, ledger=ledger_id)
    run = cancelling.request(opened.database, run, asked)
    if run.finished:
        return run, None
    try:
        with local_ledger.connect(opened.settings) as ledger:
            fence = ledger.close_fence(run.run_id, reason=asked.words)
    except (LedgerError, ServiceUnreachable) as error:
        say(f"onward: The ledger did not take it yet; whoever stops the run tries again. ({error})")
        return run, None
    return run, cancelling.too_late(fence.actions)


def _heard(run: Run, before: Status, late: Action | None) -> str:
    again = "was asked for before" if before is Status.CANCEL_REQUESTED else "is requested"
    text = f"Run {run.run_id}: cancelling {again}."
    if late is not None:
        text += f" It is too late: {late.kind} {late.resource} was claimed before ({late.status})."
    return text


def _stop(opened: Opened, run: Run, progress: Progress, *, wait: bool) -> Ended | None:
    """See the run stopped: by its living driver, by a worker, or by a driver of our own. None: nothing more to say."""
    after = run.last_seq
    patience = time.monotonic() + (WORKERS_SECONDS if opened.database.read("workers") else 0.0)
    while True:
        run = registry.get(opened.database, run.run_id)
        after = _tell(opened, run, progress, after)
        if run.finished:
            return None
        if run.driver == "alive":
            if not wait:
                progress.note(_who_stops(opened, run))
                return None
        elif time.monotonic() >= patience:
            ended = drive_here(opened, run, progress)
            run = registry.get(opened.database, run.run_id)
            if run.finished or run.driver != "alive":
                return None if run.finished else ended
            after = run.last_seq
        time.sleep(POLL_SECONDS)


def _tell(opened: Opened, run: Run, progress: Progress, after: int) -> int:
    for event in events.read(opened.database, run.run_id, after=after):
        progress.event(event)
        after = event.seq
    return after


def _who_stops(opened: Opened, run: Run) -> str:
    view = view_of(opened, run.run_id)
    doing = [step["step"] for step in view["steps"] if step["status"] == "running"]
    where = f", which is in {', '.join(doing)}" if doing else ""
    return f"Process {run.pid} on {run.host}{where}, stops it. Wait for that with: onward cancel {run.run_id} --wait"


def _answer(opened: Opened, run: Run, output: Format, *, late: Action | None = None, ended: Ended | None = None) -> int:
    view = view_of(opened, run.run_id)
    write_run(view, output)
    return _exit_code(run, view, late, ended)


def _exit_code(run: Run, view: dict[str, Any], late: Action | None, ended: Ended | None) -> int:
    if run.status is Status.CANCELLED:
        unsettled = [a for a in view["actions"] or () if a["status"] == "UNKNOWN"]
        return Exit.UNKNOWN_OUTCOME if unsettled else Exit.OK
    if run.finished or late is not None:
        return Exit.CONFLICT
    return ended.exit_code if ended is not None and ended.exit_code else Exit.OK
