"""A host whose clock is wrong: a small library before the system's own, which adds what a file says to the wall clock.

It is compiled here, from skew.c, where there is a C compiler. Everything that the host's processes start inherits it.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

from experiments.errors import NotRun
from experiments.hosts.network import Host

SOURCE = Path(__file__).with_name("skew.c")
HOUR = 3600
_TOLERANCE_SECONDS = 60


def compile_library(folder: Path) -> Path:
    """The library. NotRun where it cannot be made."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotRun("A clock cannot be shifted here: there is no C compiler (cc).")
    library = folder / "skew.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRun(f"A clock cannot be shifted here: {compiler} says {done.stderr.strip().splitlines()[-1]}")
    return library


class Clock:
    """The clock of a host's processes, which are started with `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        self.shift(0)

    @property
    def environment(self) -> dict[str, str]:
        """What the processes need to be told."""
        return {"LD_PRELOAD": str(self._library), "ONWARD_EXPERIMENT_CLOCK": str(self._file)}

    def shift(self, seconds: int) -> None:
        """From now on the clock is so far ahead of the machine's; negative: behind."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:  # in place: the file is mapped
            file.write(struct.pack("=q", seconds))

    def check(self, host: Host, seconds: int) -> None:
        """NotRun when a process of the host does not see the shift."""
        command = host.inside([sys.executable, "-S", "-c", "import time; print(time.time())"])
        said = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True).stdout
        if abs(float(said) - time.time() - seconds) > _TOLERANCE_SECONDS:
            raise NotRun(f"The clock of {host.name} cannot be shifted here: a process there saw no change.")
