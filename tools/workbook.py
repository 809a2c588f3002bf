"""The way in: an .xlsx or .csv file becomes a workbook of typed tables, and later the same again by another route.

Nothing is dropped: every cell of a sheet that holds something is a value of its table, its header or its quoted
title, or it is counted in a note (errors such as #DIV/0!, formulas without a stored value). A test counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tools import input_check, second_read
from tools.sheet import Column, Note, Progress, Sheet, Source, Workbook, silent
from tools.workbook_csv import read_csv
from tools.workbook_xlsx import read_xlsx

__all__ = ["Column", "Note", "Progress", "Sheet", "Source", "Workbook", "read_again", "read_workbook"]


def read_workbook(data: bytes | Path, name: str, progress: Progress | None = None) -> Workbook:
    """Read every sheet of a file.

    `name` is the file's name, for its kind and for what is said about it. `progress(text, done, total)` is called from
    the first moment on. Raises InputError with one sentence for the user when the file cannot be used.
    """
    tell = progress or silent
    tell("opening the file", 0, 1)
    content = input_check.load(data)
    if input_check.kind_of(content, name) == "xlsx":
        return read_xlsx(content, name, tell)
    return read_csv(content, name, tell)


def read_again(data: bytes | Path, name: str, profile: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """The tables of the profile's sheets a second time, by the route of `tools.second_read`.

    Raises InputError when the file cannot be used, and ReadsDiffer when a cell cannot be what the profile says.
    """
    content = input_check.load(data)
    return second_read.read_again(content, input_check.kind_of(content, name), profile)
