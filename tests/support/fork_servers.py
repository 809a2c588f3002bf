"""A fork server for one file of tests: a process has one at a time, and other tests leave theirs running."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any


@contextmanager
def own_fork_server() -> Iterator[None]:
    """Within this a fork server starts afresh, with what it is told to import; afterwards it is gone."""
    server: Any = forkserver._forkserver
    preloaded = list(server._preload_modules)
    server._stop()
    try:
        yield
    finally:
        server._stop()
        multiprocessing.get_context("forkserver").set_forkserver_preload(preloaded)
