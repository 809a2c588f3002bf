"""A worker: drives queued runs, and takes over those whose driver is gone. Any number, on any number of machines.

Workers share nothing but Postgres, the ledger's URL and the object store. A worker keeps nothing: it may be killed at
any moment. It is made of

    the queue      wakes it when there is a hint                           runs.dispatch
    the crew       one process for each run that it drives                 runs.crew
    the sweeper    finds what no hint tells of                             runs.sweeper
    the feed       follows the ledger's decisions                          runs.feed
    its holder     a session lock that shows that it lives, and a row that says what it serves

SIGTERM or Ctrl-C: it takes nothing new, asks its drivers to stop at the next super-step, and ends those that have not
when the grace period is over. A second time: at once. A run that was handed back is queued, so another worker has it.

A worker of somebody's graph whose file changes serves nothing that there is any more: it lets its drives go on to their
end, and ends. Whoever supervises it starts one that serves what the file is by then.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass

import psycopg

from onward_ledger.database import DatabaseError, statement
from runs import events, local_ledger, registry
from runs.crew import Crew, Drive, Stand
from runs.dispatch import QueueLost, queue_worker
from runs.errors import Exit, RunError, UsageError
from runs.feed import Feed
from runs.foreign.errors import GraphError
from runs.foreign.serving import versions_of
from runs.holder import PostgresHolder, host_name
from runs.rounds import Troubles
from runs.settings import Settings
from runs.store import PostgresStore, open_store
from runs.sweeper import Sweeper

# What a drive may take to come to its next super-step when the worker is asked to stop.
GRACE_SECONDS = 30.0
# Behind a queue that was lost: it is tried again so soon.
_AGAIN_SECONDS = 0.5
# How often a worker looks whether its drivers still have their runs.
_LOOK_AFTER_SECONDS = 1.0
# An ended driver that says nothing of its run's state: killed, broken, or its lease was lost.
_SETTLED = frozenset({Exit.OK, Exit.WAITING, Exit.LIMIT, Exit.UNKNOWN_OUTCOME})

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a worker is started with: the workflow versions that it serves, and whose graphs, if not ours."""

    versions: tuple[str, ...]
    concurrency: int
    grace_seconds: float = GRACE_SECONDS
    graph: str | None = None


def work(settings: Settings, options: Options, *, tell: Tell, on_ready: Callable[[int], None]) -> int:
    """Be a worker until somebody asks to stop; the exit code. `on_ready` gets the worker's id.

    Raises UsageError for a store that is not Postgres, and ServiceUnreachable when something is not there at the start
    (a database behind a pooler in transaction mode too).
    """
    store = postgres_store(settings)
    _quieten_libraries()
    return asyncio.run(_Worker(settings, options, store, tell).run(on_ready))


def postgres_store(settings: Settings) -> PostgresStore:
    """The store, which has to be Postgres: a file is of one machine and of one driver at a time."""
    store = open_store(settings)
    if not isinstance(store, PostgresStore):
        raise UsageError("Workers need Postgres. Leave out --store, or say --store postgres.")
    return store


