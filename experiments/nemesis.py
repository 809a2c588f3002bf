"""The fault: this process ends at one point, without any clean-up, as if the machine had taken it.

exit   os._exit(86): no `finally`, no `atexit`, no flush; the code tells it from every other end
kill   SIGKILL, as the kernel, an operator or a container runtime sends it
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Literal

from experiments.boundaries import WORDS, Passing, Point
from experiments.story import CRASH, Story

EXIT_CODE = 86
How = Literal["exit", "kill"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which point is deadly, and how."""

    point: Point
    how: How = "exit"

    @property
    def exit_code(self) -> int:
        """What the process's parent sees, if the fault fired."""
        return EXIT_CODE if self.how == "exit" else -signal.SIGKILL


def armed(fault: Fault | None, story: Story) -> Passing:
    """What to call at every point that is passed. Without a fault nothing happens there."""

    def passing(point: Point) -> None:
        if fault is None or point != fault.point:
            return
        story.tell(CRASH + WORDS[point.when])
        if fault.how == "exit":
            os._exit(EXIT_CODE)
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()  # SIGKILL to oneself is on its way; nothing of ours runs any more

    return passing
