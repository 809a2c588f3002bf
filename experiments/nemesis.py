"""The fault: what happens to a process at a boundary, without any clean-up, as if the machine had done it.

exit   os._exit(86): no `finally`, no `atexit`, no flush; the code tells it from every other end
kill   SIGKILL, as the kernel, an operator or a container runtime sends it
stop   SIGSTOP: it is not dead, only silent; it goes on where it was when somebody wakes it
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from typing import Literal

from experiments.boundaries import Boundary, Passing
from experiments.story import CRASH, STOP, WAKE, Story

EXIT_CODE = 86
How = Literal["exit", "kill", "stop"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which boundary is deadly, and how."""

    at: Boundary
    how: How = "exit"

    def __str__(self) -> str:
        return str(self.at)

    @property
    def exit_code(self) -> int | None:
        """What the process's parent sees, if the fault fired; None for a process that is only stopped."""
        return {"exit": EXIT_CODE, "kill": -signal.SIGKILL, "stop": None}[self.how]


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
