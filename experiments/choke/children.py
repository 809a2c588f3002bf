"""Child processes: before one is started, and when it has been."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.boundaries import Watch


def install(watch: Watch) -> None:
    """Watch the starts of child processes in this process."""
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def starting(self: Any, args: Any, *others: Any, **kwargs: Any) -> None:
        with watch.operation(f"start {program(args)}"):
            start(self, args, *others, **kwargs)

    subprocess.Popen.__init__ = starting


def program(args: str | Path | Sequence[object]) -> str:
    """The name of a program: the module of `python -m module`, else the file's name."""
    if isinstance(args, str | Path):
        return Path(args).name
    words = [str(word) for word in args]
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return Path(words[0]).name
