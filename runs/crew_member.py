"""What a driver of a worker is forked with: everything that a drive imports. See `runs.crew`.

Importing starts no thread and opens nothing; a test looks. Some libraries import parts of themselves when they are used
first: what a drive would import then is named here.
"""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import closing

from onward_ledger.database import DatabaseError, PostgresDatabase, Unreachable
from onward_ledger.errors import LedgerError, LedgerUnreachable
from runs import assembly, drive
from runs.drain import Drain, drain_on_signals
from runs.errors import Exit, RunError
from runs.foreign.workflow import check_all
from runs.queue_tables import set_up_queue
from runs.settings import Settings

_IMPORTED_AT_FIRST_USE = (
    "graph.build",
    "graph.nodes",
    "runs.local_postgres",
    "httpcore",
    "h11",
    "langchain_core.messages.block_translators.langchain_v0",
    "langchain_core.tracers.context",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
    "matplotlib.backends.backend_svg",
    "matplotlib.dates",
    "matplotlib.figure",
    "tools.charts",
)
for _name in _IMPORTED_AT_FIRST_USE:
    importlib.import_module(_name)
gc.collect()
gc.freeze()  # what is shared with every fork is not walked, and so not copied, by a fork's collector


def prepare(settings: Settings, graph: str | None = None) -> tuple[int, str]:
    """Start and set up what drives need, once for all of them. (0, "") or an exit code and a sentence."""
    try:
        with assembly.parts_for(settings, Drain()) as parts, closing(parts.store.database("onward set-up")) as database:
            assert isinstance(database, PostgresDatabase)
            set_up_queue(database)
        if graph is not None:
            check_all(graph)
    except RunError as error:
        return error.exit_code, error.message
    except (DatabaseError, LedgerError) as error:
        return _code_of(error), str(error)
    return 0, ""


def drive_once(run_id: str, settings: Settings, graph: str | None = None) -> int:
    """Drive the run as far as it goes, once: what comes next is in its row. The exit code."""
    drain = Drain()
    drain_on_signals(drain)
    try:
        with assembly.parts_for(settings, drain, driver_kind="worker", graph=graph) as parts:
            return int(drive.drive(run_id, parts).exit_code)
    except RunError as error:
        return _said(error, error.exit_code)
    except (DatabaseError, LedgerError) as error:
        return _said(error, _code_of(error))


def _code_of(error: Exception) -> Exit:
    return Exit.UNREACHABLE if isinstance(error, Unreachable | LedgerUnreachable) else Exit.FAILED


def _said(error: Exception, code: Exit) -> int:
    if code is not Exit.CONFLICT:  # another driver has the run: that is no news
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    return int(code)
