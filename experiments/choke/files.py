"""Files put in place, and objects put into a store: what stays when the process is gone."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from experiments.boundaries import Watch

_IN_PLACE = {"replace": "replace a file", "rename": "rename a file", "link": "link a file"}
_OBJECTS = {
    "put": "put an object",
    "delete": "delete an object",
    "copy": "copy an object",
    "rename": "rename an object",
}


def install(watch: Watch) -> None:
    """Watch replacements of files, and obstore, in this process."""
    import obstore

    for module, names in ((os, _IN_PLACE), (obstore, _OBJECTS)):
        for name, label in names.items():
            setattr(module, name, _watched(watch, getattr(module, name), label))


def _watched(watch: Watch, function: Callable[..., Any], label: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        with watch.operation(label):
            return function(*args, **kwargs)

    return watched


def install_opening(watch: Watch) -> None:
    """Watch files that are opened for writing as well: for programs that keep their effects in plain files.

    Python tells of an opening before it happens, so this is a point before it and nothing behind it.
    """

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and isinstance(args[1], str) and set(args[1]) & set("wax+"):
            watch.point("open a file for writing")

    sys.addaudithook(hear)
