"""`onward up`: everything in one terminal, or under one unit of the system's supervisor."""

from __future__ import annotations

import threading

from runs.commands.output import say
from runs.commands.services import settings_for
from runs.errors import UsageError
from runs.foreign.serving import versions_of
from runs.settings import prepare_home
from runs.supervisor import Options, Supervisor

_telling = threading.Lock()


def up(*, workers: int, concurrency: int, grace: float, graph: str | None) -> int:
    """See `onward up`."""
    settings = settings_for(None)
    if settings.store != "postgres":
        raise UsageError("Workers need Postgres. Unset ONWARD_STORE, or set it to postgres.")
    if graph is not None:
        versions_of(graph)  # what is wrong with it is said here, and not by each worker again and again
    prepare_home(settings)
    width = len(f"worker {workers}")

    def tell(who: str, line: str) -> None:
        with _telling:  # several workers speak at once
            say(f"{who:<{max(width, 8)}} | {line}")

    def on_ready() -> None:
        tell("onward", "Everything is up. In another terminal: onward run FILE --queue. Ctrl-C stops it all.")

    options = Options(workers=workers, concurrency=concurrency, grace_seconds=grace, graph=graph)
    return Supervisor(settings, options, tell, on_ready).run()
