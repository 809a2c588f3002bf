"""The process that drives one run: `python -m runs.driver RUN_ID --home DIR --store postgres`.

A run that calls `os._exit` or eats memory takes nobody with it. The process ends with whoever started it, however that
one ended; its exit code is that of `runs.errors.Exit`, and its last line on stdout is the outcome as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from onward_ledger.database import DatabaseError, Unreachable
from onward_ledger.errors import LedgerError, LedgerUnreachable
from runs.errors import Exit, RunError, ServiceUnreachable
from runs.failures import BACK_OFF_SECONDS
from runs.outcome import Outcome
from runs.settings import Settings
from tools.process import die_with_parent

ROOT = Path(__file__).resolve().parent.parent


def spawn_driver(run_id: str, settings: Settings, *, stderr: int | IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start a driver for a run. Its stdout is a pipe with one line of JSON at the end. It dies with this process.

    The driver has a session of its own, so that Ctrl-C in the terminal reaches the command only, which passes it on:
    SIGTERM once drains, SIGTERM twice ends the driver at once.
    """
    if threading.current_thread() is threading.main_thread():
        return _spawn(run_id, settings, stderr)
    return _starter.submit(_spawn, run_id, settings, stderr).result()


# Linux tells a child of its parent's death when the thread that started it ends. This one lives as long as the process,
# which threads that serve requests, or cells of a notebook, do not.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="driver-starter")


def _spawn(run_id: str, settings: Settings, stderr: int | IO[bytes] | None) -> subprocess.Popen[bytes]:
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "runs.driver", run_id, "--home", str(settings.home)),
                *("--store", settings.store, "--parent", str(os.getpid()), "--owner-pipe", str(reading)),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=(reading,),
            env={**os.environ, **_environment(settings)},
            start_new_session=True,
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    _life_lines[process.pid] = writing
    return process


# The writing ends of the drivers' life lines: closed by the system when this process ends.
_life_lines: dict[int, int] = {}


def _environment(settings: Settings) -> dict[str, str]:
    """Settings that the command line does not carry; secrets belong here, not into a list of processes."""
    token = settings.ledger_token.get_secret_value() if settings.ledger_token else None
    values = {
        "ONWARD_PRINCIPAL": settings.principal,
        "ONWARD_TENANT": settings.tenant,
        "DATABASE_URL": settings.database_url,
        "LEDGER_DATABASE_URL": settings.ledger_database_url,
        "ONWARD_OBJECTS": settings.objects,
        "ONWARD_LEDGER_URL": settings.ledger_url,
        "ONWARD_LEDGER_TOKEN": token,
        "ONWARD_LEASE_SECONDS": str(settings.lease_seconds),
        "PYTHONUNBUFFERED": "1",
    }
    return {name: value for name, value in values.items() if value is not None}


def main(arguments: list[str] | None = None) -> int:
    """Drive the run of the command line; the exit code."""
    options = _parser().parse_args(arguments)
    if options.owner_pipe is not None:
        die_with_parent(options.parent, options.owner_pipe)
    settings = Settings(home=options.home, store=options.store)
    try:
        return drive_until_done(options.run_id, settings)
    except RunError as error:
        return _tell(error.exit_code, status=None, reason=type(error).__name__, message=error.message)
    except (DatabaseError, LedgerError) as error:
        code = Exit.UNREACHABLE if isinstance(error, Unreachable | LedgerUnreachable) else Exit.FAILED
        return _tell(code, status=None, reason=type(error).__name__, message=str(error))


def drive_until_done(run_id: str, settings: Settings) -> int:
    """Drive again by itself after transient failures, a bounded number of times; then hand the run back."""
    from runs.assembly import parts_for  # imports langgraph: 3 seconds, so only in here
    from runs.drain import Drain, drain_on_signals
    from runs.drive import drive

    drain = Drain()
    drain_on_signals(drain)
    ready = False

    def once() -> Outcome:
        nonlocal ready
        with parts_for(settings, drain) as parts:
            ready = True
            return drive(run_id, parts)

    outcome = drive_again(once, wait=drain.wait, is_ready=lambda: ready)
    return _tell(outcome.exit_code, status=outcome.status, reason=outcome.reason, message=outcome.message)


def drive_again(once: Callable[[], Outcome], *, wait: Callable[[float], bool], is_ready: Callable[[], bool]) -> Outcome:
    """Drive until the run is left to somebody: another driver, a person, or whoever resumes it.

    `once` drives once. What is unreachable before anything was driven (`is_ready` is false) is the caller's to mend and
    is raised at once; later it is tried again with the back-off of a run. `wait` says whether somebody asked to stop.
    """
    lost = 0
    while True:
        try:
            outcome = once()
            lost, pause = 0, outcome.again_after_seconds
        except (Unreachable, ServiceUnreachable):
            if not is_ready() or lost == len(BACK_OFF_SECONDS):
                raise
            outcome, pause = None, BACK_OFF_SECONDS[lost]
            lost += 1
        if outcome is not None and pause is None:
            return outcome
        assert pause is not None
        if wait(pause):
            return Outcome.stopped()


def _tell(code: Exit, *, status: str | None, reason: str | None, message: str) -> int:
    sys.stdout.write(
        json.dumps({"status": status, "reason": reason, "message": message, "exit_code": int(code)}) + "\n"
    )
    sys.stdout.flush()
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runs.driver", description="Drive one run.")
    parser.add_argument("run_id")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--store", choices=("postgres", "sqlite"), required=True)
    parser.add_argument("--parent", type=int, default=os.getppid(), help="the process that this one ends with")
    parser.add_argument(
        "--owner-pipe", type=int, help="reading end of a pipe that is at its end when the parent is gone"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
