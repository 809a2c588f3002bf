"""A driver ends with the process that started it, not with the thread that asked for it."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import psutil

from runs import driver
from runs.settings import Settings
from tests.support.local_servers import wait_for

RUN = "11111111-2222-4333-8444-555555555555"


def ended_by(spawn, settings) -> int:
    """The signal that ends a driver which was asked for by a thread that ended, and was sent SIGTERM after that."""
    started, minds_its_parent = [], threading.Event()

    def passing():
        started.append(spawn(RUN, settings))
        minds_its_parent.wait()

    thread = threading.Thread(target=passing)
    thread.start()
    wait_for(lambda: started and psutil.Process(started[0].pid).num_threads() > 1)  # the one that waits for our end
    minds_its_parent.set()
    thread.join()
    wait_for(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
    with started[0] as process:
        process.terminate()
        return -process.wait()


def test_a_driver_outlives_the_thread_that_asked_for_it(tmp_path):
    settings = Settings(home=tmp_path, store="sqlite")
    assert ended_by(driver.spawn_driver, settings) == signal.SIGTERM
    # Started in that very thread, it has ended before: this is what the other one is for.
    assert ended_by(lambda run_id, given: driver._spawn(run_id, given, None), settings) == signal.SIGKILL
