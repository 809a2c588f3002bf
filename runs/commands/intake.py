"""The input as `onward run` takes it: looked at before anything is started, so that a wrong file costs no time."""

from __future__ import annotations

import os
from pathlib import Path


def check_input(path: Path) -> None:
    """Refuse what cannot be a workbook with InputError, a sentence that says what to do.

    Whether a workbook can be read to its last cell is found out by the step that reads it.
    """
    from tools.input_check import kind_of, load

    kind_of(load(path), valid_name(path))


def valid_name(path: Path) -> str:
    """The file's name as valid text: what is no UTF-8 in it is shown as a replacement character."""
    return os.fsencode(path.name).decode("utf-8", "replace")
