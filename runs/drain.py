"""Asking a drive to stop at the next safe place.

The first SIGTERM or Ctrl-C drains: LangGraph ends at the next super-step, nothing is repeated by a resume. The second
one ends the process at once, which is no worse than a SIGKILL: the run goes on from its last checkpoint.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from langgraph.runtime import RunControl

from runs.errors import Exit


class Drain:
    """A request to stop, shared by whatever runs in this process."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._controls: list[RunControl] = []

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop."""
        return self._requested.is_set()

    def request(self) -> None:
        """Ask to stop. May be called from a signal handler."""
        self._requested.set()
        for control in self._controls:
            control.request_drain("asked to stop")

    def control(self) -> RunControl:
        """A control for one invocation, which stops at once if that was asked for before."""
        control = RunControl()
        self._controls.append(control)
        if self.requested:
            control.request_drain("asked to stop")
        return control

    def wait(self, seconds: float) -> bool:
        """Let time pass, but no longer than until somebody asks to stop; whether somebody did."""
        return self._requested.wait(seconds)


def drain_on_signals(drain: Drain) -> None:
    """First SIGTERM or SIGINT: drain. Second: end the process at once."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if drain.requested:
            os._exit(Exit.HANDED_BACK)
        drain.request()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
