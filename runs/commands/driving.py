"""Driving a run from a terminal: a driver process, its events as they are committed, and the signals for it.

first Ctrl-C or SIGTERM   the driver finishes the current step and hands the run back        exit 6
second                    the driver is killed at once; nothing is lost, the step runs again  exit 6
the driver dies           said, with how to go on                                             exit 6
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from onward_ledger.database import DatabaseError
from runs import events, registry
from runs.commands.answer import exit_code_of, view_of, write_run
from runs.commands.output import Format, say, visible
from runs.commands.services import LocalServer, Opened
from runs.errors import Exit, RunError
from runs.follow import Progress, progress_for_stderr
from runs.registry import Run, Status
from runs.settings import Settings

# How long a committed event may wait to be shown.
POLL_SECONDS = 0.1

LONGEST_LOG_BYTES = 10_000_000  # then it is put aside, once

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a driver ended. `message` is for the person at the terminal."""

    exit_code: int
    message: str
    lost_lease: bool = False


class _Asked:
    """Counts requests to stop. The handler only counts: writing from a handler could meet a write in progress."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


@contextlib.contextmanager
def _listening() -> Generator[_Asked]:
    asked = _Asked()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's: nobody asks here
        yield asked
        return
    before = {number: signal.signal(number, asked) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drive(opened: Opened, run_id: str, progress: Progress, *, after: int = 0) -> Ended:
    """Drive a run to where this driver leaves it, telling every event behind `after`."""
    with _listening() as asked, contextlib.closing(Driver(opened.settings, run_id)) as driver:
        _watch(opened, run_id, driver.process, progress, asked, after)
        return driver.ended(asked)


class Driver:
    """A driver process that this process has started."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        from runs.driver import spawn_driver

        self._run_id = run_id
        self._log = settings.home / "drivers.log"
        with _errors_to(self._log) as stderr:
            self.process = spawn_driver(run_id, settings, stderr=stderr)
        self._outcome = _Outcome(self.process)

    def ended(self, asked: _Asked | None = None) -> Ended:
        """How it ended; it is waited for. `asked`: how often somebody here asked it to stop."""
        self.process.wait()
        return _ended(self._run_id, self.process, self._outcome.read(), asked or _Asked(), self._log)

    def close(self) -> None:
        """End it at once, if it has not ended."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def _errors_to(log: Path) -> Generator[IO[bytes] | None]:
    """Where a driver's own words go: to a log, and to the terminal of who debugs."""
    if os.environ.get("ONWARD_DEBUG", "") not in ("", "0"):
        yield None
        return
    if log.exists() and log.stat().st_size > LONGEST_LOG_BYTES:
        log.replace(log.with_suffix(".old"))
    with log.open("ab") as file:
        yield file


class _Outcome:
    """Reads the driver's stdout to its end, so that it never waits for us; its last line is the outcome."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._last = b""
        self._reader = threading.Thread(target=self._drain, name="driver-stdout", daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._last = line

    def read(self) -> dict[str, Any] | None:
        """The outcome; None when the driver ended without one."""
        self._reader.join(timeout=5)
        try:
            found: object = json.loads(self._last)
        except ValueError:
            return None
        return found if isinstance(found, dict) and "exit_code" in found else None


def _watch(
    opened: Opened, run_id: str, process: subprocess.Popen[bytes], progress: Progress, asked: _Asked, after: int
) -> None:
    """Tell events and pass requests to stop on, until the driver has ended."""
    server = LocalServer(opened.settings)
    passed_on, silent = 0, False
    while True:
        ended = process.poll() is not None
        if not ended and asked.count > passed_on:
            passed_on = _pass_on(process, progress, asked.count)
        try:
            if server.revive():
                progress.note("The local Postgres was gone; it runs again.")
            after = _tell(opened, run_id, progress, after)
            silent = False
        except (DatabaseError, RunError) as error:
            if not silent:
                progress.note(f"The database does not answer; it is tried again. ({_first_line(error)})")
            silent = True
        if ended:
            return
        time.sleep(POLL_SECONDS)


def follow(opened: Opened, run_id: str, progress: Progress, *, after: int = 0) -> Ended:
    """Tell every event of a run that a worker drives, until it is left to somebody. Ctrl-C ends the telling only."""
    seen, resumed = f"See it with: onward show {run_id}", f"Go on with: onward resume {run_id}"
    with _listening() as asked:
        while True:
            after = _tell(opened, run_id, progress, after)
            run = registry.get(opened.database, run_id)
            if run.finished or run.status is Status.WAITING_HUMAN:
                _tell(opened, run_id, progress, after)
                return Ended(exit_code=exit_code_of(run), message=run.message or "")
            if asked.count:
                return Ended(exit_code=Exit.HANDED_BACK, message=f"No longer followed; a worker goes on. {seen}")
            if run.driver != "alive" and not has_worker(opened, run):
                return Ended(exit_code=Exit.HANDED_BACK, message=f"No worker is left. {resumed}")
            time.sleep(POLL_SECONDS)


def has_worker(opened: Opened, run: Run) -> bool:
    """Whether a living worker serves this run's version."""
    return any(run.workflow_version in worker["versions"] for worker in opened.database.read("workers"))


