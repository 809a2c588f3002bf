"""The fault: what happens to a process at a boundary, without any clean-up, as if the machine had done it.

exit   os._exit(86): no `finally`, no `atexit`, no flush; the code tells it from every other end
kill   SIGKILL, as the kernel, an operator or a container runtime sends it
stop   SIGSTOP: it is not dead, only silent; it goes on where it was when somebody wakes it
meet   nothing happens to it: it says that it is there, and goes on when it is told to
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.boundaries import Boundary, Passing
from experiments.story import CRASH, STOP, WAKE, Story

EXIT_CODE = 86
How = Literal["exit", "kill", "stop", "meet"]

# Whoever waits at a meeting goes on by itself after this time.
MEETING_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which boundary is deadly, and how. `meeting`: the folder in which a process that meets somebody says so."""

    at: Boundary
    how: How = "exit"
    meeting: Path | None = None

    def __str__(self) -> str:
        return str(self.at)

    @property
    def exit_code(self) -> int | None:
        """What the process's parent sees, if the fault fired; None for a process that is only stopped."""
        return {"exit": EXIT_CODE, "kill": -signal.SIGKILL}.get(self.how)


def armed(fault: Fault | None, story: Story) -> Passing:
    """What to call at every boundary that is passed. Without a fault nothing happens there."""
    if fault is None:
        return lambda boundary: None

    def passing(boundary: Boundary) -> None:
        if boundary == fault.at:
            strike(fault, story)

    return passing


def strike(fault: Fault, story: Story) -> None:
    """Let the fault happen to this process now."""
    if fault.how == "meet":
        _meet(fault, story)
        return
    if fault.how == "stop":
        story.tell(f"{STOP}{fault.at}")
        # Every thread of it stops. To this thread, or another one takes the signal and this one gets a step further.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        story.tell(f"{WAKE}{fault.at}")
        return
    story.tell(f"{CRASH}{fault.at}")
    if fault.how == "exit":
        os._exit(EXIT_CODE)
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # SIGKILL to oneself is on its way; nothing of ours runs any more


def _meet(fault: Fault, story: Story) -> None:
    """Only the thread that has come here waits; the others go on."""
    assert fault.meeting is not None
    story.tell(f"{STOP}{fault.at}")
    (fault.meeting / "here").touch()
    deadline = time.monotonic() + MEETING_SECONDS
    while not (fault.meeting / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    story.tell(f"{WAKE}{fault.at}")
