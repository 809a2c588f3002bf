"""`onward worker`: a worker in this terminal, or under a supervisor."""

from __future__ import annotations

import os
import sys
from datetime import datetime

from runs.commands.output import Format, say, write_json
from runs.commands.services import settings_for
from runs.settings import StoreKind, prepare_home
from runs.worker import Options, work
from tools.process import die_with_parent


def worker(
    *,
    concurrency: int,
    grace: float,
    graph: str | None,
    store: StoreKind | None,
    output: Format,
    owner: int | None = None,
    owner_pipe: int | None = None,
) -> int:
    """See `onward worker`. `owner`, `owner_pipe`: the process that this one ends with, see tools.process."""
    if owner is not None:
        die_with_parent(owner, owner_pipe)
    settings = settings_for(store)
    prepare_home(settings)
    options = Options(versions=_versions(graph), concurrency=concurrency, grace_seconds=grace, graph=graph)
    tell(f"Worker {os.getpid()}: starting.")

    def on_ready(worker_id: int) -> None:
        served = ", ".join(options.versions)
        tell(f"Worker {os.getpid()}: ready for {concurrency} runs at once of workflow version {served}.")
        if output == "json":
            ready = {"worker": worker_id, "pid": os.getpid(), "versions": list(options.versions)}
            write_json({**ready, "concurrency": concurrency})
            sys.stdout.flush()

    return work(settings, options, tell=tell, on_ready=on_ready)


def _versions(graph: str | None) -> tuple[str, ...]:
    if graph is not None:
        from runs.foreign.serving import versions_of

        return versions_of(graph)
    from graph.versions import SERVED

    return tuple(SERVED)


def tell(sentence: str) -> None:
    """One line of a long-lived process's log, with the time."""
    say(f"{datetime.now().astimezone():%H:%M:%S} {sentence}")