def _tell(opened: Opened, run_id: str, progress: Progress, after: int) -> int:
    """Tell what is behind `after`; the number of the last event told."""
    while page := events.read(opened.database, run_id, after=after):
        for event in page:
            progress.event(event)
        after = page[-1].seq
    return after


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _pass_on(process: subprocess.Popen[bytes], progress: Progress, count: int) -> int:
    if count == 1:
        progress.note("Stopping: finishing the current step; press again to stop at once.")
        process.terminate()
    else:
        progress.note("Stopping at once.")
        process.kill()
    return count


def _ended(
    run_id: str, process: subprocess.Popen[bytes], outcome: dict[str, Any] | None, asked: _Asked, log: Path
) -> Ended:
    how = f"Go on with: onward resume {run_id}"
    if outcome is not None:
        code, message = int(outcome["exit_code"]), str(outcome["message"])
        if code == Exit.HANDED_BACK:
            message = f"{message} {how}"
        return Ended(exit_code=code, message=message, lost_lease=outcome.get("reason") == "lease_lost")
    code = process.returncode
    if asked.count and (code == Exit.HANDED_BACK or code < 0):
        return Ended(exit_code=Exit.HANDED_BACK, message=f"Stopped at once; nothing is lost. {how}")
    if code == Exit.CONFLICT:
        message = "This driver has lost the run to another one, and has stopped."
        return Ended(exit_code=Exit.CONFLICT, message=message, lost_lease=True)
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        message = f"The driver (process {process.pid}) was ended by {name}; nothing is lost. {how}"
    else:
        last = _last_line(log)
        message = f"The driver (process {process.pid}) ended with exit code {code}: {last} (see {log}). {how}"
    return Ended(exit_code=Exit.HANDED_BACK, message=message)


def _last_line(log: Path) -> str:
    """What a driver that broke said last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2000))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"


def drive_and_answer(opened: Opened, run: Run, output: Format) -> int:
    """Drive a run in this terminal; then the run as it stands on stdout, and the exit code of the drive."""
    with contextlib.closing(progress_for_stderr()) as progress:
        ended = drive_here(opened, run, progress)
    say(ended.message)
    view = view_of(opened, run.run_id)
    say_what_comes_next(view, output)
    write_run(view, output)
    return ended.exit_code


def answer(opened: Opened, run: Run, output: Format) -> int:
    """A run that was only recorded: as it stands, and whether anybody will drive it. The exit code."""
    if not opened.database.read("workers"):
        say("No worker is running. Start one with: onward worker")
    write_run(view_of(opened, run.run_id), output)
    return Exit.OK


def drive_here(opened: Opened, run: Run, progress: Progress) -> Ended:
    """Drive a run in this process's sight, and say truly who has it where this driver could not."""
    if run.status is Status.QUEUED and run.wake_at is None and has_worker(opened, run):
        progress.note("A worker drives it; Ctrl-C stops following, and not the run.")
        return follow(opened, run.run_id, progress, after=run.last_seq)
    progress.note("Starting a driver; the first step follows in a few seconds.")
    ended = drive(opened, run.run_id, progress, after=run.last_seq)
    if ended.exit_code == Exit.CONFLICT:
        now = registry.get(opened.database, run.run_id)
        if now.driver == "alive" and now.driver_kind == "worker":
            progress.note("A worker drives it; Ctrl-C stops following, and not the run.")
            return follow(opened, run.run_id, progress, after=run.last_seq)
        return _look_again(now, ended)
    return ended


def _look_again(run: Run, ended: Ended) -> Ended:
    """What a driver that could not have the run leaves behind: another driver, a finished run, or nobody."""
    if run.driver == "alive":
        return ended
    if run.finished:
        return Ended(exit_code=exit_code_of(run), message=f"The run is finished: {run.status}. {ended.message}")
    if run.driver == "gone" and ended.lost_lease:
        how = f"Nobody drives the run now; nothing is lost. Go on with: onward resume {run.run_id}"
        return Ended(exit_code=Exit.HANDED_BACK, message=f"The driver lost its lease. {how}")
    return ended


def say_what_comes_next(view: dict[str, Any], output: Format) -> None:
    """Where the report lies, and what a person is asked; unless the same terminal shows it anyway."""
    if output == "table" and sys.stdout.isatty():
        return
    if view["report"] is not None:
        say(f"{'Report' if view['report']['published'] else 'Draft'}: {view['report']['html']}")
    if view["status"] == Status.WAITING_HUMAN:
        _say_what_waits(view)


def _say_what_waits(view: dict[str, Any]) -> None:
    approval = view["approval"]
    if approval is not None:
        say("Waiting for your decision:")
        say(f"  title     {visible(approval['title'])}")
        say(f"  resource  {visible(approval['resource'])}")
        say(f"  digest    {approval['digest']}")
    elif view["message"]:
        say(view["message"])
    for command in view["next_action"]["commands"]:
        say(f"  {command}")
