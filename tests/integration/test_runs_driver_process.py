"""The driver as its own process: it ends with the one that started it, however that one ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import psutil

from runs.settings import Settings, prepare_home
from tests.support.runs_world import until

PARENT = """
import sys, time
from pathlib import Path
from runs.driver import spawn_driver
from runs.settings import Settings
driver = spawn_driver("00000000-0000-4000-8000-000000000000", Settings(home=Path(sys.argv[1]), store="sqlite"))
print(driver.pid, flush=True)
time.sleep(60)
"""


def test_a_driver_dies_with_a_killed_parent_also_in_the_middle_of_a_call(tmp_path):
    """Without it, it would wait 30 seconds for a ledger that never answers."""
    home = tmp_path / "home"
    prepare_home(Settings(home=home))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environment = {**os.environ, "ONWARD_LEDGER_URL": url, "ONWARD_LEDGER_TOKEN": "a token of some length"}
        with subprocess.Popen(
            [sys.executable, "-c", PARENT, str(home)], stdout=subprocess.PIPE, env=environment
        ) as parent:
            pid = int(parent.stdout.readline())
            driver = psutil.Process(pid)
            assert os.getsid(pid) == pid  # Ctrl-C in the terminal is not for it
            connection, _ = silent.accept()  # it is in the middle of a call now
            assert driver.is_running()
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            until(lambda: not psutil.pid_exists(pid) or driver.status() == psutil.STATUS_ZOMBIE, 5)
        connection.close()
