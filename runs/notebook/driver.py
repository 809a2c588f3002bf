"""A driver that runs while cells go on: a process of its own, to be followed, signalled and killed.

It ends with its kernel. What it had committed stays, and whoever resumes the run goes on from there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing

from runs import events
from runs.commands import driving
from runs.commands.output import visible_lines
from runs.events import Event
from runs.follow import Told
from runs.registry import Run
from runs.settings import Settings
from runs.store import open_store

# How soon an event is seen behind its commit. Short: whoever follows may want to kill at what it sees.
POLL_SECONDS = 0.002


class Driver:
    """A process that drives one run."""

    def __init__(self, settings: Settings, run: Run) -> None:
        self._settings = settings
        self._run_id = run.run_id
        self._after = run.last_seq
        self._driver = driving.Driver(settings, run.run_id)
        self.pid = self._driver.process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._driver.process.poll() is None

    def events(self) -> Iterator[Event]:
        """The run's events from this driver on, as they are committed, until the driver has ended.

        Breaking off ends nothing: a later call goes on where this one stopped.
        """
        with closing(open_store(self._settings).database("onward notebook")) as database:
            while True:
                ended = not self.alive
                for event in events.read(database, self._run_id, after=self._after):
                    self._after = event.seq
                    yield event
                if ended:
                    return
                time.sleep(POLL_SECONDS)

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended. SIGTERM lets it finish its step and hand the run back."""
        self._driver.process.send_signal(number)

    def kill(self) -> str:
        """SIGKILL, and wait for the end; how it ended, in words."""
        self._driver.process.kill()
        return self.wait()

    def wait(self) -> str:
        """Wait for the end; how it ended, in words."""
        return self._driver.ended().message

    def __repr__(self) -> str:
        return f"Driver(pid={self.pid}, {'alive' if self.alive else 'ended'})"


class CellProgress:
    """Progress as lines in the output of a cell: what stays, not every step on the way. See `runs.follow.Progress`."""

    _PASSING = frozenset({"step_started", "progress"})

    def __init__(self) -> None:
        self._told = Told()

    def note(self, text: str) -> None:
        """Say something that is no event."""
        sys.stdout.write(visible_lines(text) + "\n")
        sys.stdout.flush()

    def event(self, event: Event) -> None:
        """Tell one event."""
        for line in self._told.lines(event):
            if event.kind not in self._PASSING or event.data.get("attempt", 1) > 1:
                self.note(line)

    def close(self) -> None:
        """Nothing is held."""