class _Worker:
    def __init__(self, settings: Settings, options: Options, store: PostgresStore, tell: Tell) -> None:
        self._settings = settings
        self._options = options
        self._store = store
        self._tell = tell
        self._asked = 0
        self._outdated = False
        self._stop_queue: Callable[[], None] | None = None

    async def run(self, on_ready: Callable[[int], None]) -> int:
        with ExitStack() as stack:
            self._crew = Crew(self._settings, self._options.concurrency, self._ended, self._stand, self._options.graph)
            stack.callback(self._crew.close)
            self._crew.warm_up()
            self._database = stack.enter_context(closing(self._store.database("onward worker")))
            holder = stack.enter_context(closing(self._register()))
            self._look_for_work(holder, stack)
            self._listen()
            on_ready(holder.holder_id)
            looking = asyncio.create_task(self._look_after())
            await self._serve()
            await self._drain()
            looking.cancel()
        return Exit.CONFLICT if self._outdated else Exit.OK

    def _register(self) -> PostgresHolder:
        holder = self._store.open_holder("worker")
        with self._database.transaction() as tx:
            holder.check_session()  # behind a pooler that keeps no sessions, no lock shows anybody's life
            tx.run(
                "insert_worker",
                holder_id=holder.holder_id,
                versions=list(self._options.versions),
                concurrency=self._options.concurrency,
            )
        return holder

    def _look_for_work(self, holder: PostgresHolder, stack: ExitStack) -> None:
        troubles, settings = Troubles(self._trouble), self._settings
        self._sweeper = Sweeper(self._store, holder, list(self._options.versions), troubles, self._mend)
        for part in (self._sweeper, Feed(self._database, lambda: local_ledger.connect(settings), troubles)):
            part.start()
            stack.callback(part.stop)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)

    def _asked_to_stop(self) -> None:
        self._asked += 1
        self._take_nothing_new()
        if self._asked == 1:
            busy = len(self._crew.busy)
            self._tell(f"Stopping: {busy} drives finish their step." if busy else "Stopping.")
            self._crew.signal(signal.SIGTERM)
        else:
            self._tell("Stopping at once.")
            self._crew.signal(signal.SIGKILL)

    def _take_nothing_new(self) -> None:
        self._crew.take_nothing_new()
        if self._stop_queue is not None:
            self._stop_queue()

    @property
    def _stopping(self) -> bool:
        return self._asked > 0 or self._outdated

    async def _serve(self) -> None:
        """Listen to the queue until it is time to stop. A queue that is lost does not touch what is driven."""
        while not self._stopping:
            app, queue = queue_worker(self._store, self._options.versions, self._options.concurrency, self._crew.drive)
            self._stop_queue = queue.stop
            try:
                async with app.open_async():
                    if not self._stopping:  # a queue forgets a request to stop that came before it runs
                        await queue.run()
            except (QueueLost, psycopg.Error):
                pass  # the sweeper tells of a database that does not answer
            if not self._stopping:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _look_after(self) -> None:
        differed = False
        while True:
            await asyncio.sleep(_LOOK_AFTER_SECONDS)
            await self._crew.end_useless()
            differs = not self._stopping and await asyncio.to_thread(self._graph_differs)
            if differs and differed:  # a look may have met a file that is being written
                self._outdate()
            differed = differs

    def _graph_differs(self) -> bool:
        graph = self._options.graph
        try:
            return graph is not None and versions_of(graph) != self._options.versions
        except GraphError:
            return True

    def _outdate(self) -> None:
        self._outdated = True
        busy = len(self._crew.busy)
        self._tell(
            f"{self._options.graph} is not what it was when this worker was started. This worker takes nothing new and "
            f"ends{f' behind its {busy} drives' if busy else ''}; start one for what the graph is now."
        )
        self._take_nothing_new()

    async def _drain(self) -> None:
        while not self._asked and not await self._crew.ended(_LOOK_AFTER_SECONDS):
            pass  # outdated, and not asked to stop: there is no hurry
        if not await self._crew.ended(self._options.grace_seconds):
            self._tell(f"Ending {len(self._crew.busy)} drives that have not stopped; their steps run again elsewhere.")
            self._crew.signal(signal.SIGKILL)
            await self._crew.ended(self._options.grace_seconds)

    def _ended(self, drive: Drive) -> None:
        self._tell(f"Run {drive.run_id}: process {drive.pid} {_how(drive.exit_code)} after {drive.seconds:.1f} s.")
        if drive.exit_code in _SETTLED:
            return
        self._sweeper.look_soon()
        if drive.exit_code < 0 or drive.exit_code not in set(Exit):
            asyncio.get_running_loop().run_in_executor(None, self._note_end, drive)

    def _note_end(self, drive: Drive) -> None:
        """What ended a driver is evidence, should it happen again and again. Without it the run goes on too."""
        data = {"pid": drive.pid, "exit_code": drive.exit_code, "seconds": round(drive.seconds, 3)}
        with suppress(DatabaseError):
            self._database.at_once(
                statement("lock_run", run_id=drive.run_id), *events.numbered(drive.run_id, "driver_ended", data)
            )

    def _stand(self, run_id: str, pid: int) -> Stand | None:
        try:
            return stand(registry.get(self._database, run_id), pid)
        except (DatabaseError, RunError):
            return None

    def _trouble(self, what: str, error: Exception | None) -> None:
        if error is None:
            self._tell(f"The {what} answers again.")
        else:
            self._tell(f"The {what} does not answer; it is tried again. ({(str(error).splitlines() or [''])[0]})")

    def _mend(self) -> None:
        """A Postgres that was started here is started again."""
        if self._settings.database_url is None:
            from runs import local_postgres

            with suppress(RunError, local_postgres.LocalPostgresError, OSError):
                local_postgres.ensure(self._settings.home)


def stand(run: registry.Run, pid: int) -> Stand:
    """How the run stands to that process of this machine. One whose session was lost may come back within its lease."""
    if run.driven and run.pid == pid and run.host == host_name():  # elsewhere the same number is another process
        return Stand.HELD if run.expires_at is not None and run.expires_at > run.now_at else Stand.HUNG
    if run.status is registry.Status.QUEUED or run.driver in ("gone", "hanging"):
        return Stand.FREE
    return Stand.LOST


def _how(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"was ended by {name}"
    known = {
        Exit.OK: "finished it",
        Exit.FAILED: "ended it as failed",
        Exit.CONFLICT: "left it to another driver",
        Exit.WAITING: "left it waiting for a person",
        Exit.HANDED_BACK: "handed it back",
        Exit.LIMIT: "ended it at its limit",
        Exit.UNKNOWN_OUTCOME: "left it with an unknown outcome",
        Exit.UNREACHABLE: "found a service that does not answer",
    }
    return known[Exit(code)] if code in known else f"ended with exit code {code}"


def _quieten_libraries() -> None:
    """Their words about a lost connection are many, and ours say what it means."""
    for name in ("procrastinate", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
