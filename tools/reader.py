"""Read a workbook in a process of its own, into Parquet files.

Reading is where a hostile or huge file does its harm: it takes memory in proportion to the file, and it parses. In a
child, what it took is given back when it ends, a crash takes nobody with it, and the driver stays small.

The child gets one JSON line on its stdin and answers with JSON lines: `{"progress": [text, done, total]}` any number of
times, then `{"done": …}`, `{"refused": sentence}` or `{"differs": sentence}`. Stdin stays open: its end tells the child
that we are gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tools.errors import InputError, ReaderDied, ReadsDiffer
from tools.process import at_work
from tools.query import KEPT_ENVIRONMENT, SET_ENVIRONMENT, TableFile
from tools.sheet import Progress, silent

REPOSITORY: Final = Path(__file__).resolve().parent.parent

Task = Literal["first", "second"]


@dataclass(frozen=True, kw_only=True)
class Read:
    """What a read gave: a Parquet file for each sheet, and after a first read the workbook's profile."""

    tables: tuple[TableFile, ...]
    profile: dict[str, Any] | None


def read_first(source: Path, name: str, folder: Path, progress: Progress = silent) -> Read:
    """Read every sheet of `source` (called `name` by its owner) into `folder`, and describe the workbook.

    Raises InputError with one sentence for the user when the file cannot be used, ReaderDied when the child did not
    live to say so. `progress` may raise: the child is ended then.
    """
    return _read({"task": "first", "source": str(source), "name": name, "folder": str(folder)}, progress)


def read_second(
    source: Path, name: str, folder: Path, profile: dict[str, Any], progress: Progress = silent
) -> dict[str, Path]:
    """Read `source` again by the other route (`tools.second_read`): the Parquet file of each sheet by its name.

    Raises ReadsDiffer when a cell cannot be what the profile says.
    """
    request = {"task": "second", "source": str(source), "name": name, "folder": str(folder), "profile": profile}
    return {table.sheet: table.path for table in _read(request, progress).tables}


def _read(request: dict[str, Any], progress: Progress) -> Read:
    # No secrets in its environment, and a process group of its own: Ctrl-C at the terminal is for the driver.
    environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    child = subprocess.Popen(
        [sys.executable, "-m", "tools.reader_child", str(os.getpid())],
        cwd=REPOSITORY,
        env=environment | SET_ENVIRONMENT | {"TMPDIR": request["folder"]},  # a copy of the input dies with the folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        process_group=0,
    )
    at_work(child)
    try:
        return _answer(child, request, progress)
    finally:
        child.kill()
        child.communicate()


def _answer(child: subprocess.Popen[str], request: dict[str, Any], progress: Callable[[str, int, int], None]) -> Read:
    assert child.stdin is not None, "opened with a pipe"
    assert child.stdout is not None, "opened with a pipe"
    try:
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
    except BrokenPipeError as error:
        raise _died(child) from error
    for line in child.stdout:
        match json.loads(line):
            case {"progress": [text, done, total]}:
                progress(text, done, total)
            case {"refused": sentence}:
                raise InputError(sentence)
            case {"differs": sentence}:
                raise ReadsDiffer(sentence)
            case {"done": {"tables": tables, "profile": profile}}:
                return Read(
                    tables=tuple(TableFile(sheet=t["sheet"], path=Path(t["path"])) for t in tables), profile=profile
                )
            case other:
                raise AssertionError(f"the reader said {other!r}")
    raise _died(child)


def _died(child: subprocess.Popen[str]) -> ReaderDied:
    code = child.wait()
    how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
    return ReaderDied(f"The process that reads the workbook {how}. If it happens again, the file needs more memory.")
