"""Children of the driver without their second of imports: the same programs, forked from the driver instead of exec'd.

A run starts three children: two readers of the workbook and the query server. Each of them imports polars or DuckDB,
which takes most of the time of a case. Here `python -m tools.reader_child` becomes a fork in which everything is
imported already and which then runs that module's `main` with the same pipes, arguments and environment.

What differs from the product: what the child inherits in memory. What does not: it is a process of its own, with its
own pipes, limits and end.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from typing import Any, NoReturn

# Imported by the fork server (`experiments.preload`); none of them starts a thread by being imported.
PROGRAMS = ("tools.reader_child", "tools.query_child")


def install() -> None:
    """Fork these programs in this process from now on."""
    subprocess.Popen = _Forking


class _Forking(subprocess.Popen[Any]):
    """`Popen` whose child is forked where the program is one of ours. Everything around the start is Popen's own."""

    def _execute_child(self, args: Any, *others: Any) -> None:
        words = [str(word) for word in args] if isinstance(args, list | tuple) else []
        if words[1:2] != ["-m"] or words[2] not in PROGRAMS:
            super()._execute_child(args, *others)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            return
        _, _, _, _, cwd, environment, _, _, _, reading, _, _, writing = others[:13]
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(words[2:], cwd, environment, reading, writing)
        self._child_created = True
        self._close_pipe_fds(*others[9:15])  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _be_child(words: list[str], cwd: Any, environment: dict[str, str], reading: int, writing: int) -> NoReturn:
    """The whole life of a forked child; nothing of the driver's may run in it."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        sys.argv = words
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - as long as it lives
        importlib.import_module(words[0]).main()
        sys.stdout.flush()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
