"""What the fork server of a test's process imports.

A process has one fork server, and whoever uses it first says what it imports. So everybody says the same: what any file
of tests forks.
"""

from __future__ import annotations

import importlib.util
import multiprocessing

from runs import crew

_TEMPORAL = ["tests.support.temporal_world"] if importlib.util.find_spec("temporalio") is not None else []

crew.PRELOADED += [
    "onward_ledger.serve",
    "pytest",
    "tests.support.git_repos",
    "tests.support.ledger_process",
    "tests.support.runs_processes",
    "tests.support.s3_server",
    *_TEMPORAL,
]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(crew.PRELOADED)
