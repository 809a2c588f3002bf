"""The offline analyst, in a driver that does what a test has told it for this very run.

`tests.support.told_analyst:analyst` as the model, `ONWARD_TEST_TOLD=<folder>` in the environment of the worker. In the
folder a file named after the run says what its drivers do when a step begins:

    hold analyze#1    writes `<run> at` with its pid, and waits for `<run> go`
    die plan          kills itself
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from graph.models import OfflineAnalyst


def analyst() -> OfflineAnalyst:
    """The model; what it writes is the same as without any of this."""
    from runs.recorder import DriveRecorder

    folder, begin = Path(os.environ["ONWARD_TEST_TOLD"]), DriveRecorder.step_started

    def step_started(self: DriveRecorder, step: str) -> int:
        attempt = begin(self, step)
        _obey(folder, self._run_id, step)  # pyright: ignore[reportPrivateUsage]
        return attempt

    if begin.__module__ == DriveRecorder.__module__:  # once in a process
        DriveRecorder.step_started = step_started
    return OfflineAnalyst()


def _obey(folder: Path, run_id: str, step: str) -> None:
    told: Any = folder / run_id
    if not told.exists():
        return
    what, _, where = told.read_text().partition(" ")
    if where != step:
        return
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"{run_id} at").write_text(str(os.getpid()))
    while not (folder / f"{run_id} go").exists():
        time.sleep(0.01)
