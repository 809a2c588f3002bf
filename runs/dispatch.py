"""The queue of hints: Procrastinate, in our schema of the same Postgres.

A job says "look at run X" and decides nothing: the claim does. Rows write their own hints (the trigger `hint_run`), so
nothing here defers. A queue is named after a workflow version; a worker listens to the versions that it serves.

What is left to Procrastinate: waking a worker when a job arrives, handing a job to one worker at a time, keeping a job
for later. What it is not asked: whether a job's worker lives. A job that was lost with its worker is hinted again by a
sweeper, which reads the run's row. The tables are made by `runs.queue_tables`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.worker import Worker as QueueWorker

from onward_ledger.database.postgres import connection_string
from runs.store import PostgresStore

# The task's name is in the jobs that are waiting: it does not change.
TASK = "onward.look"
# A notification wakes a worker at once. One that came while it looked, and a job that has become due, wait for this.
POLL_SECONDS = 0.25
# Jobs of a worker that stops are given back at once: its drives go on or are drained apart from them.
_GIVE_BACK_SECONDS = 0.1

QueueLost = ConnectorException
"""The queue cannot be asked now."""


def queue_worker(
    store: PostgresStore, versions: Iterable[str], concurrency: int, look: Callable[[str], Awaitable[None]]
) -> tuple[App, QueueWorker]:
    """An app to be opened, and a worker of it that calls `look(run_id)` for each hint of these versions."""
    app = App(connector=_connector(store, concurrency))

    @app.task(name=TASK)
    async def look_at(run_id: str) -> None:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
        await look(run_id)

    worker = QueueWorker(
        app,
        queues=sorted(versions),
        name="onward",
        concurrency=concurrency,
        fetch_job_polling_interval=POLL_SECONDS,
        shutdown_graceful_timeout=_GIVE_BACK_SECONDS,
        delete_jobs="always",
        install_signal_handlers=False,
    )
    return app, worker


def _connector(store: PostgresStore, concurrency: int) -> PsycopgConnector:
    # A plan that is made for any queue reads past every job of the others: a long queue of a version that is served
    # elsewhere would cost each look here a tenth of a second. So each look is planned for the queues that it asks for.
    settings = {"search_path": store.schema, "timezone": "UTC", "plan_cache_mode": "force_custom_plan"}
    return PsycopgConnector(
        conninfo=connection_string(store.dsn, "onward queue", settings),
        min_size=1,
        max_size=2 + min(concurrency, 4),
        timeout=10,
    )
