"""The offline analyst, in a driver that can be held at the beginning of a step.

`--model tests.support.held_analyst:analyst`, with `ONWARD_TEST_HOLD=<folder>|<step>` in the environment. The driver
writes `at` into the folder when the step begins, and waits for `go`. So a test that kills it waits for an event, never
for a time; and the product needs no fail point, since any model of a user's own is loaded into the driver's process.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from graph.models import OfflineAnalyst


def analyst() -> OfflineAnalyst:
    """The model; it works like the one that is used without `--model`, so the report is the same."""
    if held := os.environ.get("ONWARD_TEST_HOLD"):
        folder, _, step = held.partition("|")
        _hold(Path(folder), step)
    return OfflineAnalyst()


def _hold(folder: Path, place: str) -> None:
    from runs.recorder import DriveRecorder

    begin = DriveRecorder.step_started

    def step_started(self: DriveRecorder, step: str) -> int:
        attempt = begin(self, step)
        if step == place:
            (folder / "at").write_text(str(os.getpid()))
            while not (folder / "go").exists():
                time.sleep(0.01)
        return attempt

    DriveRecorder.step_started = step_started
