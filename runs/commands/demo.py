"""`onward demo`: the experiment of that name, as a process of its own, since it stands above this layer."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def demo(arguments: Sequence[str]) -> int:
    """Run it with these arguments to its end; its exit code is this command's."""
    process = subprocess.Popen([sys.executable, "-m", "experiments.demo", *arguments], cwd=ROOT)
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:
            # The terminal has sent it to the experiment as well; wait for it to clean up.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
