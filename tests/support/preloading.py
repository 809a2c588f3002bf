"""What the fork server of a test's process imports.

A process has one fork server, and whoever uses it first says what it imports. So everybody says the same: what any file
of tests forks. The guard's tests run where nothing of ours but the ledger is installed, so this imports no package.
"""

from __future__ import annotations

import importlib.util

from runs.forking import PRELOADED, fork_context

_TEMPORAL = ["tests.support.temporal_world"] if importlib.util.find_spec("temporalio") is not None else []

PRELOADED += [
    "onward_ledger.serve",
    "pytest",
    "tests.support.git_repos",
    "tests.support.ledger_process",
    "tests.support.runs_processes",
    "tests.support.s3_server",
    *_TEMPORAL,
]

CONTEXT = fork_context()
