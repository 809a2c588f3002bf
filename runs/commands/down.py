"""`onward down`: stop what was started here, the ledger before the database that it writes to."""

from __future__ import annotations

import psutil

from runs import local_ledger, local_postgres, registry
from runs.commands.output import say
from runs.commands.services import opened, places
from runs.errors import Conflict
from runs.holder import host_name, is_that_process, kill_process
from runs.registry import Run, Status
from runs.settings import Settings, StoreKind

# A command that follows a killed driver says so and ends; it needs the ledger for that, and a moment.
LONGEST_WAIT_SECONDS = 10.0


def down(*, force: bool) -> int:
    """See `onward down`. Stopping what does not run is no error."""
    settings = Settings()
    driven = _driven_here()
    if driven and not force:
        who = ", ".join(f"{run.run_id} (process {run.pid} on {run.host})" for run in driven)
        raise Conflict(
            f"Still driven: {who}. Stop it first, or force it: onward down --force. A forced run can be resumed later."
        )
    _end(driven)
    kinds: tuple[StoreKind, ...] = ("sqlite", "postgres")
    stopped = [_stop_ledger(Settings(store=kind), kind) for kind in kinds]
    if settings.database_url is None and local_postgres.stop(settings.home):
        stopped.append("Postgres")
    names = [name for name in stopped if name is not None]
    say(f"Stopped: {', '.join(names)}." if names else "Nothing was running.")
    return 0


def _stop_ledger(settings: Settings, kind: StoreKind) -> str | None:
    return f"ledger ({kind})" if settings.ledger_url is None and local_ledger.stop(settings) else None


def _driven_here() -> list[Run]:
    return [run for settings in places(None) if _is_up(settings) for run in _driven(settings)]


def _end(driven: list[Run]) -> None:
    """Kill these drivers, and let the commands that follow them end: both would start again what is stopped here."""
    followers = [process for run in driven if run.host == host_name() for process in _parent(run)]
    for run in driven:
        if run.host == host_name():
            kill_process(run.pid, run.process_started)
    psutil.wait_procs(followers, timeout=LONGEST_WAIT_SECONDS)


def _parent(run: Run) -> list[psutil.Process]:
    if run.pid is None or run.process_started is None or not is_that_process(run.pid, run.process_started):
        return []
    try:
        parent = psutil.Process(run.pid).parent()
    except psutil.Error:
        return []
    return [parent] if parent is not None else []


def _is_up(settings: Settings) -> bool:
    """A local server that does not answer drives nothing, and is not started to be asked."""
    if settings.store == "sqlite" or settings.database_url is not None:
        return True
    return local_postgres.status(settings.home).dsn is not None


def _driven(settings: Settings) -> list[Run]:
    with opened(settings) as place:
        found = [
            run
            for status in (Status.RUNNING, Status.CANCEL_REQUESTED)
            for run in registry.list_runs(place.database, status=status, limit=1000)
        ]
    return [run for run in found if run.driver == "alive"]
